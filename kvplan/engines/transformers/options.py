"""The engine options of transformers, all read whichever cache is asked for, and notes of those that are another cache's."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common.options import Options
from kvplan.engines.transformers.quantized import BACKENDS
from kvplan.errors import SpecError, UnsupportedError

#: Names that `generate` takes -> what they are.
IMPLEMENTATIONS: dict[str, str] = {
    "dynamic": "dynamic", "static": "static", "quantized": "quantized", "paged": "paged",
    "hybrid": "static", "hybrid_chunked": "static", "sliding_window": "static",
}  # fmt: skip
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
#: Options of one kind of cache alone.
OF_QUANTIZED = ("backend", "nbits", "q_group_size", "residual_length")
OF_PAGED = (
    "num_blocks", "max_blocks_per_request", "use_async_batching", "return_logprobs", "logits_processors",
    "logits_to_keep",
)  # fmt: skip


class TransformersOptions(NamedTuple):
    """`kind`: dynamic, static, quantized or paged; `fp8`: the cache format asked for; None: not given."""

    kind: str
    fp8: bool
    backend: str
    nbits: int | None
    group: int | None
    residual: int | None
    num_beams: int
    flash: bool
    attention: str
    chunk: int | None
    num_blocks: int | None
    max_blocks_per_request: int | None
    use_async: bool | None
    logprobs: bool
    logits_processors: bool
    logits_to_keep: bool
    notes: tuple[str, ...]


def read(d: Deployment) -> TransformersOptions:
    """The options of a question. Raises SpecError for values they do not take."""
    options, given = Options(d), dict(d.engine_option)
    asked = None if d.kv_dtype in (None, "auto") else canonical(str(d.kv_dtype).split("/")[0], "KV cache format")
    kind, fp8 = _kind(options, asked == "fp8_e4m3"), asked == "fp8_e4m3"
    attention = options.text("attn_implementation") or ""
    if attention and attention.removeprefix("paged|") not in ATTENTION and "/" not in attention:
        raise SpecError("engine_option", [("attn_implementation", f"{attention[:60]!r} is not one of {', '.join(ATTENTION)}")])
    used = {"quantized": OF_QUANTIZED, "paged": OF_PAGED}.get(kind, ())
    idle = [name for name in (*OF_QUANTIZED, *OF_PAGED) if name in given and name not in used]
    return TransformersOptions(
        kind=kind,
        fp8=fp8,
        backend=options.text("backend", BACKENDS) or ("fp8" if fp8 else "quanto"),
        nbits=options.count("nbits"),
        group=options.count("q_group_size"),
        residual=options.count("residual_length"),
        num_beams=options.count("num_beams") or 1,
        flash=not attention or "flash" in attention,
        attention=attention,
        chunk=options.count("prefill_chunk_size"),
        num_blocks=options.count("num_blocks"),
        max_blocks_per_request=options.count("max_blocks_per_request", 0),
        use_async=options.flag("use_async_batching") if "use_async_batching" in given else None,
        logprobs=options.flag("return_logprobs"),
        logits_processors=options.flag("logits_processors"),
        logits_to_keep=options.flag("logits_to_keep", True),
        notes=(f"a {kind} cache has no use for {', '.join(idle)}",) if idle else (),
    )


def _kind(options: Options, fp8: bool) -> str:
    name = (options.text("cache_implementation") or "dynamic").strip().lower()
    if name.startswith("offloaded"):
        raise UnsupportedError(f"cache_implementation={name}: caches that move to host memory and back are not modelled")
    if name not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise SpecError("engine_option", [("cache_implementation", f"{name[:60]!r} is not one of: {known}")])
    kind = IMPLEMENTATIONS[name]
    return "quantized" if fp8 and kind == "dynamic" else kind
