"""Methods of quantisation that LMDeploy 0.18 reads: turbomind/converter.py, pytorch/nn/linear/__init__.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvplan
from tests.unit.engines.test_vllm_not_listed import LLAMA

GROUP = {"targets": ["Linear"], "input_activations": None}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}

OF = {"quant_method": "compressed-tensors"}
PACKED = OF | {"format": "pack-quantized", "config_groups": {"group_0": GROUP | {"weights": INT4}}}
FLOATS = OF | {"format": "float-quantized", "config_groups": {"group_0": GROUP | {"weights": FP8}}}


@pytest.mark.parametrize(
    ("method", "turbomind", "pytorch"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}, True, True),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, True, True),
        ({"quant_method": "eetq"}, False, False),
        (PACKED, True, True),
        (FLOATS, False, True),
    ],
)  # fmt: skip
def test_what_its_backends_read(tmp_path: Path, method: dict[str, object], turbomind: bool, pytorch: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": method}))
    for backend, reads in (("turbomind", turbomind), ("pytorch", pytorch)):
        plan = kvplan.estimate(tmp_path, device="h100", engine="lmdeploy", engine_option={"backend": backend}, max_model_len=4096)
        assert any("reads" in note for note in plan.model.notes) is not reads
