"""What is wrong with the caller's own values is an error; what another tool fills in, or what may be a slip, is open."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.errors import KvplanError
from kvplan.manifests import Source, read

SERVE = Source("serve.sh", "vllm serve Qwen/Qwen3-8B --max-model-len 8192")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"device": "h100,l4"}, "one question takes one"),
        ({"device": "nosuch"}, "unknown device"),
        ({"context": 0}, "at least 1"),
        ({"kv_dtype": "int3"}, "KV cache format"),
        ({"engine_option": {"nosuch": 1}}, "no engine has such an option"),
        ({"engine_option": {"cudagraph_mode": "foo"}}, "is not one of NONE"),
        ({"engine": "sglang"}, "the files say which"),
    ],
)
def test_a_wrong_value_of_the_caller_is_no_verdict_on_a_file(given: dict[str, Any], told: str) -> None:
    with pytest.raises(KvplanError, match=told):
        kvplan.check([SERVE], **({"device": "h100"} | given))


def test_a_wrong_value_of_the_file_is_one() -> None:
    (verdict,) = kvplan.check([Source("serve.sh", "vllm serve Qwen/Qwen3-8B --kv-cache-dtype int3")], device="h100")
    assert verdict.status != "fits"


WORKFLOW = """
on:
  workflow_dispatch:
    inputs: {len: {default: "4096"}}
jobs:
  t:
    steps:
    - env: {SEQS: "${{ inputs.n || 64 }}"}
      run: vllm serve Qwen/Qwen3-8B --max-model-len ${{ inputs.len || 8192 }} --max-num-seqs $SEQS -tp ${{ matrix.tp }}
"""


def test_expressions_of_a_workflow_are_known_by_their_defaults_or_open() -> None:
    (found,) = read(WORKFLOW, "ci.yaml")
    assert found.question == {"max_model_len": 4096, "max_num_seqs": 64}
    assert [one.what for one in found.unresolved if one.what != "device"] == ["tp"]
    assert not [f for f in found.findings if f.severity == "error"]


@pytest.mark.parametrize(
    ("line", "what"), [("llama-server -m x.gguf --ctk q8_0", "ctk"), ("llama-server -m x.gguf --ubatch-sizes 64", "n_ubatch")]
)
def test_a_slip_of_an_option_that_moves_memory_leaves_the_verdict_open(line: str, what: str) -> None:
    (found,) = read(line, "serve.sh")
    assert what in [one.what for one in found.unresolved]


RAY = """
applications:
- import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: q, model_source: Qwen/Qwen2.5-7B-Instruct}
      accelerator_type: L40S
      lora_config: {dynamic_lora_loading_path: "s3://b/lora", max_num_adapters_per_replica: 8}
"""


def test_adapters_of_a_ray_config_are_asked_for() -> None:
    (found,) = read(RAY, "serve.yaml")
    assert [one.what for one in found.unresolved] == ["lora"]
    (verdict,) = kvplan.check([Source("serve.yaml", RAY)], lora="16x8")
    assert verdict.status == "fits"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("""vllm serve Qwen/Qwen3-8B --attention-config '{"backend": "FLASHINFER"}'""", {"attention_backend": "FLASHINFER"}),
        ("vllm serve Qwen/Qwen3-8B -ac.backend FLASH_ATTN", {"attention_backend": "FLASH_ATTN"}),
        ("DYN_KVBM_CPU_CACHE_GB=100 vllm serve Qwen/Qwen3-8B", {"dyn_kvbm_cpu_cache_gb": 100.0}),
    ],
)
def test_other_words_for_what_is_modelled_are_used(line: str, options: dict[str, Any]) -> None:
    (found,) = read(line, "serve.sh")
    assert found.question["engine_option"] == options
    assert not [f for f in found.findings if f.rule.startswith("not-modelled")]


def test_what_of_the_attention_config_is_not_modelled_is_said() -> None:
    (found,) = read("""vllm serve Qwen/Qwen3-8B --attention-config '{"backend": "FLASHINFER", "flash_attn_version": 2}'""", "serve.sh")
    assert [f.message for f in found.findings if f.rule == "not-modelled-either"] == [
        "--attention-config: flash_attn_version changes memory in a way that is not modelled"
    ]


def test_a_unit_may_bound_its_memory() -> None:
    unit = "[Service]\nMemoryMax=16G\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B\n"
    (found,) = read(unit, "vllm.service")
    assert found.limits.memory is not None
    assert found.limits.memory.value == 16 << 30


def test_sizes_that_a_program_works_out_are_known() -> None:
    (found,) = read(
        'from vllm import LLM\nllm = LLM(model="Qwen/Qwen3-8B", kv_cache_memory_bytes=8 * 2**30, max_num_seqs=64 // 4)\n', "run.py"
    )
    assert (found.question["kv_memory"], found.question["max_num_seqs"]) == (8 << 30, 16)


def test_the_table_shows_what_was_not_read_and_counts_other_notes() -> None:
    from kvplan.report.findings import text

    unit = "[Service]\nEnvironmentFile=/etc/vllm/env\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B\n"
    verdicts = kvplan.check([Source("vllm.service", unit)], device="h100")
    shown = text([verdict.as_dict() for verdict in verdicts])
    assert "note: /etc/vllm/env is not read" in shown
    assert "more: --format json" in shown


def test_a_server_whose_engine_is_modelled_is_not_said_to_be_unknown() -> None:
    (verdict,) = kvplan.check([Source("serve.sh", "mlx_lm.server --model mlx-community/Qwen3-8B-4bit")])
    assert (verdict.status, verdict.exit_code) == ("unknown", 2)
    assert "kvplan estimate MODEL --engine mlx-lm" in verdict.findings[0].message


def test_graphs_of_a_file_of_keys_are_said() -> None:
    text = "cat > e.yaml <<EOF\ncuda_graph_config: {max_batch_size: 64}\nEOF\ntrtllm-serve Qwen/Qwen3-8B --extra_llm_api_options e.yaml\n"
    (found,) = read(text, "serve.sh")
    assert ["max_batch_size" in f.message for f in found.findings if f.rule == "not-modelled-either"] == [True]
