"""Tiers beside the GPUs that one vLLM server can have: its own offloading connector, LMCache, Dynamo's KVBM.

native   kv_offloading_size GiB of all ranks. A chunk is a block (or kv_connector_extra_config's block_size tokens of them) of one group on
         every rank, and takes what a block id takes on a GPU; rounded up to memory's pages from 0.27 on, when ranks that hold the same
         latent also began to share one copy (v1/kv_offload/cpu/spec.py CPUOffloadingSpec, offloading/config.py build_offloading_config)
lmcache  up to 0.23 the same GiB dealt to the ranks, each with a pool of its own (config/vllm.py _post_init_kv_transfer_config); a latent is
         kept by the first rank alone. From 0.24 on a server of its own, whose size is its own (lmcache 0.5.6 --l1-size-gb)
         Chunks of 256 tokens, rounded up to 4 KiB in memory (lmcache 0.5.6 v1/storage_backend/local_cpu_backend.py)
kvbm     DYN_KVBM_CPU_CACHE_GB and DYN_KVBM_DISK_CACHE_GB, GB (10^9) of all ranks together; a block is one of the engine's on every rank
         (ai-dynamo 1.6 block_manager/distributed/leader.rs compute_num_blocks)
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.tiers import OFFLOADING, Kind, Part, Place, Tier, of_each, pool
from kvplan.engines.vllm.capacity import Pool
from kvplan.engines.vllm.connectors import IN_PROCESS, KVBM, uses_lmcache
from kvplan.engines.vllm.groups import KVGroup
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.specs import LATENT
from kvplan.engines.vllm.wordings import Refused
from kvplan.errors import SpecError, UnsupportedError
from kvplan.units import GIB, round_up

GB, PAGE = 10**9, 4096


def tiers(d: Deployment, s: VllmSettings, made: Pool) -> tuple[Tier, ...]:
    """The tiers that were asked for.

    Raises SpecError where a size is missing, UnsupportedError where two systems are asked for, Refused where the connector does not start.
    """
    options = Options(d)
    chunk = options.count("kv_offloading_block_size")
    if not made.groups:
        return ()
    asked = {
        "the offloading connector": bool(options.text("kv_offloading_size")) and not uses_lmcache(options),
        "LMCache": uses_lmcache(options),
        "KVBM": any(options.text(key) for key in KVBM),
    }
    if sum(asked.values()) > 1:
        raise UnsupportedError(f"one connector keeps the tiers; {' and '.join(n for n, on in asked.items() if on)} were asked for")
    if chunk is not None and not asked["the offloading connector"]:
        raise SpecError("engine_option", [("kv_offloading_block_size", "is the chunk of kv_offloading_size, which is not asked for")])
    if asked["the offloading connector"]:
        return tuple(_native(options, chunk, s, made))
    if asked["LMCache"]:
        return tuple(_lmcache(options, s, made))
    return tuple(_kvbm(options, s, made))


def _native(options: Options, chunk: int | None, s: VllmSettings, made: Pool) -> Iterator[Tier]:
    size = options.number("kv_offloading_size") or 0
    blocks = _blocks_per_chunk(chunk, made)
    ranks, early = s.tp * s.pp, not s.since("0.27")
    shared = not early and s.tp > 1 and s.pp == 1 and s.dcp == 1 and _one_copy(made, s)
    each = made.block_bytes[0] * blocks
    piece = round_up(each * (1 if shared else ranks), 1 if early else PAGE)
    setting = f"kv_offloading_size {size:g} GiB"
    yield pool("cpu", OFFLOADING, setting, int(size * GIB), piece, _parts(made, blocks), ranks, shared=shared)


def _one_copy(made: Pool, s: VllmSettings) -> bool:
    """Whether every rank holds the same bytes: latents alone; up to 0.30 of one page size."""
    specs = [m.spec for group in made.groups for m in group.members]
    if s.since("0.31"):
        return all(spec.kind in LATENT for spec in specs)
    return len(set(specs)) == 1 and specs[0].kind == "mla_attention"


def _blocks_per_chunk(tokens: int | None, made: Pool) -> int:
    """Blocks of a chunk of so many tokens. Raises Refused where the engine refuses it.

    Source: v1/kv_offload/base.py OffloadingSpec; from 0.32 offloading/config.py build_offloading_config.
    """
    sizes = {group.members[0].spec.block * made.load.dcp for group in made.groups}
    if tokens is None:
        return 1
    block = min(sizes)
    if len(sizes) > 1:
        raise Refused("If 'block_size' is specified in kv_connector_extra_config, all groups must have the same block size.")
    if tokens % block:
        raise Refused(
            f"'block_size'={tokens} in kv_connector_extra_config must be a multiple of the GPU KV cache block size ({block} tokens)."
        )
    return tokens // block


def _parts(made: Pool, blocks: int) -> list[Part]:
    """Every group that prefixes are kept of; of packed groups a block comes back whole."""
    packed = len(made.groups) > 1 and all(group.mixed for group in made.groups)
    return [
        Part(_kind(group), group.members[0].spec.block * made.load.dcp * blocks, 1,
             (max(made.block_bytes) if packed else _unpadded(group)) * blocks, group.members[0].spec.span)
        for group in made.groups
        if group.members[0].spec.kind != "cross_attention"
    ]  # fmt: skip


_KINDS: dict[str, Kind] = {"mamba": "state", "sliding_window": "window", "sliding_window_mla": "window", "chunked_local_attention": "chunk"}


def _kind(group: KVGroup) -> Kind:
    return _KINDS.get(group.members[0].spec.kind, "full")


def _unpadded(group: KVGroup) -> int:
    """Bytes of one block of a group without what brings pages to one size, on the rank that has most of it."""
    stages = {m.stage for m in group.members}
    return max(sum(m.spec.content for m in group.members if m.stage == stage) for stage in stages)


def _lmcache(options: Options, s: VllmSettings, made: Pool) -> Iterator[Tier]:
    parts, ranks = [_chunk(_parts(made, 1), options.count("lmcache_chunk_size") or 256)], s.tp * s.pp
    each, latent = parts[0].load_bytes, s.tp > 1 and all(m.spec.kind in LATENT for group in made.groups for m in group.members)
    copies, whose = (1, " of the first rank" if ranks > 1 else "") if latent else (ranks, of_each(ranks))
    own, size = options.number("lmcache_max_local_cpu_size"), options.number("kv_offloading_size")
    server, disk = options.number("lmcache_l1_size_gb"), options.number("lmcache_max_local_disk_size")
    if server is not None:
        setting = f"--l1-size-gb {server:g} of LMCache's server"
        yield pool("cpu", "LMCache", setting, int(server * GIB), round_up(each, PAGE) * copies, parts, ranks, shared=latent)
        return
    if unsized(options, s):
        return
    rank = own if own is not None else size / ranks if size is not None else 5.0
    sizes: tuple[tuple[Place, str, float | None, int], ...] = (
        ("cpu", "max_local_cpu_size", rank, round_up(each, PAGE)),
        ("disk", "max_local_disk_size", disk, each),
    )
    for place, name, share, piece in sizes:
        if share is not None:
            setting, held = f"{name} {share:g} GiB{whose}", int(share * GIB) // piece
            yield pool(place, "LMCache", setting, int(share * GIB) * copies, piece * copies, parts, ranks, shared=latent, pieces=held)


def unsized(options: Options, s: VllmSettings) -> str | None:
    """Why a tier that was asked for is none here: its size is another process's to say."""
    by_flag = options.text("kv_offloading_backend") == "lmcache" and not any(
        options.text(key) for key in (*IN_PROCESS, "lmcache_l1_size_gb")
    )
    if not by_flag or not s.since("0.24"):
        return None
    return f"vLLM {s.release} leaves the size of the tier to LMCache's own server: say its --l1-size-gb as lmcache_l1_size_gb"


def _chunk(parts: list[Part], tokens: int) -> Part:
    """LMCache's chunk of groups that keep every token. Raises UnsupportedError for what it can not cut so."""
    for part in parts:
        if part.kind != "full" or tokens % part.tokens:
            why = "LMCache's chunks are modelled for caches of full attention, in multiples of the block size"
            raise UnsupportedError(f"lmcache_chunk_size: {tokens} tokens of {part.kind} blocks of {part.tokens}: {why}")
    return Part("full", tokens, 1, sum(part.load_bytes * tokens // part.tokens for part in parts))


def _kvbm(options: Options, s: VllmSettings, made: Pool) -> Iterator[Tier]:
    ranks = s.tp * s.pp
    each = sum(group.bytes(stage) for group in made.groups for stage in range(s.pp)) * s.tp
    places: tuple[Place, ...] = ("cpu", "disk")
    for place, key in zip(places, KVBM, strict=True):
        if (size := options.number(key)) is not None:
            yield pool(place, "Dynamo KVBM", f"{key.upper()} {size:g}", int(size * GB), each, _parts(made, 1), ranks)
