"""When vLLM's checks stop a settled question, as the numbers of their texts (refusals.py).

Read from the wheels of vllm 0.5.5 to 0.33.0: `config/*`, `engine/arg_utils.py`, `platforms/cuda.py`, `model_executor/layers/*`,
`v1/worker/*`, `v1/core/kv_cache_utils.py`; for V0 `config.py` and `worker/worker.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common import conditions as on
from kvplan.engines.common.lines import query_heads
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Values
from kvplan.engines.vllm.classes import UNNAMED, WITHOUT_ADAPTERS, WITHOUT_STAGES
from kvplan.engines.vllm.encoders import in_one_step
from kvplan.engines.vllm.model import longest_of, pools
from kvplan.engines.vllm.registered import REGISTRY, before_its_class
from kvplan.engines.vllm.settings import settings_of
from kvplan.engines.vllm.settle import WITHOUT_F16


class Least(NamedTuple):
    """The compute capability that a method needs from a release on."""

    since: str
    method: str
    least: int


#: `get_min_capability` of the quantisation configs and, where a config leaves it to them, of their schemes: format or family -> rows.
CAPABILITIES: dict[str, tuple[Least, ...]] = {
    "awq": (Least("", "awq", 75),),
    "fp8": (Least("", "fp8", 80), Least("0.14", "fp8", 75)),
    "fp8_channel": (Least("", "compressed-tensors", 80), Least("0.16", "compressed-tensors", 75)),
    "nvfp4": (Least("", "modelopt_fp4", 100), Least("0.9", "modelopt_fp4", 80), Least("0.14", "modelopt_fp4", 75)),
    "mxfp": (Least("", "mxfp4", 80),),
    "int": (Least("", "compressed-tensors", 80), Least("0.12", "compressed-tensors", 75)),
    "int8_channel": (Least("", "compressed-tensors", 75),),
    "bitsandbytes": (Least("", "bitsandbytes", 70),),
}
#: Methods whose schemes make the check: it is theirs to say.
BY_SCHEME = ("compressed-tensors",)
#: max_lora_rank from a release on (config/lora.py).
LORA_RANKS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("0.5", (8, 16, 32, 64, 128, 256)),
    ("0.8", (8, 16, 32, 64, 128, 256, 320, 512)),
    ("0.12", (1, 8, 16, 32, 64, 128, 256, 320, 512)),
)


def asked_release(settled: Settled) -> tuple[int, ...]:
    """The release's numbers; of a name without one, beyond all."""
    return release(settled.question.engine_version or "") or (10**6,)


