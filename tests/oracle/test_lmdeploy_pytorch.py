"""Against LMDeploy's own Python: its configuration builders, CacheEngine and ExecutorBase.update_configs, on the CPU.

Runs where a `lmdeploy` of a known release can be imported (its Python files alone will do); skips elsewhere. Configurations are the
files of ../shared/data/hf_configs.
"""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines import settle
from kvplan.engines.common.releases import release
from kvplan.engines.lmdeploy.plan import Plan
from kvplan.importers.hf_config import read_config
from tests.conftest import shared

if find_spec("lmdeploy") is None:
    pytest.skip("no lmdeploy to import", allow_module_level=True)

MODELS = {
    "meta-llama--Meta-Llama-3.1-8B.json": (1, 2, 8),
    "Qwen--Qwen2.5-0.5B-Instruct.json": (1, 2),
    "openai--gpt-oss-20b.json": (1, 4),
    "deepseek-ai--DeepSeek-V3.json": (8, 16),
    "deepseek-ai--DeepSeek-V3.2.json": (8,),
    "Qwen--Qwen3-Next-80B-A3B-Instruct.json": (1, 2),
    "Qwen--Qwen3.5-9B.json": (1, 4),
    "zai-org--GLM-5.json": (8,),
}
DEVICE, BATCH = 400 << 30, 100
POLICIES = {"auto": 0, "int8": 8, "int4": 4}


def imported() -> Any:
    """The modules of lmdeploy. Skips where they can not be imported."""
    names = ("version", "pytorch.config", "pytorch.engine.cache_engine", "pytorch.engine.executor.base", "pytorch.configurations.builder")
    try:
        found = [importlib.import_module(f"lmdeploy.{name}") for name in names]
    except Exception as error:
        pytest.skip(f"no lmdeploy to import: {error}")
    return SimpleNamespace(**dict(zip(("version", "config", "cache", "executor", "builder"), found, strict=True)))


def model_config(lm: Any, file: str, tp: int, monkeypatch: pytest.MonkeyPatch, *, flash: bool) -> Any:
    """The ModelConfig that its builders make of a configuration file, as on a GPU of compute capability 9 with flash_mla, or without."""
    torch = pytest.importorskip("torch")
    text = shared(f"data/hf_configs/{file}").read_text(encoding="utf-8")
    hf = json.loads(text, object_hook=lambda pairs: SimpleNamespace(**{"bos_token_id": None, "eos_token_id": None, **pairs}))
    monkeypatch.setattr("lmdeploy.pytorch.configurations.deepseek_v2.flash_mla_available", lambda: flash)
    monkeypatch.setattr("lmdeploy.utils.is_bf16_supported", lambda *_: True)
    if "3.5" in file:
        monkeypatch.setattr("lmdeploy.pytorch.configurations.qwen3_5.is_bf16_supported", lambda *_: True)
    made = lm.builder.AutoModelConfigBuilder.build(hf, None, tp=tp)
    made.dtype, made.hf_config = torch.bfloat16, hf
    for name in ("k_head_dim", "v_head_dim"):  # as ModelConfig.from_hf_config does
        if getattr(made, name) is None:
            setattr(made, name, made.head_dim)
    return made


def block_bytes(lm: Any, made: Any, cache: Any, tp: int) -> int:
    """One block of a rank. From 0.18 on each indexer that was built asks for a row of its own (backends/cuda/nsa.py): one a layer here."""
    if hasattr(lm.cache.CacheEngine, "get_cache_block_size"):
        return int(lm.cache.CacheEngine.get_cache_block_size(cache, made, tp))
    plan, schema = (importlib.import_module(f"lmdeploy.pytorch.engine.cache_engine.{name}") for name in ("plan", "schema"))
    consts, torch = importlib.import_module("lmdeploy.pytorch.consts"), pytest.importorskip("torch")

    def asks(_: Any) -> Any:
        if made.mla_index_topk is None:
            return ()
        shape = consts.dsa_packed_indexer_k_cache_shape(cache.kernel_block_size, made.hf_config.index_head_dim)
        one = schema.BlockCacheRequest(consts.DSA_INDEXER_K_CACHE_NAME, shape, torch.uint8, per_row_contiguous=True)
        return (one,) * made.num_layers

    return int(plan.build_block_cache_plan(made, cache, tp, asks).logical_block_nbytes)


def blocks(lm: Any, made: Any, free: int, tp: int, policy: int) -> Any:
    """The cache configuration after update_configs, where so many bytes are free on every rank. The server's prefill default is 8192."""
    options = {"max_batches": BATCH, "block_size": 64, "num_cpu_blocks": 0, "num_gpu_blocks": 0, "quant_policy": policy}
    cache = lm.config.CacheConfig(max_prefill_token_num=8192, **options)
    if getattr(made, "post_build_func", None):
        made.post_build_func(made, 64)

    class Executor(lm.executor.ExecutorBase):  # type: ignore[misc]
        def gather_free_mem(self) -> list[int]:
            return [free] * tp

        def set_cache_config(self, *_: Any) -> None: ...

        def set_model_config(self, *_: Any) -> None: ...

        def _prepare_worker_cache_plans(self, *_: Any) -> list[Any]:  # 0.18
            return [SimpleNamespace(total=block_bytes(lm, made, cache, tp), target=0, spec=0)] * tp

    Executor("", made, cache, None, lm.config.DistConfig(tp=tp), SimpleNamespace(memdecode_config=None)).update_configs()
    return cache


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("file", "tp"), [(file, tp) for file, sizes in MODELS.items() for tp in sizes])
def test_blocks_are_those_that_lmdeploy_makes(file: str, tp: int, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block bytes, state bytes and num_gpu_blocks from the same free memory."""
    lm = imported()
    version = lm.version.__version__
    spec = read_config(shared(f"data/hf_configs/{file}"))
    latent = "DeepSeek" in file or "GLM" in file
    old, new = release(version) < (0, 12), ("V3.2", "GLM", "Next", "3.5")
    if (latent and policy != "auto") or (old and any(name in file for name in new)):
        pytest.skip("not in this release, or not with quant_policy")
    options = (("backend", "pytorch"), *((("flash_mla", "true"),) if latent else ()))
    asked: dict[str, Any] = {"kv_dtype": policy, "dtype": "bf16", "weight_dtype": "bf16", "engine_option": options}
    sizes: dict[str, Any] = {"device": sized(DEVICE), "tp": tp, "context": 1000, "max_num_seqs": BATCH}
    question = Deployment(model=spec, engine="lmdeploy", engine_version=version, **asked, **sizes)
    engine, settled = settle(question)
    plan = Plan(settled)
    free = DEVICE - sum(e.bytes for e in plan.weights)
    made = model_config(lm, file, tp, monkeypatch, flash=latent)
    cache = blocks(lm, made, free, tp, POLICIES[policy])
    told = lm.cache.CacheEngine.get_cache_block_size(64, made, tp, POLICIES[policy]) if old else block_bytes(lm, made, cache, tp)
    assert plan.kept.block == told
    capacity = engine.plan(settled).capacity
    assert capacity is not None, engine.plan(settled).reason
    assert capacity.blocks == cache.num_gpu_blocks
    if made.__dict__.get("states_shapes"):
        states = lm.cache.StateCacheEngine
        sized_by = states.get_state_slot_nbytes if hasattr(states, "get_state_slot_nbytes") else states.get_cache_state_size
        assert capacity.kv_bytes == cache.num_gpu_blocks * plan.kept.block + cache.num_state_caches * sized_by(made.states_shapes)
