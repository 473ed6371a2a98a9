"""Bytes from a checkpoint's headers, dealt over declared tensors: nothing is lost, whatever the checkpoint stores."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvplan.spec import lower
from kvplan.stored import StoredTensor, StoredWeights
from kvplan.tensors import CacheFormats
from kvplan.weights import ROLES, model_tensors, rank_bytes, role_formats, with_stored
from tests.conftest import examples, one_block

BF16 = role_formats("bf16", {})
MIXER = {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 16}
MOE = {"kind": "moe", "experts": 8, "experts_per_token": 2, "intermediate_size": 32}
SPEC = one_block(
    MIXER,
    4,
    blocks={"block": {"mixers": [MIXER], "mlps": [MOE]}},
    towers=[{"name": "vision", "parameters": 77}],
    mtp={"modules": 1, "block": "block"},
)
PLACES = st.sampled_from([("model", None), ("model", 0), ("model", 1), ("model", 2), ("model", 3), ("tower", None), ("tower", 5)])


@st.composite
def stored(draw):
    tensors = []
    for i, (stack, layer) in enumerate(draw(st.lists(PLACES, max_size=30))):
        role = "tower" if stack == "tower" else draw(st.sampled_from([r for r in ROLES if r != "tower"]))
        tensors.append(StoredTensor(f"t{i}", "BF16", (1,), draw(st.integers(0, 1 << 40)), role, layer, stack))
    return StoredWeights(source="a test", tensors=tuple(tensors))


@examples(200)
@given(stored())
def test_the_sum_is_the_checkpoints(checkpoint):
    model = with_stored(lower(SPEC, CacheFormats("bf16", "bf16", "bf16", "bf16")), checkpoint)
    assert sum(n * w.stored for w, n in model_tensors(model)) == checkpoint.total_bytes


@examples(200)
@given(stored(), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]))
def test_ranks_together_hold_at_least_what_is_stored(checkpoint, tp, ep):
    model = with_stored(lower(SPEC, CacheFormats("bf16", "bf16", "bf16", "bf16")), checkpoint)
    for w, _ in model_tensors(model):
        assert rank_bytes(w, BF16, tp=tp, ep=ep) * max(tp, ep) >= w.stored
