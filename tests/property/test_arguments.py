"""One table per engine, read in every direction: a flag, a variable, a file and a log's dump say the same; what is written reads back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvplan import engines
from kvplan.engines.common.arguments import Argument, Arguments, by_variable
from kvplan.engines.common.command_line import answered, parse, read
from kvplan.engines.common.printed import read_printed
from kvplan.engines.common.words import Word, words
from kvplan.engines.common.written import write
from kvplan.engines.sglang.arguments import ON_LOAD
from kvplan.errors import UnsupportedError
from kvplan.manifests.config import key_options
from kvplan.startup_logs import read_starts
from kvplan.startup_logs.literals import read_object
from tests.conftest import examples

#: Words that a kind of value takes, as a person types them, and what an engine prints for them.
TYPED: dict[str, tuple[tuple[str, Any], ...]] = {
    "text": (("alpha", "alpha"), ("a/b-c.d", "a/b-c.d")),
    "int": (("8", 8), ("4096", 4096)),
    "si": (("64k", 64_000), ("8Ki", 8192), ("4096", 4096)),
    "human": (("32k", 32_000), ("32K", 32_768), ("4096", 4096)),
    "auto": (("32k", 32_000), ("auto", -1), ("8192", 8192)),
    "float": (("0.5", 0.5), ("0.875", 0.875), ("4", 4.0)),
    "c_int": (("8", 8), ("512", 512)),
    "json": (('{"a": 1}', {"a": 1}),),
    "limits": (('{"image": 0}', {"image": 0}), ("image=0,video=0", {"image": 0, "video": 0}), ('{"image": 3}', {"image": 3})),
    "truth": (("true", True), ("false", False)),
    "one_or_true": (("1", True),),
    "on_off_auto": (("on", "enabled"), ("off", "0"), ("auto", "auto")),
    "compute": (("bfloat16", "torch.bfloat16"), ("float16", "float16")),
    "format": (("fp8", "fp8"), ("q8_0", "q8_0")),
    "counts": (("100,200", [100, 200]),),
}
#: Options that mean something only beside others, or only with words of their own.
BESIDE = {
    "@quantization": {"fp8": "fp8", "bitsandbytes": "bitsandbytes", "awq": "awq"},
    "@speculative": {
        '{"method": "eagle3", "num_speculative_tokens": 3, "model": "d/x"}': None,
        '{"model": "ngram", "num_speculative_tokens": 2}': None,
    },
    "@device": {"cpu": "cpu", "none": "none"},
    "@ngl": {"12": 12, "all": "all"},
    "@split": {"none": "none", "layer": "layer"},
    "@level": {"0": 0, "3": 3},
    "@compilation": {'{"cudagraph_mode": "NONE"}': None, '{"level": 0}': None, "3": 3},
    "@spec_type": {"draft-mtp": "draft-mtp"},
}  # fmt: skip


def plain(table: Arguments, given_: Mapping[str, Any], positional: tuple[Word, ...] = ()) -> dict[str, Any]:
    """The question that options mean, without where they stood."""
    answer = answered(table, given_, positional)
    return {name: one.value for name, one in answer.question.items()} | {"model": answer.model.value if answer.model else None}


def typed(row: Argument) -> list[tuple[list[str], Any]]:
    """Words of a command, and the value that a log prints for them."""
    name = row.names[0]
    if row.takes == "flag":
        return [([name], True)]
    if row.takes == "switch":
        long = next(n for n in row.names if n.startswith("--"))
        return [([name], True), ([f"--no-{long[2:]}"], False)]
    if row.takes == "many":
        return [([name, "a=b", "c"], ["a=b", "c"])]
    if row.to in BESIDE:
        return [([name, word], json.loads(word) if value is None else value) for word, value in BESIDE[row.to].items()]
    return [([name, word], value) for word, value in TYPED[row.kind]]


def printed_name(row: Argument, table: Arguments) -> str:
    """The name under which a log prints it: the long spelling as an attribute."""
    name = next((n for n in row.names if n.startswith("--")), row.names[0])
    return name.lstrip("-").replace("-", "_")


@pytest.mark.parametrize("engine", engines.served())
def test_a_flag_and_a_logs_dump_are_one_question(engine: str) -> None:
    table = engines.arguments(engine)
    rows = [row for row in table.rows if row.to[:1] not in ("", "!") and row.names and row.to != "@config"]
    assert rows or engine == "ollama"  # whose settings are variables
    for row in rows:
        for command, value in typed(row):
            by_flag = plain(table, parse(table, words(*command), None).given)
            by_dump = plain(table, read_printed(table, {printed_name(row, table): value}, read_object))
            assert by_flag == by_dump, command
            as_text = str(value) if not isinstance(value, (dict, list)) else json.dumps(value)
            if row.takes != "many" and row.kind != "counts":  # and as text that nobody parsed
                assert plain(table, read_printed(table, {printed_name(row, table): as_text}, read_object)) == by_flag, command


@pytest.mark.parametrize("engine", engines.served())
def test_a_variable_and_a_key_of_a_file_say_what_a_row_says(engine: str) -> None:
    """What is set by a variable or a key is what a log's dump of that key is."""
    table = engines.arguments(engine)
    seen = 0
    for name, row in by_variable(table).items():
        if row.to[:1] in ("", "!") or row.takes in ("flag", "switch", "maybe"):
            continue
        for command, value in typed(row._replace(names=(name,))):
            by_variable_ = read(table, (), {name: Word(command[1])}, None).question
            twin = next((one for one in table.rows if one.to == row.to and one.names), None)
            if twin is None or twin.kind != row.kind:
                continue
            seen += 1
            by_flag = answered(table, parse(table, words(twin.names[0], command[1]), None).given).question
            assert {k: v.value for k, v in by_variable_.items()} == {k: v.value for k, v in by_flag.items()}, value
    assert seen or engine not in ("vllm", "llama.cpp")


