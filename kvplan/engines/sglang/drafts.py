"""Steps and tokens of drafts where nobody gave them: server_args.py auto_choose_speculative_params, 0.4.6 to 0.5.23."""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.sglang.rules import CHAIN, TREES, SglangRules
from kvplan.errors import SpecError

BRANCHES = 4  # of a step of the tree that is picked by itself


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
    if not rules.chained_pages or (d.block_size or 1) == 1 or not is_tree(d):
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