def choices_of(settled: Settled, table: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[int, ...]:
    """The row of a release; empty before the first."""
    return next((row for since, row in reversed(table) if asked_release(settled) >= release(since)), ())


def on_gpu(settled: Settled) -> bool:
    return settings_of(settled).platform == "cuda"


def longer(settled: Settled) -> Values:
    s = settings_of(settled)
    most = longest_of(settled.question.model, s.rules)
    return {"length": s.max_model_len, "most": most} if most and s.max_model_len > most and not s.allow_long else None


def heads(settled: Settled) -> Values:
    return on.uneven_heads(settings_of(settled).served, settings_of(settled).tp)


def kv_dealt(settled: Settled) -> Values:
    found = on.uneven_kv_heads(settled.model, settings_of(settled).tp)
    return found if found and int(str(found["kv_heads"])) > settings_of(settled).tp else None


def kv_copied(settled: Settled) -> Values:
    return on.uneven_kv_heads(settled.model, settings_of(settled).tp)


def widths(settled: Settled) -> Values:
    return on.uneven_widths(settled.model, settings_of(settled).tp, experts_whole=True, of=("mlp_down", "shared_down"))


def expert_widths(settled: Settled) -> Values:
    whole = (settled.question.ep or 1) > 1
    return on.uneven_widths(settled.model, _ranks(settled, of_experts=True), experts_whole=whole, of=("expert_down",))


def whole_items(settled: Settled) -> Values:
    """The largest image or video that must go in whole, and does not."""
    s = settings_of(settled)
    item, tokens = in_one_step(settled.question, s), s.max_num_batched_tokens
    return {"item": item, "tokens": tokens} if item > tokens else None


def sleeping(settled: Settled) -> Values:
    """Sleep mode's pools beside torch's growing segments."""
    options = Options(settled.question)
    return {} if options.growing_segments() and options.flag("enable_sleep_mode") else None


def few_tokens(settled: Settled) -> Values:
    s = settings_of(settled)
    return {"tokens": s.max_num_batched_tokens, "seqs": s.max_num_seqs} if s.max_num_batched_tokens < s.max_num_seqs else None


def whole_prompts(settled: Settled) -> Values:
    """Without chunked prefill a batch that can not hold the longest prompt."""
    s = settings_of(settled)
    tokens, length = s.max_num_batched_tokens, s.max_model_len
    asked = "max_num_batched_tokens" not in settled.chosen_by
    return {"tokens": tokens, "length": length} if asked and not s.chunked and tokens < length else None


def one_group_connector(settled: Settled) -> Values:
    """A tier by kv_offloading_size while the hybrid manager is on: LMCache's connector up to 0.21, the engine's own up to 0.20."""
    options = Options(settled.question)
    lmcache = options.text("kv_offloading_backend") == "lmcache"
    if not options.text("kv_offloading_size") or not settings_of(settled).hybrid:
        return None
    if not lmcache and asked_release(settled) >= release("0.21"):
        return None
    return {"connector": "LMCacheConnectorV1" if lmcache else "OffloadingConnector"}


def unsized_offloading(settled: Settled) -> Values:
    options = Options(settled.question)
    return {} if options.text("kv_offloading_size") and options.text("kv_offloading_backend") != "lmcache" else None


def bf16(settled: Settled) -> Values:
    d = settled.question
    found = on.too_old(settled, 80) if on_gpu(settled) and on.computes_in(settled, "bf16") else None
    return {"gpu": d.device.name if d.device else "", "has": on.version_of(int(str(found["has"])))} if found else None


def f16(settled: Settled) -> Values:
    named = settled.question.model.architecture
    return {"kind": named} if named in WITHOUT_F16 and on.computes_in(settled, "f16") else None


def capability(settled: Settled, by_scheme: bool = False) -> Values:
    """Below what the method needs; `by_scheme`: where its schemes make the check."""
    name, family = on.scheme_of(settled)
    rows = CAPABILITIES.get(name) or CAPABILITIES.get(family) or ()
    row = next((r for r in reversed(rows) if not r.since or asked_release(settled) >= release(r.since)), None)
    if row is None or not on_gpu(settled) or (row.method in BY_SCHEME) is not by_scheme:
        return None
    found = on.too_old(settled, row.least)
    return {"method": row.method, **found} if found else None


def _own(settled: Settled) -> bool:
    """The checkpoint's own format: of one that is only asked for, the released files' widths may be padded."""
    return settled.question.weight_dtype in (None, checkpoint_format(settled.question))


def groups(settled: Settled) -> Values:
    found = on.split_groups(settled, settings_of(settled).tp, ("awq", "gptq"))
    return next(({"inputs": part.inputs, "group": group} for part, group in found), None) if _own(settled) else None


def kernel_groups(settled: Settled) -> Values:
    found = on.split_groups(settled, settings_of(settled).tp, ("int",))
    return next(({"inputs": part.inputs, "group": group} for part, group in found), None) if _own(settled) else None


#: Matrices that lie alone: from 0.14 on those that share one (Q, K and V; gate and up) may end within a block.
ALONE = frozenset({"q_b", "kv_b"})


def _ranks(settled: Settled, *, of_experts: bool) -> int:
    """Over how many ranks a matrix is split; experts over those of all replicas."""
    s = settings_of(settled)
    return s.role_tp["experts"] if of_experts else s.tp


def blocks(settled: Settled, *, row: bool = False, of_experts: bool = False, names: frozenset[str] = on.BLOCKED) -> Values:
    """A rank's part of a matrix, its inputs (`row`) or outputs, that is no whole number of FP8 blocks."""
    whole = (settled.question.ep or 1) > 1
    found = on.split_blocks(settled, _ranks(settled, of_experts=of_experts), block=128, format_="fp8_block128", experts_whole=whole)
    sides = (side for part, side in found if part.name in names and part.row is row and part.name.startswith("expert") is of_experts)
    side = next(sides, None)
    return None if side is None else {"side": side, "block": 128}


def generates(settled: Settled) -> Values:
    """An encoder whose embeddings are all that there is, asked to generate (config/model.py ModelConfig, is_generative_model)."""
    model = settled.question.model
    version = settled.question.engine_version
    listed = model.architecture in REGISTRY.first and not before_its_class(model.architecture, version)
    encoder = pools(model) and (not model.lm_head or listed)
    return {} if encoder and Options(settled.question).text("runner") == "generate" else None


def lora_rank(settled: Settled) -> Values:
    lora, choices = read_lora(settled.question.lora), choices_of(settled, LORA_RANKS)
    return {"rank": lora.rank, "ranks": str(choices)} if lora and choices and lora.rank not in choices else None


def dcp(settled: Settled) -> Values:
    """The KV heads of a model without latent attention, an encoder's too, must be fewer than tp, and their copies as many as dcp."""
    s, model, heads = settings_of(settled), settled.question.model, on.kv_heads(settled.model)
    if pools(model):
        heads = {getattr(m, "kv_heads", 0) or getattr(m, "heads", 0) for block in model.blocks.values() for m in block.mixers}
    if s.dcp == 1 or len(heads) != 1:
        return None
    n = min(heads)
    return {"tp": s.tp, "kv_heads": n} if s.tp <= n else None


def dcp_most(settled: Settled) -> Values:
    s, heads = settings_of(settled), on.kv_heads(settled.model)
    n = min(heads, default=0)
    return {"dcp": s.dcp, "most": s.tp // n, "tp": s.tp, "kv_heads": n} if s.dcp > 1 and len(heads) == 1 and s.dcp > s.tp // n else None


def dcp_queries(settled: Settled) -> Values:
    """Query heads of one KV head are shared by the ranks that split a sequence; latent attention has no such heads."""
    s, heads = settings_of(settled), on.kv_heads(settled.model)
    if s.dcp == 1 or len(heads) != 1:
        return None
    n = query_heads(settled.model) // min(heads)
    return {"queries": n, "dcp": s.dcp} if n % s.dcp else None


def stages(settled: Settled) -> Values:
    return {} if settings_of(settled).pp > 1 and settled.question.model.architecture in WITHOUT_STAGES else None


def whole_states(settled: Settled) -> Values:
    s = settings_of(settled)
    return {} if s.state_mode == "align" and not s.chunked else None


def unnamed(settled: Settled) -> Values:
    return {} if settings_of(settled).pp > 1 and settled.question.model.architecture in UNNAMED else None


def adapters(settled: Settled) -> Values:
    d = settled.question
    return {"kind": d.model.architecture, "name": d.model.id} if read_lora(d.lora) and d.model.architecture in WITHOUT_ADAPTERS else None


def latent_nvfp4(settled: Settled) -> Values:
    return {} if on.latent(settled) and settings_of(settled).formats.k == "nvfp4" else None


#: Backends that `--attention-backend` may name: for latent attention, and the majors of compute capability that they run on; none: any
#: (`is_mla` and `supports_compute_capability` of the classes in v1/attention/backends, 0.12 to 0.33).
LATENT_BACKENDS: dict[str, tuple[int, ...]] = {
    "FLASHMLA": (9, 10), "FLASH_ATTN_MLA": (9,), "CUTLASS_MLA": (10,), "FLASHINFER_MLA": (10,), "TRITON_MLA": (),
}  # fmt: skip
PLAIN_BACKENDS: dict[str, tuple[int, ...]] = {
    "FLASH_ATTN": (8, 9, 10, 11, 12), "FLASH_ATTN_DIFFKV": (8, 9, 10, 11, 12), "TRITON_ATTN": (), "FLEX_ATTENTION": (),
}  # fmt: skip


def backend(settled: Settled) -> Values:
    """A backend for the other kind of attention, or for other GPUs."""
    s, has = settings_of(settled), on.capability(settled.question)
    name = s.backend or ""
    majors = LATENT_BACKENDS.get(name, PLAIN_BACKENDS.get(name))
    plain, latent = on.kv_heads(settled.model), on.latent(settled)
    if majors is None or not on_gpu(settled) or bool(plain) is latent:
        return None
    if latent is not (name in LATENT_BACKENDS):
        return {"backend": name, "reason": "MLA not supported" if latent else "non-MLA not supported"}
    if latent and indexed(settled) and asked_release(settled) >= release("0.13"):
        return {"backend": name, "reason": "sparse not supported"}
    if has and majors and has // 10 not in majors:
        return {"backend": name, "reason": "compute capability not supported"}
    return None


def indexed(settled: Settled) -> bool:
    return not settings_of(settled).forms.isdisjoint(("latent+index", "latent+pooled-index"))


def no_experts(settled: Settled) -> Values:
    asked = (settled.question.ep or 1) > 1 or Options(settled.question).flag("expert_parallel")
    return {} if asked and not on.experts(settled.model) else None


def _flash_fp8(settled: Settled) -> bool:
    has, s = on.capability(settled.question), settings_of(settled)
    return has is not None and has < 90 and s.backend == "FLASH_ATTN" and s.formats.k.startswith("fp8")


def flash_fp8(settled: Settled) -> Values:
    return {} if _flash_fp8(settled) else None


def triton_fp8(settled: Settled, least: int = 80) -> Values:
    """An FP8 cache of K and V in Triton's kernels, which take it from 8.9 on: asked for, or the only ones below `least`."""
    d, s, has = settled.question, settings_of(settled), on.capability(settled.question)
    if has is None or not on_gpu(settled) or not on.kv_heads(settled.model) or not s.formats.k.startswith("fp8"):
        return None
    if has >= (89 if s.backend == "TRITON_ATTN" else least) or s.backend not in (None, "TRITON_ATTN"):
        return None
    other = "float16" if has < 80 else "bfloat16"
    return {"gpu": d.device.name if d.device else "", "has": on.version_of(has), "other": other}


def triton_e4m3(settled: Settled) -> Values:
    return triton_fp8(settled, 75) if settings_of(settled).formats.k == "fp8_e4m3" else None


def e5m2_checkpoint(settled: Settled) -> Values:
    """FP8 weights whose method has scales of a cache, too: of blocks, made while loading, and of channels up to 0.23."""
    d, own = settled.question, checkpoint_format(settled.question)
    weights = d.weight_dtype or own
    scaled = weights.startswith("fp8_block") or (weights == "fp8" != own)
    scaled |= weights == "fp8_channel" and asked_release(settled) < release("0.24")
    return {} if scaled and on_gpu(settled) and settings_of(settled).formats.k == "fp8_e5m2" else None


def nvfp4_cache(settled: Settled) -> Values:
    d, has = settled.question, on.capability(settled.question)
    old = has is not None and has < 80 and on_gpu(settled) and settings_of(settled).formats.k.startswith("nvfp4")
    return {"gpu": d.device.name if d.device else ""} if old else None


def float_cache(settled: Settled) -> Values:
    """kv_cache_dtype bfloat16 beside float16 and the other way round."""
    long = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
    d, s = settled.question, settings_of(settled)
    if "kv_dtype" in settled.chosen_by or s.formats.k not in ("f16", "bf16") or s.formats.k == s.formats.compute:
        return None
    return {"cache": long[s.formats.k], "compute": long.get(s.formats.compute, d.dtype)} if d.kv_dtype not in (None, "auto") else None


def two_ceilings(settled: Settled) -> Values:
    s = settings_of(settled)
    largest = max((n for n in s.captures.sizes if n <= s.max_num_batched_tokens), default=0)
    both = s.graphs and s.captures.sizes and s.captures.most
    return {"most": s.captures.most, "largest": largest} if both and s.captures.most != largest else None
