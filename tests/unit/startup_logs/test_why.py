"""What engines' errors mean: texts that people pasted (public issues, named by each), and the laws of the tables they are found in."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

import kvplan
from kvplan import engines
from kvplan.cli import run
from kvplan.deployment import NAMES
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.stops import Stop, expression, needle, say
from kvplan.errors import KvplanError

#: Where it was pasted, the text, who says it, what it is, what its meaning holds, the first setting to move.
PASTED = [
    (
        "vllm-project/vllm#20305",
        "[multiproc_executor.py:492] ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory "
        "utilization (0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        "vllm", "too little is free", "31.44 of 47.38 GiB were free", "reserve",
    ),
    (
        "pytorch/pytorch#175666",
        "[2026-02-24T20:21:58Z] (EngineCore_DP0 pid=6940) ValueError: Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less "
        "than desired GPU memory utilization (0.9, 19.84 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
        "vllm", "too little is free", "19.84 GiB were asked for", "reserve",
    ),
    (
        "vllm-project/vllm#10517",
        "The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648). Try "
        "increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        "vllm", "one longest request", "the cache holds 23648", "max_model_len",
    ),
    (
        "QwenLM/Qwen3#12",
        'raise ValueError("No available memory for the cache blocks. " ValueError: No available memory for the cache blocks. Try '
        "increasing `gpu_memory_utilization` when initializing the engine.",
        "vllm", "no cache", "all that the fraction allows", "memory_fraction",
    ),
    (
        "vllm-project/vllm#38632",
        "(EngineCore_DP0 pid=10078) RuntimeError: Worker failed with error 'max_num_seqs (1024) exceeds available Mamba cache "
        "blocks (600). "
        "Each decode sequence requires one Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most "
        "600 or increase gpu_memory_utilization.', please check the stack trace above for the root cause",
        "vllm", "states and sequences", "only 600 blocks", "max_num_seqs",
    ),
    (
        "vllm-project/vllm#14452",
        "(VllmWorker rank=0 pid=10672) ERROR 03-16 06:12:38 [multiproc_executor.py:375]     raise RuntimeError(\n"
        "(VllmWorker rank=0 pid=10672) ERROR 03-16 06:12:38 [multiproc_executor.py:375] RuntimeError: CUDA out of memory occurred when "
        "warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing",
        "vllm", "sampler", "logits of 1024 sequences", "max_num_seqs",
    ),
    (
        "vllm-project/vllm#15105",
        "(VllmWorker rank=1 pid=2978) ERROR 03-19 07:27:53 [multiproc_executor.py:375]   File \"vllm/v1/worker/gpu_model_runner.py\", in "
        "_dummy_sampler_run\n(VllmWorker rank=1 pid=2978) ERROR 03-19 07:27:53 [multiproc_executor.py:375] "
        "torch.OutOfMemoryError: CUDA out "
        "of memory. Tried to allocate 1.74 GiB. GPU 1 has a total capacity of 23.57 GiB of which 605.88 MiB is free. Process 133288 has "
        "22.97 GiB memory in use.",
        "vllm", "out of memory", "in the profile run, which holds the largest batch: 1.74 GiB were asked for and 605.88 MiB of 23.57 GiB",
        "max_num_batched_tokens",
    ),
    (
        "vllm-project/vllm#39788",
        "(Worker_TP2 pid=99) ERROR 04-09 20:31:10 [multiproc_executor.py:949]   File "
        "\"/usr/local/lib/python3.12/dist-packages/vllm/v1/worker/"
        "gpu_worker.py\", line 588, in compile_or_warm_up_model\n(Worker_TP2 pid=99) ERROR 04-09 20:31:10 [multiproc_executor.py:949]     "
        "cuda_graph_memory_bytes = self.model_runner.capture_model()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 2.00 GiB.",
        "vllm", "out of memory", "while CUDA graphs were captured: 2.00 GiB", "memory_fraction",
    ),
    (
        "vllm-project/vllm#45784",
        "(Worker_TP4_EP4 pid=1364714) ERROR 06-22 10:58:00 [multiproc_executor.py:888] ValueError: Weight "
        "input_size_per_partition = 192 is "
        "not divisible by weight quantization block_k = 128.",
        "vllm", "FP8 blocks and tp", "192 wide", "tp",
    ),
    (
        "vllm-project/vllm#13640",
        "ValueError: Weight input_size_per_partition = 14784 is not divisible by min_thread_k = 128. Consider reducing "
        "tensor_parallel_size "
        "or running with --quantization gptq.",
        "vllm", "Marlin's tiles and tp", "14784 inputs", "tp",
    ),
    (
        "QwenLM/Qwen3-VL#831",
        "ERROR 02-22 00:01:41 engine.py:400] The input size is not aligned with the quantized weight shape. This can be caused "
        "by too large "
        "tensor parallel size.",
        "", "quantised groups and tp", "no whole number of the checkpoint's groups", "tp",
    ),
    (
        "sgl-project/sglang#4330",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "sglang", "no cache", "weights take all", "memory_fraction",
    ),
    (
        "sgl-project/sglang#5285",
        "  File \"/sgl-workspace/sglang/python/sglang/srt/model_executor/cuda_graph_runner.py\", line 269, in __init__\n    "
        "raise Exception(\n"
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00 GiB",
        "sglang", "out of memory", "while CUDA graphs were captured: 448.00 MiB", "memory_fraction",
    ),
    (
        "sgl-project/sglang#10408",
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
        "self.req_to_token_pool.available_size()=1, num_reqs=2, sglang",
        "sglang", "full while serving", "2 requests", "max_num_seqs",
    ),
    (
        "NVIDIA/TensorRT-LLM#5872",
        "[07/08/2025-19:47:15] [TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to "
        "insufficient "
        "GPU memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): 140.06\nFree GPU memory before "
        "component creation attempt (GiB): 108.86\n",
        "tensorrt-llm", "executor", "108.86 of 140.06 GiB were free", "memory_fraction",
    ),
    (
        "NVIDIA/TensorRT-LLM#7818",
        "> [09/17/2025-21:24:19] [TRT-LLM] [RANK 2] [E] Error executing load_single_module with args ('model.layers.9.mlp.gate_up_proj', "
        "Linear()): CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 22.07 GiB of which 20.62 MiB is free.",
        "tensorrt-llm", "out of memory", "while the weights were loaded: 40.00 MiB", "weight_dtype",
    ),
    (
        "NVIDIA/TensorRT-LLM#401",
        "[TensorRT-LLM][ERROR] [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory "
        "(/code/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)",
        "tensorrt-llm", "out of memory", "the C++ runtime", "memory_fraction",
    ),
    (
        "abetlen/llama-cpp-python#1944",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 204800.00 MiB on device 0: cudaMalloc failed: out of memory\n"
        "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
        "llama_init_from_model: llama_kv_cache_init() failed for self-attention cache",
        "llama.cpp", "out of memory", "the cache did not fit: 204800.00 MiB", "max_model_len",
    ),
    (
        "ggml-org/llama.cpp#20431",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory\n"
        "alloc_tensor_range: failed to allocate CUDA0 buffer of size 151851674624\n"
        "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
        "llama.cpp", "out of memory", "the weights did not fit: 144817.04 MiB", "n_gpu_layers",
    ),
    (
        "ggml-org/llama.cpp#16725",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14136.04 MiB on device 0: cudaMalloc failed: out of memory\n"
        "ggml_gallocr_reserve_n: failed to allocate ROCm0 buffer of size 14822711296\ngraph_reserve: failed to allocate compute buffers\n"
        "common_init_from_params: failed to create context with model, try reducing --n-gpu-layers if you're running out of VRAM",
        "llama.cpp", "out of memory", "the compute buffer did not fit: 14136.04 MiB", "n_ubatch",
    ),
    (
        "llama.cpp b4792, a public note",
        "llama_init_from_model: V cache quantization requires flash_attn\ncommon_init_from_params: failed to create context",
        "llama.cpp", "quantised V", "flash attention", "flash_attn",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text", "engine", "name", "means", "first"), PASTED, ids=[case[0] for case in PASTED])
def test_pasted(source: str, text: str, engine: str, name: str, means: str, first: str) -> None:
    causes = kvplan.why(text).causes
    told = causes[0]
    assert (told.name, told.moves[0].setting) == (name, first)
    assert means in told.means
    assert told.engine == engine or (not engine and {cause.engine for cause in causes} >= {"vllm", "sglang"})


def test_a_line_that_only_points_elsewhere() -> None:
    """vLLM's last line is told only where the reason is not there."""
    last = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    assert [cause.name for cause in kvplan.why(last).causes] == ["the cause is above"]
    both = f"ValueError: No available memory for the cache blocks.\n{last}"
    assert [cause.name for cause in kvplan.why(both).causes] == ["no cache"]


