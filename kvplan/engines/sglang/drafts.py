"""Steps and tokens of drafts where nobody gave them: server_args.py auto_choose_speculative_params, 0.4.6 to 0.5.23; layers they are
charged for."""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options, Speculation, read_speculative
from kvplan.engines.common.protocol import Drafter
from kvplan.engines.sglang.pages import DECODE_ALONE
from kvplan.engines.sglang.rules import CHAIN, TREES, SglangRules
from kvplan.errors import SpecError

BRANCHES = 4  # of a step of the tree that is picked by itself
OWN_DRAFTS = ("mtp", "nextn", "eagle")  # EAGLE without a model means the checkpoint's own modules too
#: Models that draft with modules of their own, given the target's path for a draft's (arg_groups/speculative_hook.py _handle_eagle_family).
DRAFTS_BY_PATH = frozenset({
    "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM",
    "GlmMoeDsaForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "BailingMoeV2_5ForCausalLM", "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration", "HYV3ForCausalLM", "HYV4ForCausalLM", "Qwen4ExpForConditionalGeneration",
})  # fmt: skip
#: Models whose config counts such modules in another key than num_nextn_predict_layers, or in none.
UNNAMED_DRAFTS = frozenset({
    "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiniCPMV4_6ForConditionalGeneration", "MiniMaxM2ForCausalLM",
    "Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
#: ... of which each step has one (arg_groups/overrides.py _mimo_v2_overrides; multi_layer_eagle_worker_v2.py draft_runner_list).
A_MODULE_A_STEP = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM")
#: ... whose config is made to count one where it counts none (configs/model_config.py of 0.5.23, where is_draft_model).
MADE_TO_COUNT = frozenset({"DeepseekV4ForCausalLM", "HYV3ForCausalLM", "HYV4ForCausalLM", "Qwen4ExpForConditionalGeneration"})


def with_steps(d: Deployment, rules: SglangRules) -> tuple[Deployment, tuple[str, ...]]:
    """The question with `METHOD:auto` filled in, and a note that says so. Raises SpecError where tokens are given without steps."""
    spec = read_speculative(d.speculative)
    if spec is None or spec.tokens:
        return d, ()
    if Options(d).count("speculative_num_draft_tokens"):
        raise SpecError("speculative", [("", "speculative_num_draft_tokens is given: say the steps too, such as eagle:3")])
    architecture = d.model.architecture
    chain = architecture not in TREES if rules.chains is None else architecture in rules.chains
    steps, tokens = CHAIN if chain or spec.method in ("standalone", "draft_model") else rules.tree
    said = f"{spec.method}:{steps}" + (f":{spec.model}" if spec.model else "")
    options = [("speculative_num_draft_tokens", str(tokens))]
    if tokens != steps + 1:
        options.append(("speculative_eagle_topk", str(BRANCHES)))
    note = f"sglang picks {steps} steps and {tokens} tokens to verify for this model"
    return replace(d, speculative=said, engine_option=(*d.engine_option, *options)), (note,)


def in_pages(d: Deployment, rules: SglangRules) -> tuple[Deployment, tuple[str, ...]]:
    """The question with a chain for a tree that a release does not draft in pages (0.4.6 server_args.py)."""
    paged = (d.block_size or 1) > 1 or Options(d).text("attention_backend") in DECODE_ALONE  # which sets its own before
    if not rules.chained_pages or not paged or not is_tree(d):
        return d, ()
    kept = tuple((key, value) for key, value in d.engine_option if key not in ("speculative_num_draft_tokens", "speculative_eagle_topk"))
    return replace(d, engine_option=kept), ("sglang drafts a chain here, no tree: pages have more than one token",)


def is_tree(d: Deployment) -> bool:
    """Whether a drafter's steps branch: more than one token of a step is kept, or other tokens are verified than a chain's."""
    spec, options = read_speculative(d.speculative), Options(d)
    if spec is None or spec.method == "ngram":
        return False
    told = options.count("speculative_num_draft_tokens")
    return (options.count("speculative_eagle_topk") or 1) > 1 or told not in (None, spec.tokens + 1)


def draft_layers(d: Deployment, rules: SglangRules, spec: Speculation | None, found: Drafter | None) -> int:
    """Layers of the draft model that a token is charged for; one where it is not known, none where the release looks for none, or where
    a config counts no modules of its own (num_nextn_predict_layers 0: spec_aux_hidden_state.py _resolve_eagle_aux_hidden_state).
    """
    if spec is None or spec.method == "ngram":
        return 0
    told = Options(d).count("speculative_draft_layers")
    if told or not counts_drafts(d, rules, spec):
        return told or 0
    named = d.model.architecture
    bare = spec.model is None and spec.method in OWN_DRAFTS and named is not None and named not in MADE_TO_COUNT
    return len(found.layers) if found else int(not bare)


def counts_drafts(d: Deployment, rules: SglangRules, spec: Speculation) -> bool:
    """Whether a token is charged for its row in the draft's pool: a model's own modules are not always seen when the budget is divided.

    Source: model_executor/model_runner.py, ModelRunner.__init__ (0.5.14); spec_aux_hidden_state.py, _resolve_eagle_aux_hidden_state.
    """
    architecture = d.model.architecture
    if not rules.draft_in_cell or spec.model is not None or spec.method not in OWN_DRAFTS or architecture is None:
        return bool(rules.draft_in_cell)
    return architecture in DRAFTS_BY_PATH or (rules.draft_in_cell == "counted" and architecture not in UNNAMED_DRAFTS)
