"""What advice tries, as data: formats and settings by engine, mildest first. Whether one helps is evaluated, never assumed."""

from __future__ import annotations

#: Cache formats of an engine and their bits; engines that are not here take vLLM's.
KV_FORMATS: dict[str, tuple[tuple[str, int], ...]] = {
    "vllm": (("fp8", 8),),
    "llama.cpp": (("q8_0", 8), ("q4_0", 4)),
    "ollama": (("q8_0", 8), ("q4_0", 4)),
}
#: Checkpoint formats and their bits. llama.cpp's and MLX's 4-bit blocks of 32 take what int4_g32 does: 4.5 bits an element.
WEIGHT_FORMATS: dict[str, tuple[tuple[str, int], ...]] = {
    "vllm": (("fp8", 8), ("int4_g128", 4)),
    "llama.cpp": (("int4_g32", 4),),
    "ollama": (("int4_g32", 4),),
    "mlx-lm": (("int4_g32", 4),),
}
#: Above its default an engine's fraction is advised up to here; engines that are not here keep what their default leaves free.
FRACTION_CEILING = {"vllm": 0.95, "tensorrt-llm": 0.95}
MOST_HUNDREDTHS = 40  # how far below the asked fraction one is looked for
LEAST_STEP_TOKENS = 2048
CHUNKED_VLLM = (0, 8)  # from here on every prompt may be read in chunks
TP_SIZES = (1, 2, 4, 8, 16)
MOST_STAGES = 16
PAGES = (256, 128, 64, 32, 16, 8, 1)

#: Engine options: key, values in the order in which they are tried, and what to call the change.
SETTINGS: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    "vllm": (
        ("allow_long_max_model_len", ("true",), "allow more than the model's own maximum (VLLM_ALLOW_LONG_MAX_MODEL_LEN=1)"),
        ("disable_hybrid_kv_cache_manager", ("false",), "let window layers keep their window alone"),
        ("enable_prefix_caching", ("false",), "no prefix caching"),
        ("async_scheduling", ("false",), "no asynchronous scheduling"),
    ),
    "sglang": (
        (
            "allow_overwrite_longer_context_len",
            ("true",),
            "allow more than the model's own maximum (SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1)",
        ),
        ("swa_full_tokens_ratio", ("0.7", "0.6", "0.5", "0.4", "0.3", "0.2", "0.1", "0.9", "1"), "share the pools differently"),
        ("mamba_full_memory_ratio", ("0.7", "0.5", "0.3", "0.2", "0.1", "1.5", "2", "4"), "share memory with the states differently"),
        ("disable_radix_cache", ("true",), "no prefix cache"),
        ("disable_overlap_schedule", ("true",), "no overlap scheduling"),
    ),
    "llama.cpp": (
        ("flash_attn", ("on",), "flash attention"),
        ("kv_unified", ("true",), "one pool of cells for all slots"),
        ("swa_full", ("false",), "let window layers keep their window alone"),
        ("n_ubatch", ("256", "128", "64"), "smaller physical batches"),
    ),
    "ollama": (("flash_attn", ("on",), "flash attention"),),
    "tensorrt-llm": (("enable_block_reuse", ("false",), "no block reuse"),),
    "transformers": (
        ("cache_implementation", ("dynamic",), "a cache that grows"),
        ("cache_implementation", ("quantized",), "a quantized cache"),
    ),
    "mlx-lm": (("kv_bits", ("8", "4"), "store the cache in fewer bits"),),
    "exllamav3": (("k_bits", ("8", "6", "4"), "store the cache in fewer bits"),),
}


def smaller_pages(now: int | None) -> tuple[int, ...]:
    """Page sizes below this one, the nearest first."""
    return tuple(size for size in PAGES if now is not None and size < now)
