"""What SGLang's start-up log says. Its "GB" are 2^30 bytes.

Wordings from `sglang/srt/model_executor/model_runner.py`, `mem_cache/memory_pool.py`, `managers/scheduler.py`, 0.3 to 0.5.
"""

from __future__ import annotations

from kvplan.engines.common.logs import CONTEXT, COUNT, Dump, Figure, Gauge, Log, Measured, Rule, Target, Wording, counted, entries
from kvplan.units import GIB

W = Wording

WORDINGS: tuple[Wording, ...] = (
    W("sglang", r"\bsglang(?:==| version:? | v)(?P<version>[0-9][\w.+-]{1,60})"),
    W("device_name=", r"device_name=(?P<device>[A-Za-z0-9_-]{3,80}?)(?=[,.\s'\"]|$)"),
    W("distributed ends", r"Init torch distributed ends\.(?: elapsed=[^,\n]{1,20},)? mem usage={distributed__GiB} GB", "0.4"),
    W("Load weight begin", r"Load weight begin\. avail mem={free_memory__GiB} GB", "0.1"),
    W("Load weight end", r"Load weight end\.[^\n]{0,300}?mem usage={weights__GiB} GB", "0.4"),
    W("Load weight end", r"Load weight end\.[^\n]{0,300}?avail mem={free_after_load__GiB} GB", "0.1"),
    W("#tokens:", r"KV Cache is allocated\.[^#\n]{0,120}#tokens: {tokens__tokens}", "0.4"),
    W("#tokens:", r"draft: #tokens: {draft_tokens__tokens}"),
    W("K size:", r"\bK size: {k_size__GiB} GB, V size: {v_size__GiB} GB", "0.4"),
    W("KV size:", r"\bKV size: {kv_cache__GiB} GB", "0.4"),
    W("KVPool mem usage:", r"SWAKVPool mem usage: {kv_cache__GiB} GB", "0.5.10"),
    W("KVPool mem usage:", r"swa size: {window_tokens__tokens}, full size: {full_tokens__tokens}", "0.5.10"),
    W("Mamba Cache is allocated", r"max_mamba_cache_size: {state_slots__count}", "0.5.4"),
    W("_state size:", r"(?:ssm|temporal)_state size: {state_cache__GiB}\s?GB", "0.5.4"),
    W("_state size:", r"conv_state size: {conv_cache__GiB}\s?GB", "0.5.4"),
    W("swa_layer_tokens", r"full_layer_tokens={full_tokens__tokens}, swa_layer_tokens={window_tokens__tokens}", "0.4.7"),
    W("Memory pool end", r"Memory pool end\. avail mem={free_after_pool__GiB} GB", "0.1"),
    W("raph end", r"Capture [\w ]{0,40}graph end\.[^\n]{0,80}?mem usage={cuda_graph__GiB} GB", "0.4.5"),
    W("max_total_num_tokens=", r"max_total_num_tokens={tokens__tokens}(?=,|\s|$)", "0.1"),
    W("max_running_requests=", r"max_total_num_tokens=[\d,]{1,20}[^\n]{0,120}max_running_requests={q__max_num_seqs}", "0.2"),
    W("context_len=", r"max_total_num_tokens=[\d,]{1,20}[^\n]{0,200}context_len={q__max_model_len}", "0.2"),
    W("minimum viable", r"minimum viable (?P<least_fraction__fraction>0\.[0-9]{1,6})", "0.5"),
)


