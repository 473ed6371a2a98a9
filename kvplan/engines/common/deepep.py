"""What DeepEP's buffers take of a rank that exchanges tokens of experts with others.

deepseek-ai/DeepEP at dd758ca: csrc/legacy/config.hpp (Config, LowLatencyLayout), csrc/legacy/buffer.hpp, deep_ep/buffers/legacy.py. All
sizes are bytes; an engine asks for them, DeepEP allocates them once, outside torch.
"""

from __future__ import annotations

from kvplan.engines.common.lines import Span
from kvplan.units import GIB, MIB, round_up

#: Ranks that NVLink joins into one node (LEGACY_NUM_MAX_NVL_PEERS), and what every buffer has beside its messages.
PEERS, WORKSPACE_BYTES = 8, 32 * MIB
#: Half of the 20 multiprocessors that it takes by default (Buffer.num_sms): a channel has two.
CHANNELS = 10
#: What comes with each message between nodes: its source (8), 128 chosen experts (8 each) with their weights (4) and 128 scales (4).
_META_BYTES = 8 + 128 * (8 + 4 + 4)
#: Ranks -> tokens that a channel holds for each peer over NVLink, and for each node over the network (get_dispatch_config and
#: get_combine_config, which agree in these, but for the network's, which are rounded up to whole messages that are sent).
_TOKENS = {
    2: (256, 128), 4: (256, 128), 8: (256, 128), 16: (288, 140), 24: (288, 128), 32: (288, 128), 48: (288, 128), 64: (288, 128),
    96: (480, 132), 128: (560, 132), 144: (720, 132), 160: (720, 132),
}  # fmt: skip
#: NVSHMEM takes memory by so much at a time (NVSHMEM_CUMEM_GRANULARITY). What its queue pairs and teams hold beside is in no log.
NVSHMEM_BYTES, NVSHMEM_HIGH = 512 * MIB, GIB


def low_latency_bytes(tokens: int, hidden: int, experts: int) -> int:
    """The buffer of the low-latency kernels: twice what is sent and received, every expert with room for all tokens of a rank.

    tokens   that a rank sends at once at most; hidden: values of a token; experts: of all ranks, copies among them

    >>> round(low_latency_bytes(256, 7168, 288) / 2**20, 2)  # DeepSeek-V3 with 32 copies
    4095.0
    """
    scales = hidden // 128
    sent = 16 + max(2 * hidden, hidden + 4 * scales)
    returned = 4 * scales + 2 * hidden
    sending = max(tokens * sent, experts * tokens * returned)
    receiving = experts * tokens * max(sent, returned)
    return (2 * (sending + receiving + round_up(4 * experts, 128)) + 128) // 128 * 128


def normal_bytes(hidden: int, ranks: int) -> tuple[int, int]:
    """The buffers of the high-throughput kernels as their own hints size them: over NVLink, and over the network between nodes.

    hidden  values of a token, in 16 bits
    """
    tokens, networked = _TOKENS.get(ranks, _TOKENS[min(_TOKENS, key=lambda known: abs(known - ranks))])
    nodes, peers = max(ranks // PEERS, 1), min(ranks, PEERS)
    message = 2 * hidden + _META_BYTES
    near = CHANNELS * peers * ((2 * nodes + 3) * 4 + tokens * message)
    far = CHANNELS * nodes * ((2 * PEERS + 2) * 2 * 4 + 2 * networked * (message + 16)) if ranks > PEERS else 0
    return round_up(near, 128), round_up(far, 128)


def held(near: int, far: int) -> Span:
    """What a rank holds of buffers of these sizes: over NVLink, and of NVSHMEM's memory, which is taken in pieces."""
    point = near + round_up(far, NVSHMEM_BYTES) + WORKSPACE_BYTES
    return Span(point, near + far, point + (NVSHMEM_HIGH if far else 0))
