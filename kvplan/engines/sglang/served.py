"""The question as a release serves it, before its defaults: what a model's class or another setting decides, asked or not."""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import in_force, release
from kvplan.engines.common.settling import checkpoint_format, served_in
from kvplan.engines.sglang import deepseek_v41, exchange, inkling
from kvplan.engines.sglang.as_read import as_read
from kvplan.engines.sglang.backends import named_backends
from kvplan.engines.sglang.classes import BY_TRANSFORMERS, TEXT_FIRST, TOWERLESS
from kvplan.engines.sglang.drafts import in_pages, with_steps
from kvplan.engines.sglang.facts import FACTS
from kvplan.engines.sglang.rules import SglangRules
from kvplan.engines.sglang.traits import Traits
from kvplan.errors import UnsupportedError

#: A backend that no prefixes are kept with (server_args.py; arg_groups/attention_hook.py).
KEEPS_NONE, RENAMED = "dual_chunk_flash_attn", (0, 5, 23)  # the release that gives TokenSpeed's name to another (serving_hook.py)


def as_served(d: Deployment, version: str, rules: SglangRules) -> tuple[Deployment, tuple[str, ...]]:
    """The question with the model as read, the steps of its drafts, the ranks that share experts and the type it computes in, and notes.

    Raises UnsupportedError for a hybrid that transformers' code runs (model_loader/utils.py resolve_transformers_arch).
    """
    if (run := BY_TRANSFORMERS.get(d.model.architecture or "")) and in_force(*run, version):
        raise UnsupportedError(f"sglang {version} runs {d.model.architecture} by transformers' code, without states: not modelled")
    if d.kv_memory is not None:  # a question about the cache alone; else the weights do not load (refusals.py)
        d = replace(d, model=as_read(d.model, rules))
    early = tuple[str, ...]()
    if d.model.architecture == deepseek_v41.CLASS and release(version) >= release(deepseek_v41.BUILDS_SINCE):
        d = replace(d, model=d.model.changed(architecture=deepseek_v41.SERVED_AS))
        if release(version) < release(deepseek_v41.SINCE):
            early = (f"no sglang before {deepseek_v41.SINCE} has {deepseek_v41.CLASS}: taken for a build that has it",)
    d, alone = _one_role(d)
    if release(version) >= RENAMED and "tokenspeed_mla" in [Options(d).text(f"{phase}attention_backend") for phase in ("", "decode_")]:
        d, alone = replace(d, kv_dtype="fp8_e4m3"), (*alone, "tokenspeed_mla is another name of cutedsl_mla here, with fp8_e4m3 rows")
    d, own_defaults = inkling.as_served(d, version)
    d, picked = with_steps(d, rules)
    d, chained = in_pages(d, rules)
    picked = (*picked, *chained)
    shared, d = d.ep, exchange.spread(d)
    if shared != d.ep:
        picked = (*picked, f"sglang shares experts by all {d.tp} ranks of tp under moe_a2a_backend {exchange.backend(d)}")
    since = TEXT_FIRST.get(d.model.architecture or "")
    if since and d.model.towers and d.multimodal is None and release(version) >= release(since):
        d = replace(d, multimodal="off")
        picked = (*picked, "sglang serves this model without images unless --enable-multimodal (multimodal on) is given")
    if d.model.architecture == "GptOssForCausalLM" and d.dtype and "mxfp4" in checkpoint_format(d):
        d, picked = replace(d, dtype="bf16"), (*picked, "sglang serves gpt-oss in MXFP4 in bf16, whatever dtype is asked")
    own = canonical(d.model.dtype, "dtype")  # configs/model_config.py _get_and_verify_dtype
    d, served = served_in(d, own if own != "f32" else "bf16" if (d.model.architecture or "").startswith("Gemma") else "f16", FACTS.title)
    return d, (*early, *alone, *own_defaults, *picked, *served)


def _one_role(d: Deployment) -> tuple[Deployment, tuple[str, ...]]:
    """What a server that only decodes, that scores several items in a prompt, or that was told of no chunk, goes without."""
    options = Options(d)
    keeps = options.flag("disaggregation_decode_enable_radix_cache")
    decodes = options.text("disaggregation_mode") == "decode" and not keeps
    scores = options.flag("enable_mis")
    whole = scores or options.flag("zero_chunk")
    off = ["disable_radix_cache"] * (decodes or scores or named_backends(d).both == KEEPS_NONE)
    off += ["disable_chunked_prefill"] * whole + ["disable_prefill_cuda_graph"] * scores
    off = [name for name in off if not options.flag(name)]
    if scores:
        d = replace(d, enforce_eager=True, max_num_batched_tokens=None)
    d = replace(d, engine_option=(*d.engine_option, *((name, "true") for name in off)))
    return d, ("sglang keeps no prefixes in a server that only decodes",) if decodes else ()


def forced_groups(d: Deployment, version: str, rules: SglangRules, traits: Traits) -> tuple[Deployment, bool, tuple[str, ...]]:
    """What a release sets for a model with an indexer, asked or not: attention data parallelism (True) and the fraction; what is said."""
    if not rules.dsa_dp or traits.pooled_index is None:
        return d, False, ()
    said = [f"sglang {version} serves this model with attention data parallelism over all of tp, as asked or not"]
    if release(version) < (0, 5, 5) and (capability(d) or 0) >= 100 and d.kv_dtype not in (None, "auto", "fp8_e4m3"):
        d = replace(d, kv_dtype="fp8_e4m3")
        said.append(f"sglang {version} keeps this model's rows in fp8_e4m3 on Blackwell, whatever is asked")
    if rules.dsa_fraction:
        d = replace(d, memory_fraction=rules.dsa_fraction)
        said.append(f"sglang {version} sets mem_fraction_static to {rules.dsa_fraction} for this model, whatever is asked")
    return d, True, tuple(said)


def towerless(d: Deployment, version: str) -> bool:
    """Whether a class that is served without images leaves out the weights that see them, too."""
    named = d.model.architecture or ""
    return d.multimodal == "off" and named in TOWERLESS and release(version) >= release(TEXT_FIRST[named])