def test_flags_are_the_engines_own() -> None:
    vllm = kvplan.why(PASTED[2][1]).causes[0].moves[0]
    assert (vllm.flag, vllm.how) == ("--max-model-len", "at most 23648")
    sglang = kvplan.why("Not enough memory. Please try to increase --mem-fraction-static").causes[0].moves[0]
    assert sglang.flag == "--mem-fraction-static"


def test_settings_are_the_engines_own() -> None:
    """Ollama shares llama.cpp's rows, and has no --n-cpu-moe."""
    text = "allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory alloc_tensor_range: failed"
    told = {name: [move.setting for move in kvplan.why(text, engine=name).causes[0].moves] for name in ("llama.cpp", "ollama")}
    assert "n_cpu_moe" in told["llama.cpp"]
    assert told["ollama"] == [setting for setting in told["llama.cpp"] if setting != "n_cpu_moe"]


def test_an_engine_that_was_named() -> None:
    text = "CUDA out of memory. Tried to allocate 1.00 GiB"
    assert {cause.engine for cause in kvplan.why(text).causes} >= {"vllm", "sglang", "tensorrt-llm"}
    assert {cause.engine for cause in kvplan.why(text, engine="sglang").causes} == {"sglang"}


@pytest.mark.parametrize("engine", ["nosuch", "ideal"])
def test_an_engine_whose_errors_are_not_known(engine: str) -> None:
    with pytest.raises(KvplanError):
        kvplan.why("out of memory", engine=engine)


