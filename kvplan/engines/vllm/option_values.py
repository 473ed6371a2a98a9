"""Values of vLLM's options that only some questions look at: they are checked in every question."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import in_force
from kvplan.engines.vllm.choices import CHOICES
from kvplan.errors import SpecError

SLIDING, POOLING = "sliding_window", ("ALL", "CLS", "LAST", "MEAN", "STEP")
FLAGS = (
    "compiled", "estimate_graphs", "use_flashinfer_sampler", "disable_custom_all_reduce",
    "disable_chunked_mm_input", "enable_return_routed_experts", "trust_remote_code",
)  # fmt: skip
COUNTS = (
    "api_server_count", "draft_max_model_len", "flashinfer_workspace", "max_cpu_loras", "prefill_context_parallel_size",
    "replayssm_buffer_len",
)  # fmt: skip


def skipped_layers(options: Options) -> frozenset[str]:
    """The layers that a cache's format leaves out: numbers, and `sliding_window`. Raises SpecError for another word."""
    found = frozenset((options.text("kv_cache_dtype_skip_layers") or "").replace(",", " ").split())
    if other := sorted(word for word in found if not word.isdecimal() and word != SLIDING):
        raise SpecError("engine_option", [("kv_cache_dtype_skip_layers", f"{other[0][:60]!r} is neither a number nor {SLIDING}")])
    return found


#: Methods of quantisation of any release.
METHODS = frozenset(word for words in CHOICES["--quantization"].values() for word in words.split())
#: Kernels of experts of any release.
EXPERTS = tuple(sorted({word for words in CHOICES["--moe-backend"].values() for word in words.split()}))


def check_options(options: Options, release: str, *, any_method: bool = False) -> None:
    """Raises SpecError for a value that its option does not take, of that release. `any_method`: the checkpoint may have any."""
    for key in ("quantization", "draft_quantization"):
        if (word := options.text(key)) and word not in METHODS and not (any_method and key == "quantization"):
            raise SpecError("engine_option", [(key, f"{word[:60]!r} is no method of vLLM's; leave it out, or write one such as fp8")])
    if options.text("draft_kv_cache_dtype") and not in_force("0.26", "", release):
        raise SpecError("engine_option", [("draft_kv_cache_dtype", f"vLLM {release} has none of a drafter; 0.26 is the first")])
    options.text("moe_backend", EXPERTS)
    options.allocator()
    options.driver()
    for key in FLAGS:
        options.flag(key)
    for key in COUNTS:
        options.count(key)
    if not (options.text("max_logprobs") or "").startswith("-"):  # any number; from 0.25 on no less than -1 (bounds.py)
        options.count("max_logprobs", 0)
    options.count("prefix_cache_retention_interval", 0)
    options.count("prefix_match_unit")
    options.text("pooling_type", POOLING)
    options.number("mm_processor_cache_gb", zero=True)
    options.text("mm_processor_cache_type", ("lru", "shm"))