def some(**names: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=names)


COUNT, FRACTION = st.integers(1, 1 << 20), st.integers(5, 98).map(lambda n: n / 100)
FLAG = st.sampled_from(["true", "false"])
COMMON = {
    "max_model_len": COUNT, "max_num_seqs": COUNT, "max_num_batched_tokens": st.integers(1 << 20, 1 << 21),
    "block_size": COUNT, "memory_fraction": FRACTION,
    "tp": st.sampled_from([1, 2, 4]), "pp": st.sampled_from([1, 2]), "dtype": st.sampled_from(["bfloat16", "float16"]),
    "enforce_eager": st.just(True),
}  # fmt: skip
LORA, DRAFTS = st.sampled_from(["16x2", "64x8"]), st.sampled_from(["eagle3:3:some/draft", "mtp:2"])
#: Names that each engine can be told; options as `option:KEY`.
SAYABLE: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "vllm": some(
        **COMMON, dp=st.sampled_from([1, 2]), dcp=st.sampled_from([1, 2]), kv_memory=st.integers(1, 1 << 40),
        kv_dtype=st.sampled_from(["fp8", "fp8_e5m2", "bfloat16"]), weight_dtype=st.sampled_from(["fp8", "nf4", "mxfp8"]), lora=LORA,
        speculative=st.one_of(DRAFTS, st.just("ngram:4")), multimodal=st.just("off"),
        **{f"option:{key}": FLAG for key in ("enable_prefix_caching", "async_scheduling", "disable_hybrid_kv_cache_manager")},
        **{"option:num_gpu_blocks_override": COUNT.map(str), "option:attention_backend": st.sampled_from(["FLASH_ATTN", "TRITON_ATTN"])},
    ),
    "sglang": some(
        **COMMON, dp=st.sampled_from([1, 2]), ep=st.sampled_from([1, 2]), kv_dtype=st.sampled_from(["fp8_e4m3", "bfloat16"]),
        weight_dtype=st.sampled_from(["fp8", "fp8_channel", "nf4", "mxfp8"]), lora=LORA, speculative=DRAFTS,
        **{f"option:{key}": st.just("true") for key in ("disable_radix_cache", "enable_dp_attention", "disable_overlap_schedule")},
        **{"option:max_total_tokens": COUNT.map(str), "option:mamba_radix_cache_strategy": st.sampled_from(["no_buffer", "extra_buffer"]),
           "option:swa_full_tokens_ratio": FRACTION.map(str), "option:cuda_graph_max_bs": COUNT.map(str)},
    ),
    "tensorrt-llm": some(
        **COMMON, ep=st.sampled_from([1, 2]), kv_dtype=st.sampled_from(["fp8", "nvfp4"]), kv_memory=st.integers(1, 1 << 40),
        speculative=DRAFTS,
        **{f"option:{key}": FLAG for key in ("enable_block_reuse", "use_kv_cache_manager_v2", "enable_attention_dp")},
        **{"option:max_tokens": COUNT.map(str), "option:max_attention_window": st.sampled_from(["4096", "1024,4096"])},
    ),
    "lmdeploy": some(
        **{name: draw for name, draw in COMMON.items() if name != "pp"}, dp=st.sampled_from([1, 2]), ep=st.sampled_from([1, 2]),
        kv_dtype=st.sampled_from(["int8", "int4", "fp8_e4m3"]), weight_dtype=st.sampled_from(["awq", "gptq", "fp8"]),
        **{"option:backend": st.sampled_from(["turbomind", "pytorch"]), "option:enable_prefix_caching": st.just("true"),
           "option:prefix_cache_state_budget": COUNT.map(str)},
    ),
    "llama.cpp": some(
        **{name: COMMON[name] for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens")}, n_gpu_layers=st.integers(0, 99),
        kv_dtype=st.sampled_from(["q8_0", "q8_0/q4_0"]), speculative=st.just("mtp:2"), multimodal=st.just("off"),
        **{"option:n_ubatch": COUNT.map(str), "option:flash_attn": st.sampled_from(["on", "off", "auto"]), "option:kv_unified": FLAG,
           "option:swa_full": st.just("true"), "option:no_kv_offload": st.just("true"), "option:tensor_split": st.just("3,1")},
    ),
    "ollama": some(
        max_model_len=COUNT, max_num_seqs=COUNT, kv_dtype=st.sampled_from(["q8_0", "f16"]), reserve=COUNT,
        **{"option:flash_attn": st.sampled_from(["on", "off"])},
    ),
}  # fmt: skip
RELEASED = {
    "vllm": ("0.13.0", "0.17.1", "0.26.0", "0.33.0"),
    "sglang": ("0.5.7", "0.5.9", "0.5.10", "0.5.15", "0.5.18", "0.5.20", "0.5.23"),
    "tensorrt-llm": ("1.0.0", "1.2.0"),
    "lmdeploy": ("0.14.0", "0.16.0", "0.17.0", "0.18.0"),
    "llama.cpp": ("b10488",),
    "ollama": ("0.12.11",),
}


