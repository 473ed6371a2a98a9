"""TensorRT-LLM's own checks, on both sides of each (_torch/modules/attention.py and linear.py, layers/attention.py)."""

from __future__ import annotations

import pytest

import kvplan
from kvplan import engines
from kvplan.engines.common.stops import stop_of
from kvplan.engines.tensorrt_llm.refusals import CHECKS
from tests.conftest import one_block

GQA = {"kind": "gqa", "heads": 40, "kv_heads": 10, "head_dim": 128}


@pytest.mark.parametrize(
    ("version", "tp", "width", "said"),
    [
        ("1.2.0", 3, 17920, "assert self.num_heads % tp_size == 0 (40 heads over 3 ranks)"),
        ("0.19.0", 3, 17920, "num_attention_heads must be divisible by tp_size (40 heads over 3 ranks)"),  # trtllm-build before 1.0
        ("1.2.0", 8, 17920, None),  # 10 KV heads are rounded up to 2 a rank
        ("1.2.0", 8, 17924, "out_features 17924 must be divisible by tp_size 8"),
        ("1.2.0", 4, 17924, None),
    ],
)
def test_layouts(version: str, tp: int, width: int, said: str | None) -> None:
    block = {"mixers": [GQA], "mlps": [{"kind": "dense", "intermediate_size": width}]}
    model = one_block(None, hidden=5120, blocks={"block": block}, max_context=32768)
    asked = kvplan.deployment(model, engine="tensorrt-llm", engine_version=version, device="h100-80gb", tp=tp)
    assert stop_of(CHECKS, engines.settle(asked)[1]) == said
