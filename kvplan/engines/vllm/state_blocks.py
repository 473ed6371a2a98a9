"""Blocks that hold a state for prefix caching, and what a release stops at of them: config/vllm.py, `mamba_cache_mode` align."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.blocks import choose_blocks
from kvplan.engines.vllm.layers import mixers
from kvplan.engines.vllm.settings import settings_of
from kvplan.engines.vllm.specs import KEPT_STATES


def _block(settled: Settled) -> int:
    """Tokens of a block whose last state is kept; 0 where none is."""
    s = settings_of(settled)
    if s.state_mode != "align" or s.platform != "cuda":
        return 0
    owners, _ = mixers(s.served, s)
    return choose_blocks(owners, s).blocks.primary


def _whole_media(settled: Settled) -> Values:
    return {} if Options(settled.question).flag("disable_chunked_mm_input") and settings_of(settled).state_mode == "align" else None


def _wider(settled: Settled) -> Values:
    block, batch = _block(settled), settings_of(settled).max_num_batched_tokens
    return {"block": block, "batch": batch} if block > batch else None


def _uncached(settled: Settled) -> Values:
    s = settings_of(settled)
    asked = s.state_block if s.forms & KEPT_STATES and s.state_mode == "none" and s.state_block != s.max_model_len else None
    return {"block": asked} if asked else None


def _replayed(settled: Settled) -> Values:
    named = settled.question.model.architecture or ""
    return {"class": named} if settings_of(settled).replayed and not named.startswith(("NemotronH", "KimiK3")) else None


def _replayed_by_v2(settled: Settled) -> Values:
    s = settings_of(settled)
    return {} if s.replayed and s.second_runner and s.method == "off" else None


def _replayed_drafts(settled: Settled) -> Values:
    s, named = settings_of(settled), settled.question.model.architecture or ""
    return {} if s.replayed and s.method != "off" and named.startswith("NemotronH") else None


def _drafted(settled: Settled) -> Values:
    """Drafts beside a model with states, of which one class goes with them."""
    s, named = settings_of(settled), settled.question.model.architecture
    return {} if s.method != "off" and s.rules.v1 and s.forms & KEPT_STATES and named != "Qwen3NextForCausalLM" else None


_SOURCE = "config/vllm.py, from 0.20 on validate_block_size"
_SMALLER = (Move("option:enable_prefix_caching", "false"), Move("tp", "a larger one, whose ranks keep smaller states"))


def _alone(settled: Settled) -> Values:
    """Prefixes kept of a model that has states alone, where no block size is asked for, which would then be theirs."""
    s = settings_of(settled)
    asked = settled.question.block_size is not None
    return {} if s.caching and s.forms and s.forms <= KEPT_STATES and s.rules.v1 and not asked else None


def _headless(settled: Settled) -> Values:
    return {} if settled.question.model.architecture == "Mamba2ForCausalLM" else None


_NO_PREFIXES, _OFF = "this release keeps no prefixes of a model that has states alone", Move("option:enable_prefix_caching", "false")
CHECKS: tuple[Stop, ...] = (
    Stop(
        "prefixes of states alone", "UnitaryKVCacheCoordinator assumes hash_block_size == block_size", _NO_PREFIXES,
        (_OFF, Move("block_size", "a size")), "v1/core/kv_cache_coordinator.py", since="0.12", before="0.15", when=_alone,
    ),
    Stop(
        "prefixes of states alone", "bad operand type for unary -: 'NoneType'", _NO_PREFIXES,
        (_OFF, Move("block_size", "a size")), "v1/core/single_type_kv_cache_manager.py, utils/math_utils.py cdiv",
        since="0.15", before="0.18", when=_alone, near=("single_type_kv_cache_manager", "cdiv"),
    ),
    Stop(
        "Mamba-2 without heads", "'Mamba2Config' object has no attribute 'num_attention_heads'",
        "this release asks every config for its attention heads, and Mamba-2's has num_heads", (Move("engine_version", "0.18 or later"),),
        "transformers_utils/model_arch_config_convertor.py", since="0.14", before="0.18", when=_headless,
    ),
    Stop(
        "blocks of states", "--mamba-block-size can only be set with --enable-prefix-caching",
        "without prefix caching a request has one state, however long it is",
        (Move("option:enable_prefix_caching", "true"), Move("option:mamba_block_size", "none")), "config/vllm.py validate_mamba_block_size",
        since="0.11.1", when=_uncached, numbers="{block} tokens",
    ),
    Stop(
        "ReplaySSM", "--use-replayssm is not supported for architecture '{class:w}'", "its class keeps no inputs beside its states",
        (Move("option:use_replayssm", "false"),), "config/vllm.py validate_mamba_cached_kernel", since="0.27", when=_replayed,
    ),
    Stop(
        "ReplaySSM and the V2 runner", "Triton ReplaySSM requires Model Runner V1; use --mamba-backend flashinfer or Model Runner V1",
        "the model runs on the V2 model runner, which has no such kernel of Triton's",
        (Move("option:use_replayssm", "false"), Move("option:v2_model_runner", "false")), "config/vllm.py validate_mamba_cached_kernel",
        since="0.30", when=_replayed_by_v2,
    ),
    Stop(
        "ReplaySSM and drafts", "Mamba2 ReplaySSM speculative decoding requires --mamba-backend flashinfer",
        "Triton's kernel replays one token a step", (Move("option:use_replayssm", "false"), Move("speculative", "none")),
        "config/vllm.py validate_mamba_cached_kernel", since="0.27", when=_replayed_drafts,
    ),
    Stop(
        "drafts beside states", "Mamba with speculative decoding is not supported yet.",
        "this release drafts beside states of Qwen3-Next alone", (Move("speculative", "none"), Move("engine_version", "0.17 or later")),
        "layers/mamba/abstract.py get_kv_cache_spec; to 0.11.0 v1/worker/gpu_model_runner.py", since="0.10.2", before="0.17", when=_drafted,
        loading=True,
    ),
    Stop(
        "whole media beside states",
        "Chunked MM input is required because we need the flexibility to schedule a multiple of block_size",
        "states are kept where blocks end, also in the middle of an image",
        (Move("option:disable_chunked_mm_input", "false"), _SMALLER[0]), _SOURCE, since="0.16", when=_whole_media,
        tail=" tokens even if they are in the middle of a mm input",
    ),
    Stop(
        "a step shorter than a block of states",
        "In Mamba cache align mode, block_size ({block}) must be <= max_num_batched_tokens ({batch}).",
        "states are kept where blocks of {block} tokens end, and a step of {batch} reaches no end",
        (Move("max_num_batched_tokens", "{block} or more"), *_SMALLER), _SOURCE, since="0.17", before="0.27", when=_wider,
    ),
)  # fmt: skip