def test_unknown_text() -> None:
    found = kvplan.why("the weather is fine today")
    assert (found.causes, found.nearest) == ((), ())
    near = kvplan.why("max_num_batched_tokens is smaller than max_num_seqs: must be greater than or equal")
    assert not near.causes
    assert any("max_num_seqs" in known for known in near.nearest)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", PASTED[2][1]]) == 0
    out = capsys.readouterr().out
    assert out.startswith("vllm from 0.2.6 on and before 0.11: one longest request\n")
    assert "  try: --max-model-len: at most 23648\n" in out
    assert run(["why", "the weather is fine today"]) == 1
    assert capsys.readouterr().out == "nothing is known of this text; give the engine's own lines, or its whole log: kvplan why FILE\n"
    assert run(["why"]) == 2
    assert "paste the error" in capsys.readouterr().err
    assert run(["why", "--format", "json", PASTED[2][1]]) == 0
    assert json.loads(capsys.readouterr().out)["causes"][0]["engine"] == "vllm"


def test_schema() -> None:
    assert {"causes", "nearest"} <= set(kvplan.schema("why")["properties"])


ROWS = [(name, stop) for name in engines.explained() for stop in engines.stops(name)]
OPTIONS = {key for name in engines.explained() for key in engines.facts(name).options}


@pytest.mark.parametrize(("engine", "stop"), ROWS, ids=[f"{engine}-{i}" for i, (engine, _) in enumerate(ROWS)])
def test_rows(engine: str, stop: Stop) -> None:
    """A row finds its own words, whatever their values; its meaning takes nothing that its words do not give; its settings exist."""
    fields = re.findall(r"\{(\w+)(?::[wt])?\}", stop.text)
    said = say(stop.text, dict.fromkeys(fields, "7")).replace("...", " and more ")
    match = expression(stop.text).search(f"ValueError: {said} after it")
    assert match is not None
    assert all(value.strip() for value in match.groupdict().values())
    assert needle(stop.text) in said
    assert set(re.findall(r"\{(\w+)\}", stop.means)) <= set(fields) | ({"choices"} & set(fields))
    for move in stop.moves:
        key = move.setting.removeprefix("option:")
        assert not key or key in (OPTIONS if move.setting.startswith("option:") else NAMES), move.setting
        assert set(re.findall(r"\{(\w+)\}", move.how)) <= set(fields)
    assert stop.means
    assert stop.source
    assert not (stop.since and stop.before) or in_force(stop.since, stop.before, stop.since)


def test_wordings_of_one_name_do_not_overlap() -> None:
    """Checks of one condition in other words are of other releases: a verdict has one text."""
    for name in engines.explained():
        checks = [stop for stop in engines.stops(name) if stop.when is not None]
        for one, other in pairwise(checks):
            if one.when is other.when and one.before:
                assert one.before == other.since, one.text


@pytest.mark.parametrize(
    ("engine", "question"),
    [
        ("vllm", {"tp": 8}), ("vllm", {"tp": 3}), ("sglang", {"tp": 8}), ("tensorrt-llm", {"tp": 3}),
        ("llama.cpp", {"kv_dtype": "f16/q8_0", "engine_option": {"flash_attn": "off"}}), ("llama.cpp", {"max_num_seqs": 300}),
        ("vllm", {"max_model_len": 16384, "device": "24GiB"}), ("sglang", {"device": "24GiB"}),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_start_says_what_why_knows(engine: str, question: dict[str, object]) -> None:
    asked = {"device": "h100-80gb", "context": 4096, **question}
    plan = kvplan.estimate("microsoft/phi-4", engine=engine, advise=False, **asked)
    assert plan.starts is False
    assert kvplan.why(plan.outcome.reason or "", engine=engine).causes
