"""What TensorRT-LLM's start-up log says (C++ runtime and PyTorch backend, 0.5 to 1.2).

Wordings from `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp` and `tensorrt_llm/_torch/pyexecutor/_util.py`.
"""

from __future__ import annotations

from kvplan.engines.common.logs import CONTEXT, COUNTS, Dump, Figure, Log, Measured, Rule, Target, Wording, entries

W = Wording

WORDINGS: tuple[Wording, ...] = (
    W("LLM version:", r"(?:TensorRT[- ]LLM|TRT-LLM) version:? (?P<version>[0-9][\w.+-]{1,60})"),
    W("Engine version", r"Engine version (?P<version>[0-9][\w.+-]{1,60}) found in the config file", "0.5"),
    W("PyTorch backend", r"Using LLM with (?P<q__backend>PyTorch) backend", "0.18"),
    W("(inside torch)", r"(?P<q__backend>inside torch)", "0.18"),
    # C++ runtime
    W("TRTGptModel max", r"(?P<q__backend>TRTGptModel) max", "0.8"),
    W("execution context memory", r"for (?P<q__backend>execution context) memory", "0.8"),
    W("maxBatchSize:", r"TRTGptModel maxBatchSize: {q__max_num_seqs}", "0.8"),
    W("maxNumTokens:", r"TRTGptModel maxNumTokens: {q__max_num_batched_tokens}", "0.8"),
    W("maxSequenceLen:", r"TRTGptModel maxSequenceLen: {q__max_model_len}", "0.8"),
    W("oaded engine size", r"oaded engine size: {weights__MiB} MiB", "0.5"),
    W("execution context memory", r"Allocated {execution__MiB} MiB for execution context memory", "0.8"),
    W("execution context memory", r"Allocated {execution__GiB} GiB for execution context memory", "0.8"),
    *(
        W(what, rf"Allocated {{{name}__{ours}}} {unit} GPU memory for {what}", "0.8")
        for name, what in (("runtime_buffers", "runtime buffers"), ("decoder", "decoder"))
        for unit, ours in (("KB", "KiB"), ("MB", "MiB"), ("GB", "GiB"))
    ),
    W("total:", r"paged kv cache: total: {total_memory__GiB} GiB, available: {free_memory__GiB} GiB", "0.8"),
    W("total:", r"(?:^|; ?)total: {total_memory__GiB} GiB, available: {free_memory__GiB} GiB"),
    W("primary pool:", r"blocks in KV cache primary pool: {blocks__blocks}", "0.8"),
    W("primary blocks=", r"primary blocks={blocks__blocks}", "0.20"),
    W("tokens per block", r"tokens per block(?::|=) ?{q__block_size}", "0.8"),
    W("tokens per block", r"tokens per block(?::|=) ?{block_tokens__tokens}", "0.8"),
    W("in paged KV cache", r"Using {tokens__tokens} tokens in paged KV cache", "0.5", "0.7"),
    W("in paged KV cache", r"Allocated {kv_cache__GiB} GiB for max tokens in paged KV cache \({tokens__tokens}\)", "0.8"),
    W("otal Weights Memory", r"otal Weights Memory: {weights__bytes} bytes"),
    W("otal Activation Memory", r"otal Activation Memory: {activation_peak__bytes} bytes"),
    # PyTorch backend
    W("(inside torch)", r"after loading (?:model )?weights \(inside torch\)(?: in [a-z ]{1,40}:)? {weights__GiB}(?: GiB)?", "0.18"),
    W("(outside torch)", r"after loading (?:model )?weights \(outside torch\)(?: in [a-z ]{1,40}:)? {outside_torch__GiB}", "0.18"),
    W("dynamically allocated", r"dynamically allocated(?: [^:\n]{1,80}:)? {activation_peak__GiB}", "0.18"),
    W("Peak", r"Peak(?: memory during memory usage profiling \(torch \+ non-torch\):)? {peak__GiB} GiB", "0.18"),
    W("when calculating max tokens:", r"KV cache memory when calculating max tokens: {available__GiB} GiB", "0.18"),
    W("fraction", r"fraction(?: is set)? (?P<q__memory_fraction>[01]\.[0-9]{1,6})", "0.18"),
    W("device total", r"device total(?: memory)? {total_memory__GiB} GiB", "0.18"),
    W("memory in KV cache", r"stimated max memory in KV cache ?: {kv_cache__GiB} GiB", "0.18"),
    W("using inferred value", r"max_seq_len is not specified, using inferred value {q__max_model_len}", "0.18"),
    W("max_num_requests=", r"max_seq_len={q__max_model_len}, max_num_requests={q__max_num_seqs}", "0.17"),
    W("max_num_requests=", r"max_num_tokens={q__max_num_batched_tokens}", "0.17"),
)  # fmt: skip

#: What only one backend prints -> that backend.
BACKENDS = {"pytorch": "pytorch", "inside torch": "pytorch", "trtgptmodel": "tensorrt", "execution context": "tensorrt"}


def finish(figures: list[Figure]) -> list[Figure]:
    """The last pool is the one served from: the ones before it, of the same rank, are the estimation's."""
    last: dict[tuple[str, str | None], Figure] = {}
    for figure in figures:
        if figure.name in ("kv_cache", "tokens", "blocks"):
            last[figure.name, figure.rank] = figure
    kept = {id(figure) for figure in last.values()}
    return [f if id(f) in kept or f.name not in ("kv_cache", "tokens", "blocks") else f._replace(name=f"trial_{f.name}") for f in figures]


def measured(m: Measured) -> list[Target]:
    weights, activation, peak = (m.bytes(name) for name in ("weights", "activation_peak", "peak"))
    found = [Target("weights", ("weights: ", "weight loading"), weights)] if weights is not None else []
    if activation is not None:
        found.append(Target("activations", ("activations",), activation))
        if peak is not None and weights is not None:
            found.append(Target("outside torch", ("outside torch", "communication buffers"), peak - weights - activation))
        return found
    execution, runtime, decoder = (m.bytes(name) for name in ("execution", "runtime_buffers", "decoder"))
    if execution is not None:
        found.append(Target("execution context", ("execution context", "logits"), execution))
    if runtime is not None and decoder is not None:
        found.append(Target("runtime buffers and decoder", ("runtime buffers", "sequence tables"), runtime + decoder))
    total, free = m.bytes("total_memory"), m.bytes("free_memory")
    if None not in (weights, execution, runtime, decoder, total, free):
        rest = total - free - weights - execution - runtime - decoder - m.sizes["reserve"]  # type: ignore[operator]
        found.append(Target(CONTEXT, (CONTEXT, "communication buffers"), rest))
    return found


LOG = Log(
    engine="tensorrt-llm",
    wordings=WORDINGS,
    dumps=(Dump("trtllm-serve ", "command", 0), Dump("LLM Args:", "list", 2)),
    starts=("TensorRT-LLM] TensorRT LLM version", "Starting TensorRT-LLM"),
    measured=measured,
    rules=(Rule("cache", "kv_cache", "bytes", entries("cache: pools"), "the lines above, or another fraction"), *COUNTS),
    needs="needs the memory profiling lines, or the [MemUsageChange] lines and `total:`",
    finish=finish,
    printed_options={"backend": BACKENDS},
    unread=("speculative_config", "kv_cache_config", "cuda_graph_config", "enable_attention_dp", "extra_llm_api_options"),
    shared=("outside torch",),
    free_late=True,
)
