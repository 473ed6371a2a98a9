"""State slots where SGLang only decodes, index keys of rows in host memory, overrides of a config, runners of experts."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kvplan
from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec
from tests.conftest import planned
from tests.unit.engines.test_sglang_refusals import stopped

NANO, LLAMA, GLM, V32, KIMI = (
    "nvidia/nemotron-3-nano-30b-a3b", "meta-llama/llama-3.1-8b", "zai-org/glm-5", "deepseek-ai/deepseek-v3.2", "moonshotai/kimi-k2",
)  # fmt: skip
DECODES = {"disaggregation_mode": "decode"}


def plan(model: str | ModelSpec, version: str, options: dict[str, str], **question: Any) -> Plan:
    return planned(
        model,
        engine="sglang",
        engine_version=version,
        device="h100-80gb",
        kv_memory=40 << 30,
        engine_option=options,
        **question,
    )


def pool(found: Plan, name: str) -> int:
    return next(entry.bytes for entry in found.ledgers[0].entries if entry.name == f"cache: {name}")


#: One state of Nemotron 3 Nano: 23 layers x ((64 heads x 64 + 2 x 8 groups x 128) x 3 x 2 convolution + 64 x 64 x 128 x 4 recurrent).
STATE = 23 * ((64 * 64 + 2 * 8 * 128) * 3 * 2 + 64 * 64 * 128 * 4)


@pytest.mark.parametrize(
    ("version", "states", "running", "slots"),
    [
        # disaggregation/decode.py HybridMambaDecodeReqToTokenPool; requests that come in: twice 16
        ("0.5.8", 300, 16, 16 + 32),
        ("0.5.9", 300, 16, 300 + 32),
        ("0.5.10", 300, 16, 16 + 32),
        ("0.5.12", 300, 16, 300),
        ("0.5.12", 20, 16, 16 + 32),
        ("0.5.9", 300, 33, 300),  # none for more than 32
    ],
)
def test_state_slots_of_a_server_that_only_decodes(version: str, states: int, running: int, slots: int) -> None:
    found = plan(NANO, version, DECODES | {"max_mamba_cache_size": str(states)}, max_num_seqs=running)
    assert pool(found, "state pool") == (slots + 1) * STATE


@pytest.mark.parametrize(("version", "charged"), [("0.5.13", 0), ("0.5.18", 1)])
def test_index_keys_of_rows_in_host_memory(version: str, charged: int) -> None:
    """mem_cache/hisparse_memory_pool.py: index_buf_size = size x 2; 78 layers x (576 x 2 of rows + 132 of keys), charged once, twice."""
    found = plan(GLM, version, {"disable_radix_cache": "true", "enable_hisparse": "true"}, tp=8)
    assert found.capacity is not None
    tokens = (40 << 30) // (78 * (576 * 2 + 132 * (1 + charged))) // 64 * 64
    assert found.capacity.tokens == tokens
    assert pool(found, "full pool") == 78 * ((tokens + 64) * 576 * 2 + (2 * tokens + 64) * 132)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
SAME = {"enable_deterministic_inference": "true"}
CUTLASS, TIER = {"moe_runner_backend": "cutlass"}, {"enable_hierarchical_cache": "true"}


@pytest.mark.parametrize(
    ("keys", "longest"),
    [
        # hf_transformers_utils.py get_context_length: a factor counts where no length before it is named
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 8192),
        ({"max_position_embeddings": 4096, "rope_scaling": YARN}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
    ],
)  # fmt: skip
def test_length_of_an_overridden_config(keys: dict[str, Any], longest: int) -> None:
    found = plan(LLAMA, "0.5.23", {"json_model_override_args": json.dumps(keys)})
    assert found.question["max_model_len"][0] == longest


def test_layers_of_an_overridden_config() -> None:
    """8 layers x 2 x 8 heads x 128 x 2 bytes, where the model has 32."""
    found = plan(LLAMA, "0.5.23", {"json_model_override_args": '{"num_hidden_layers": 8}'})
    assert found.ledgers[0].cache_bytes_per_token == 8 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(("version", "heads"), [("0.5.3", 4), ("0.5.6", 8)])
def test_internvl_has_its_text_models_config_inside_another_from_0_5_4_on(version: str, heads: int) -> None:
    """The run of 0.4.6 has 4 KV heads where InternVL2-4B has 32; get_hf_text_config knows llm_config from 0.5.4 on."""
    found = plan("opengvlab/internvl2-8b", version, {"json_model_override_args": '{"num_key_value_heads": 4}'})
    assert found.ledgers[0].cache_bytes_per_token == 32 * 2 * heads * 128 * 2


def test_kv_heads_beside_states_are_overridden() -> None:
    """6 layers of K and V among those with states: 4 heads where the config has 2. 0.5.18 halved the tokens of its 550 B sibling so."""
    found = plan("nvidia/nvidia-nemotron-3-nano-30b-a3b-bf16", "0.5.18", {"json_model_override_args": '{"num_key_value_heads": 4}'})
    assert found.ledgers[0].cache_bytes_per_token == 6 * 2 * 4 * 128 * 2


@pytest.mark.parametrize(
    ("model", "version", "layers", "per_token"),
    [  # configs/nemotron_h.py: the first 8 layers have one with K and V, all 52 have six
        ("nvidia/nvidia-nemotron-3-nano-30b-a3b-bf16", "0.5.7", 8, 1 * 2 * 2 * 128 * 2),
        ("nvidia/nvidia-nemotron-3-nano-30b-a3b-bf16", "0.5.10", 8, 6 * 2 * 2 * 128 * 2),
        (LLAMA, "0.5.23", 64, 64 * 2 * 8 * 128 * 2),
    ],
)
def test_layers_of_an_overridden_list(model: str, version: str, layers: int, per_token: int) -> None:
    found = plan(model, version, {"json_model_override_args": f'{{"num_hidden_layers": {layers}}}'})
    assert found.ledgers[0].cache_bytes_per_token == per_token


def test_a_config_inside_another_is_not_overridden() -> None:
    found = plan("google/gemma-3-4b", "0.5.23", {"json_model_override_args": '{"num_hidden_layers": 8}'})
    assert "json_model_override_args: num_hidden_layers changes memory" in json.dumps(found.as_dict())


@pytest.mark.parametrize(
    ("model", "version", "asked", "said"),
    [
        # 0.4.10 server_args.py: 0 is a multiple of any page, -1 of none
        (LLAMA, "0.4.10", {"block_size": 64, "engine_option": {"zero_chunk": "true"}}, None),
        (LLAMA, "0.4.10", {"block_size": 64, "engine_option": {"disable_chunked_prefill": "true"}}, "must be divisible by page_size"),
        # arg_groups/kv_cache_hook.py, 0.5.21 and later
        ("qwen/qwen3-32b", "0.5.23", {"device": "b200", "kv_dtype": "nvfp4", "engine_option": TIER},
         "SM100 native NVFP4"),
        ("qwen/qwen3-32b", "0.5.20", {"device": "b200", "kv_dtype": "nvfp4", "engine_option": TIER}, None),
        ("qwen/qwen3-32b", "0.5.23", {"device": "b200", "kv_dtype": "nvfp4"}, None),
        # server_args.py: attention data parallelism over all of tp is set for sparse attention before this is looked at
        (V32, "0.5.3", {"tp": 4, "engine_option": DECODES}, "Prefill round robin balance is required"),
        (V32, "0.5.3", {"tp": 4, "engine_option": DECODES | {"prefill_round_robin_balance": "true"}}, None),
        (V32, "0.5.9", {"tp": 4, "engine_option": DECODES}, None),
        # server_args.py: on 10.x the checkpoint's FP8 is known
        (KIMI, "0.5.6", {"device": "b200", "tp": 8, "ep": 8, "engine_option": CUTLASS}, "Cutlass MoE is only supported"),
        (KIMI, "0.5.6", {"device": "h200", "tp": 8, "ep": 8, "engine_option": CUTLASS}, None),
        (KIMI, "0.5.6", {"device": "b200", "tp": 8, "engine_option": CUTLASS}, None),
        ("openai/gpt-oss-20b", "0.5.9", {"tp": 2, "ep": 2, "engine_option": {"moe_runner_backend": "triton_kernel"}}, "Triton kernel MoE"),
        # arg_groups/kv_cache_hook.py, 0.5.21 and later
        ("qwen/qwen3-32b", "0.5.23", {"kv_dtype": "nvfp4"}, "requires Blackwell SM100 or SM120"),
        ("qwen/qwen3-32b", "0.5.23", {"kv_dtype": "fp4_mx_block16", "engine_option": {"attention_backend": "triton"}}, None),
        ("qwen/qwen3-32b", "0.5.23", {"device": "b200", "kv_dtype": "nvfp4", "engine_option": {"attention_backend": "triton"}},
         "NVFP4 prefill supports"),
        # server_args.py: the lists of backends for Llama 4 and gpt-oss grew
        ("meta-llama/llama-4-scout-17b-16e", "0.5.9", {"tp": 8, "engine_option": {"attention_backend": "ascend"}}, "for Llama4"),
        ("meta-llama/llama-4-scout-17b-16e", "0.5.10", {"tp": 8, "engine_option": {"attention_backend": "ascend"}}, "torch_npu"),
        # the runs of 0.5.18 and 0.5.23: a class's own backend is set before deterministic inference looks, but not beside one of a phase
        (KIMI, "0.5.18", {"device": "b200", "tp": 8, "engine_option": SAME}, "not trtllm_mla"),
        ("zai-org/glm-5", "0.5.23", {"device": "b200", "tp": 8, "engine_option": SAME}, "not dsa"),
        ("zai-org/glm-5", "0.5.23",
         {"device": "b200", "tp": 8, "engine_option": SAME | {"prefill_attention_backend": "hpc_ops"}}, None),
        # server_args.py _handle_context_parallelism: 2 ranks of experts in each of 2 groups are more than tp 2
        ("qwen/qwen3-30b-a3b", "0.5.9", {"tp": 2, "ep": 2, "engine_option": {"moe_dp_size": "2"}}, "ep_size * moe_dp_size"),
        ("qwen/qwen3-30b-a3b", "0.5.9", {"tp": 4, "ep": 2, "engine_option": {"moe_dp_size": "2"}}, None),
        # server_args.py, arg_groups/pd_disaggregation_hook.py: classes whose encoders another server may have
        (NANO, "0.5.18", {"tp": 4, "engine_option": {"language_only": "true"}}, "is not supported for encoder disaggregation"),
        ("qwen/qwen3-vl-8b", "0.5.18", {"engine_option": {"language_only": "true"}}, None),
        # model_overrides/nemotron_h.py: trtllm_mha for a chain alone
        (NANO, "0.5.23", {"device": "b200", "speculative": "mtp:2", "engine_option": {"speculative_eagle_topk": "2"}}, None),
    ],
)  # fmt: skip
def test_what_stops_it(model: str, version: str, asked: dict[str, Any], said: str | None) -> None:
    found = stopped(model, version, **asked)
    assert found is None if said is None else said in (found or ""), found


def test_a_chunk_of_none_as_it_was_said() -> None:
    for said, name in (("0", "zero_chunk"), ("-1", "disable_chunked_prefill")):
        asked = read(ARGUMENTS, words("--model-path", "x", "--chunked-prefill-size", said), {}, "0.4.10").question
        assert f"engine_option.{name}" in asked
        assert ("engine_option.zero_chunk" in asked) == (said == "0")


def test_dual_chunk_attention_keeps_no_prefixes() -> None:
    """server_args.py sets disable_radix_cache: one state slot a request, and one more."""
    found = plan("qwen/qwen3-next-80b-a3b", "0.5.9", {"attention_backend": "dual_chunk_flash_attn"}, tp=4, max_num_seqs=16)
    assert found.capacity is not None
    assert {group.role: group.cells for group in found.capacity.groups}["state"] == 16


def test_a_config_without_a_length() -> None:
    """hf_transformers_utils.py get_context_length: 2048."""
    model = kvplan.model(LLAMA).changed(max_context=None, architecture="LlamaForCausalLM")
    assert plan(model, "0.5.23", {}).question["max_model_len"][0] == 2048


def test_inputs_from_which_states_are_replayed() -> None:
    """memory_pool.py MambaPool, 0.5.15 and later: 16 values, keys and decays a layer in f32, and where the next is written."""
    options = {"mamba_radix_cache_strategy": "no_buffer", "disable_radix_cache": "true", "max_mamba_cache_size": "20"}
    plain, more = (plan(NANO, "0.5.23", options | o, max_num_seqs=16) for o in ({}, {"enable_linear_replayssm": "true"}))
    ring = 23 * 16 * 4 * (64 * 64 + 8 * 128 + 64) + 4
    assert pool(more, "state pool") - pool(plain, "state pool") == 21 * ring


def test_state_slots_of_attention_groups() -> None:
    """0.5.3 model_runner.py init_memory_pool: max_running_requests of all groups, at most a group's slots, and one more."""
    options = {"enable_dp_attention": "true", "disable_overlap_schedule": "true"}
    slot = 36 * ((2 * 16 * 128 + 32 * 128) // 2 * 3 * 2 + 32 // 2 * 128 * 128 * 4)  # of 2 ranks that share a state
    for more, dp, held in (({}, 4, 3 * slot), ({}, 8, 2 * 2 * slot), ({"max_mamba_cache_size": "64"}, 4, 9 * slot)):
        found = plan("qwen/qwen3-next-80b-a3b", "0.5.3", options | more, tp=8, dp=dp, max_num_seqs=8, context=4096)
        assert pool(found, "state pool") == held


def test_prefill_graphs_of_576_tokens() -> None:
    """server_args.py _generate_piecewise_cuda_graph_tokens: a size since 0.5.9, of 8 MiB; 41 sizes to 2,048 without it, by hand."""
    for version, sizes, fraction in (("0.5.8", 41, 0.739), ("0.5.9", 42, 0.738)):
        found = planned(
            "deepseek-ai/deepseek-v3", engine="sglang", engine_version=version, device="h100-80gb", tp=4, dp=2,
            speculative="eagle:5", engine_option={"enable_piecewise_cuda_graph": "true", "enable_dp_attention": "true"},
        )  # fmt: skip
        reserved = 512 + 8192 * 1.5 + 4 / 8 * 1024 + 512 * 2 + 512 * 2 * 4.5 + sizes * 8 + 2048
        assert found.question["memory_fraction"][0] == round((81559 - reserved) / 81559, 3) == fraction
