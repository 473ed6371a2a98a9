"""What engine `ideal` is: arithmetic on declared tensors."""

from __future__ import annotations

from kvplan.engines.common.protocol import Facts
from kvplan.forms import FORMS

_NONE = "without an engine it means nothing"
FACTS = Facts(
    name="ideal",
    title="ideal",
    machines=True,
    versions=(),
    options={},
    forms=frozenset(FORMS),
    serves_files=True,
    unused=dict.fromkeys(
        ("engine_version", "max_num_seqs", "max_num_batched_tokens", "n_gpu_layers", "host_memory", "lora", "enforce_eager", "calibration"),
        _NONE,
    ),
    drafting=None,
    kv_advice=(("fp8", 8),),
    weight_advice=(("fp8", 8), ("int4_g128", 4)),
)