def canonical(asked: Mapping[str, Any]) -> dict[str, str]:
    """Names -> texts; options by their contract name; sizes of one and what an engine does unasked are no choice."""
    flat = {name.replace("option:", "engine_option."): value for name, value in asked.items()}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in flat.items()}
    if texts.get("engine_option.quantization") in ON_LOAD:  # of SGLang: the format of the weights, said once more
        del texts["engine_option.quantization"]
    return {name: text for name, text in texts.items() if not (name in ("tp", "pp", "dp", "ep", "dcp") and text == "1")}


#: A line with a figure, so that a text is a log; how the arguments are printed in it.
FIGURES = {
    "vllm": "# GPU blocks: 10, # CPU blocks: 1",
    "sglang": "KV Cache is allocated. #tokens: 100, K size: 1.00 GB, V size: 1.00 GB",
    "tensorrt-llm": "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 257",
    "lmdeploy": "[TM][INFO] [BlockManager] max_block_count = 1740",
    "llama.cpp": "llama_context: CUDA0 compute buffer size = 1.00 MiB",
}


def dumps(engine: str, command: list[str], config: Mapping[str, Any]) -> list[str]:
    """The command as a log quotes it, and its arguments as the engine prints them, where it does."""
    table = engines.arguments(engine)
    said = {"vllm": 2, "lmdeploy": 3}.get(engine, 1)
    quoted = [] if config else [" ".join([*table.program[-said:], shlex.join(command)])]
    seen = dict(parse(table, words(*command), None).seen)
    listed = ", ".join(f"{name}={value!r}" for name, value in seen.items())
    if engine == "vllm":
        return [*quoted, f"non-default args: {seen!r}", f"args: Namespace({listed})"]
    if engine == "lmdeploy":
        return [*quoted, f"backend_config=TurbomindEngineConfig({listed})"]
    if engine == "sglang":
        return [*quoted, f"server_args=ServerArgs({listed})"]
    if engine == "tensorrt-llm":
        cache = config.get("kv_cache_config", {})
        inner = ", ".join(f"{name}={value!r}" for name, value in cache.items())
        rest = [f"{name}={value!r}" for name, value in config.items() if name != "kv_cache_config"]
        return [*quoted, "LLM Args: " + ", ".join([*([listed] if listed else []), *rest, f"kv_cache_config=KvCacheConfig({inner})"])]
    return quoted


@pytest.mark.parametrize("engine", engines.served())
@examples(60)
@given(data=st.data())
def test_what_is_written_reads_back(engine: str, data: st.DataObject) -> None:
    """By words and variables, by a configuration file, and by a log that prints the same arguments."""
    table = engines.arguments(engine)
    asked = data.draw(SAYABLE[engine])
    version = data.draw(st.sampled_from(RELEASED[engine]))
    try:
        found = write(table, asked, version)
    except UnsupportedError as error:  # what the release itself stops at is not written
        if "the engine would stop" not in str(error):
            raise
        return
    assert found.aside == {}
    env = {name: Word(text) for name, text in found.env.items()}
    file, faults, missing = key_options(table, yaml.safe_dump(dict(found.config)), "test", None) if found.config else ({}, [], [])
    answer = read(table, (*(words("m/x") if table.positional else ()), *words(*found.words)), env, version, file)
    assert faults == missing == []
    mine = {name: one.value for name, one in answer.question.items() if name not in table.always}
    assert canonical(mine) == canonical(asked)
    assert [f for f in answer.findings if f.severity != "note"] == []
    for text in dumps(engine, list(found.words), found.config) if engine in engines.logged() else ():
        (start,) = read_starts(f"INFO {text}\nINFO {FIGURES[engine]}\n", engine)
        question = dict(start.question)
        logged = {**question, **{f"engine_option.{key}": one for key, one in question.pop("engine_option", {}).items()}}
        logged = {name: one for name, one in logged.items() if name not in ("engine_option", *table.always)}
        assert canonical(logged) == canonical(asked), text
