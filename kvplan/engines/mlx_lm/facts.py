"""What MLX-LM is: forms, devices and formats it takes, options that change memory."""

from __future__ import annotations

from kvplan.engines.common.protocol import Facts, Setting
from kvplan.forms import FORMS

_NOT_COUNTED = "what that would take is not counted"
FACTS = Facts(
    name="mlx-lm",
    title="MLX-LM",
    versions=("0.32.2",),
    options={
        "kv_bits": "--kv-bits: bits of the cache, 2 to 8",
        "kv_group_size": "--kv-group-size: elements that share a scale and a bias",
        "quantized_kv_start": "--quantized-kv-start: tokens from which the cache is quantised",
        "max_kv_size": "--max-kv-size: every layer rotates at so many tokens",
    },
    forms=frozenset(FORMS) - {"kv+sinks", "kv+index", "kv+blocks", "latent+pooled-index", "compressed", "mlstm", "convolved-qkv"},
    unused={
        "max_num_seqs": "sequences are those of the question",
        "block_size": "its buffers grow by 256 tokens",
        "n_gpu_layers": "it leaves no layers in host memory",
        "host_memory": "its memory is the host's",
        "enforce_eager": "it captures no graphs",
    },
    vendors=frozenset({"apple"}),
    weight_schemes=frozenset({"plain", "affine", "mxfp", "unknown"}),
    kv_advice=(),
    weight_advice=(("affine4_g64", 4),),
    settings=(Setting("kv_bits", ("8", "4"), "store the cache in fewer bits"),),
)
