"""How well a deployment under vLLM is understood: what its intervals are taken by, and how sure its start may be."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import WEIGHT_FORMATS
from kvplan.engines.common.options import read_lora
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.vllm.autotuned import timed_kernels
from kvplan.engines.vllm.encoders import tower_of
from kvplan.engines.vllm.outside import outside_torch
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.tensors import Lowered, distinct

#: Links of NVIDIA's modules.
MODULES = ("nvls", "nvswitch", "mesh")
INSTINCT = ("gfx90a", "gfx94", "gfx95")
#: From here on AMD's cards leave what shapes say: 15 logs of four sources, five of them first starts, within 1 % of the device.
CARDS_SINCE = "0.13"
#: Formats that say little of the checkpoint that is in them (dtypes.py).
NAMED = ("awq_any", "gptq_any", "int4_any", "int4_g32_any", "bnb_4bit", "bnb_4bit_dynamic", "unknown")
#: Kinds of which a start is certain only with so much of the device left beyond the ends of all intervals: of 22 that were called so blind
#: (eleventh to twentieth set, docs/limits.md) with less, five ran out; of 21 with more, and of 44 plain ones or named alone, none.
#: Adapters are asked for it too: a plain model with them ran out at the sampler's warm-up with 3.9 GiB of 79 left (vllm#29049).
NARROW, ROOM = frozenset({"compressed", "states", "halved", "older", "linked", "hard", "boards", "named"}), 0.08


def least_room(d: Deployment, model: Lowered, s: VllmSettings) -> float:
    """Share of a device that a certain start leaves (protocol.py Settled `room`)."""
    return ROOM if d.device is not None and (read_lora(d.lora) is not None or kind_of(d, model, s) in NARROW) else 0.0


def kind_of(d: Deployment, model: Lowered, s: VllmSettings) -> str:
    """How well such a deployment is understood: what the intervals are taken by.

    apart     ranks on machines of their own that share their memory with the host
    unified   one such machine
    instinct  AMD's boards from MI200 on, and its cards from 0.13 on, where weights are not named alone and no state's are quantised
    rocm      AMD's cards before: eight starts of two sources on gfx12 leave about 2 GiB more outside torch than sixteen like them
    compressed  one entry for several tokens (DeepSeek-V4): what its runner holds beside weights and cache is not known
    states    recurrent states or drafts
    halved    states, and weights that are quantised: which of the projections beside the states stay in 16 bits differs; or kernels that
              are timed on the device (autotuned.py)
    older     the engine before V1, whose profile run took what others held and differed from release to release
    named     weights in a format of which only the name is known: which matrices stay in 16 bits differs
    linked    several ranks while V1 charged NCCL's start (up to 0.10), whose buffers without a reducing switch few logs tell
    hard      packed weights or towers
    boards    the same on NVIDIA's modules, whose memory is larger beside what is not known of them
    module    none of these on boards with NVSwitch from 0.15 on, which most published logs are of
    plain     all others: cards, older releases
    """
    formats = weight_formats(d)
    if d.device is not None and d.device.unified:
        return "apart" if s.tp * s.pp > 1 and d.device.link == "none" else "unified"
    amd = d.device if d.device is not None and d.device.vendor == "amd" else None
    if amd is not None and not s.since(CARDS_SINCE) and not (amd.compute_capability or "").startswith(INSTINCT):
        return "rocm"
    shared = {t.tokens_per_state for layer in distinct(model.layers) for cache in layer.caches for t in cache.tensors}
    if shared - {1, None}:
        return "compressed"
    if None in shared and (any(WEIGHT_FORMATS[name].bits < 16 for name in formats.values()) or timed_kernels(d, s)):
        return "halved"
    named = any(name in NAMED for name in formats.values())
    if amd is not None and not named:
        return "instinct"
    if s.method != "off" or None in shared:
        return "states"
    if not s.rules.v1:
        return "older"
    if named:
        return "named"
    if outside_torch(s, d.device) in ("outside_torch_nccl", "outside_torch_links"):
        return "linked"
    if tower_of(d) is not None or any(WEIGHT_FORMATS[name].bits < 8 for name in formats.values()):
        return "boards" if d.device is not None and d.device.link in MODULES else "hard"
    return "module" if (d.device is not None and d.device.link == "nvls") and s.since("0.15") else "plain"