#: A server's /metrics, with --enable-metrics: sglang/srt/metrics/collector.py, from 0.5.10 observability/metrics_collector.py
#: (emit_constants). Its GB are 2^30 bytes.
GAUGES = (
    Gauge("sglang:max_total_num_tokens", "tokens__tokens", "", "0.5"),
    Gauge("sglang:max_total_num_tokens_swa", "window_tokens__tokens", "", "0.5.17"),
    Gauge("sglang:kv_cache_memory_usage_gb", "kv_cache__GiB", "", "0.5.17"),
    Gauge("sglang:weight_memory_usage_gb", "weights__GiB", "", "0.5.17"),
    Gauge("sglang:startup_available_gpu_memory_gb", "free_after_graphs__GiB", "", "0.5.11"),
    Gauge("sglang:context_len", "q__max_model_len", "", "0.5.11"),
    Gauge("sglang:page_size", "q__block_size", "", "0.5.11"),
    Gauge("sglang:num_pages", "pages__blocks", "", "0.5.11"),
    Gauge("sglang:cache_config_info", "q__block_size", "page_size", "0.4", "0.5.10"),
    Gauge("sglang:cache_config_info", "pages__blocks", "num_pages", "0.4", "0.5.10"),
    Gauge("sglang:max_total_num_tokens", "model", "model_name"),
    Gauge("sglang:num_running_reqs", "model", "model_name"),
    Gauge("sglang:token_usage", "in_use__share"),
)


def finish(figures: list[Figure]) -> list[Figure]:
    """K and V together are the cache, both kinds of states the states; a second weight load or pool of a rank is the draft model's."""
    result: list[Figure] = []
    seen: set[tuple[str, str | None]] = set()
    for i, figure in enumerate(figures):
        name = figure.name
        if name in ("weights", "k_size", "v_size") and (name, figure.rank) in seen and not _repeats(figure, result):
            figure = figure._replace(name=f"draft_{name}")
        seen.add((name, figure.rank))
        result.append(figure)
        before = figures[i - 1] if i else None
        if figure.name == "v_size" and before is not None and before.name == "k_size":
            result.append(figure._replace(name="kv_cache", value=round(before.value + figure.value, 9)))
        if figure.name == "state_cache":
            conv = next((f.value for f in figures if f.name == "conv_cache" and (f.rank, f.line) == (figure.rank, figure.line)), 0.0)
            result.append(figure._replace(name="states", value=round(conv + figure.value, 9)))
    return result


def _repeats(figure: Figure, earlier: list[Figure]) -> bool:
    """Ranks without a prefix print the same line one after another: a repeat within a few lines is no draft model."""
    same = [f for f in earlier if f.name == figure.name and f.rank == figure.rank]
    return figure.name == "weights" and figure.rank is None and abs(same[-1].value - figure.value) < 0.5 * same[-1].value


def measured(m: Measured) -> list[Target]:
    found = []
    weights, total = m.bytes("weights"), m.total()
    if weights is not None:
        found.append(Target("weights", ("weights: ", "weight loading"), weights))
    frees = [f.value for f in m.figures if f.name == "free_memory"]
    if not frees or total is None:
        return found
    gone = total - int(min(frees) * GIB) - m.sizes["reserve"]
    link, ranks = m.bytes("distributed"), m.sizes["tp"] * m.sizes["pp"]
    if ranks > 1:
        link = gone - m.planned(CONTEXT) if link is None else link
        found.append(Target("distributed init", ("distributed init",), link))
    found.append(Target(CONTEXT, (CONTEXT,), gone - (link or 0 if ranks > 1 else 0)))
    return found


LOG = Log(
    engine="sglang",
    wordings=WORDINGS,
    dumps=(
        Dump("server_args=ServerArgs(", "call", 2),
        Dump("server_args=PrefillServerArgs(", "call", 2),
        Dump("sglang.launch_server ", "command", 0),
    ),
    starts=("server_args=",),
    measured=measured,
    rules=(
        Rule("cache", "kv_cache", "bytes", entries("cache: full", "cache: window"), "the lines above, or another mem_fraction_static"),
        Rule("states", "states", "bytes", entries("cache: state", "cache: fixed"), "mamba_full_memory_ratio, or state formats"),
        Rule("tokens", "tokens", "tokens", counted("tokens"), COUNT),
    ),
    needs="needs `Load weight begin` or `Load weight end`",
    finish=finish,
    gauges=GAUGES,
    unread=(
        "cpu_offload_gb", "enable_memory_saver", "json_model_override_args", "quantization", "enable_eplb", "ep_num_redundant_experts",
        "max_loras_per_batch", "lora_paths", "enable_symm_mem", "enable_nccl_nvls",
    ),
)  # fmt: skip
