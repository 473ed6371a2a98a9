"""Machine types of clouds that carry whole GPUs of one kind, and accelerators that are named and not modelled.

Sources, by cloud: Amazon EC2 "Accelerated computing" instance types; Compute Engine "GPU machine types"; Azure "GPU accelerated sizes";
OCI "Compute shapes" (docs.oracle.com, computeshapes.htm); CoreWeave "GPU instances" (docs.coreweave.com/platform/instances); DigitalOcean
"GPU Droplets"; Alibaba Cloud ECS "GPU-accelerated instance families"; Scaleway "GPU Instances"; Nebius "Types of virtual machines".
"""

from __future__ import annotations

import re

#: An expression for the beginning of a machine type, in lower case -> the device.
INSTANCES: tuple[tuple[str, str], ...] = (
    # Amazon EC2; a bare family is what Karpenter's instance-family label holds
    (r"p3dn($|\.)", "v100-32gb"), (r"p3($|\.)", "v100-16gb"), (r"p4d($|\.)", "a100-40gb"), (r"p4de($|\.)", "a100-80gb"),
    (r"p5($|\.)", "h100-80gb"), (r"p5en?($|\.)", "h200"), (r"p6-b200($|\.)", "b200"), (r"p6-b300($|\.)", "b300"),
    (r"p6e-gb200($|\.)", "gb200"), (r"p6e-gb300($|\.)", "gb300"), (r"g4dn($|\.)", "t4"), (r"g5($|\.)", "a10g"), (r"gr?6($|\.)", "l4"),
    (r"g6e($|\.)", "l40s"), (r"g7e($|\.)", "rtx-pro-6000-blackwell-server"),
    # Compute Engine
    (r"a2-highgpu-|a2-megagpu-", "a100-40gb"), (r"a2-ultragpu-", "a100-80gb"), (r"a3-(high|mega|edge)gpu-", "h100-80gb"),
    (r"a3-ultragpu-", "h200"), (r"a4-highgpu-", "b200"), (r"a4x-highgpu-", "gb200"), (r"a4x-maxgpu-", "gb300"), (r"g2-standard-", "l4"),
    (r"g4-standard-(48|96|192|384)$", "rtx-pro-6000-blackwell-server"),
    # Azure
    (r"(standard_)?nc\d+as_t4_v3$", "t4"), (r"(standard_)?nc\d+ads_a100_v4$", "a100-pcie-80gb"), (r"(standard_)?nd96asr_v4$", "a100-40gb"),
    (r"(standard_)?nd96amsr_a100_v4$", "a100-80gb"), (r"(standard_)?nc\d+adi?s_h100_v5$", "h100-nvl-94gb"),
    (r"(standard_)?ncc40ads_h100_v5$", "h100-nvl-94gb"), (r"(standard_)?nd96isr_h100_v5$", "h100-80gb"),
    (r"(standard_)?nd96isr_h200_v5$", "h200"), (r"(standard_)?nd96isr_mi300x_v5$", "mi300x"),
    (r"(standard_)?nd128isr_(ndr_)?gb200_v6$", "gb200"), (r"(standard_)?nd128isr_(ndr_)?gb300_v6$", "gb300"),
    (r"(standard_)?nv(36|72)adm?s_a10_v5$", "a10"), (r"(standard_)?nc(6|12|24)r?s_v3$", "v100-16gb"),
    (r"(standard_)?nd40rs_v2$", "v100-32gb"),
    # Oracle Cloud Infrastructure
    (r"(bm|vm)\.gpu\.a10\.\d", "a10"), (r"bm\.gpu4\.8$", "a100-40gb"), (r"bm\.gpu\.a100-v2\.8$", "a100-80gb"),
    (r"bm\.gpu\.h100(-\w+)?\.\d", "h100-80gb"), (r"bm\.gpu\.h200(-\w+)?\.\d", "h200"), (r"bm\.gpu\.b200(-\w+)?\.\d", "b200"),
    (r"bm\.gpu\.b300(-\w+)?\.\d", "b300"), (r"bm\.gpu\.gb200(-\w+)?\.\d", "gb200"), (r"bm\.gpu\.gb300(-\w+)?\.\d", "gb300"),
    (r"(bm|vm)\.gpu\.l40s(-\w+)?\.\d", "l40s"), (r"bm\.gpu\.mi300x(-\w+)?\.\d", "mi300x"), (r"bm\.gpu\.mi355x(-\w+)?\.\d", "mi355x"),
    (r"(bm|vm)\.gpu2\.\d", "p100-16gb"), (r"(bm|vm)\.gpu3\.\d", "v100-16gb"),
    # CoreWeave
    (r"gd-8xh100ib-", "h100-80gb"), (r"gd-8xh200ib-", "h200"), (r"gd-8xl40s?-", "l40s"), (r"gd-8xa100-", "a100-80gb"),
    (r"gd-1xgh200", "gh200-96gb"), (r"b200-8x", "b200"), (r"b300-8x", "b300"), (r"gb200-4x", "gb200"), (r"gb300-4x", "gb300"),
    (r"rtxp6000-8x", "rtx-pro-6000-blackwell-server"),
    # others
    (r"gpu-h100x\d", "h100-80gb"), (r"gpu-h200x\d", "h200"), (r"gpu-l40sx\d", "l40s"), (r"gpu-mi300x\d", "mi300x"),
    (r"gpu-mi325x\d", "mi325x"), (r"gpu-4000adax\d", "rtx-4000-ada"), (r"gpu-6000adax\d", "rtx-6000-ada"),
    (r"ecs\.gn6i-", "t4"), (r"ecs\.gn6v-", "v100-16gb"), (r"ecs\.gn7e-", "a100-80gb"), (r"ecs\.gn7-", "a100-40gb"), (r"ecs\.gn7i-", "a10"),
    (r"h100-sxm-\d+-80g$", "h100-80gb"), (r"h100-\d+-80g$", "h100-pcie-80gb"), (r"l40s-\d+-48g$", "l40s"), (r"l4-\d+-24g$", "l4"),
    (r"gpu-h100-sxm$", "h100-80gb"), (r"gpu-h200-sxm$", "h200"), (r"gpu-b200-sxm", "b200"), (r"gpu-b300-sxm", "b300"),
)  # fmt: skip

#: Machine types with a share of a GPU -> what they carry.
SHARES: tuple[tuple[str, str], ...] = (
    (r"(standard_)?nv(6|12|18)ads_a10_v5$", "a share of an A10"),
    (r"gr?6f($|\.)", "a share of an L4"),
    (r"g4-standard-(6|12|24)$", "a share of an RTX PRO 6000"),
    (r"(standard_)?nv\d+as_v4$", "a share of a Radeon Instinct MI25"),
)
#: Machine types with accelerators that are not modelled -> what they carry.
OTHERS: tuple[tuple[str, str], ...] = (
    (r"inf\d($|\.)", "AWS Inferentia"), (r"trn\d\w*($|\.)", "AWS Trainium"), (r"dl1($|\.)", "Intel Gaudi"),
    (r"dl2q($|\.)", "Qualcomm AI 100"), (r"g4ad($|\.)", "AMD Radeon Pro V520"), (r"g5g($|\.)", "NVIDIA T4G"), (r"p2($|\.)", "NVIDIA K80"),
    (r"g3s?($|\.)", "NVIDIA M60"), (r"vt1($|\.)", "AMD Alveo U30"), (r"ct\d\w*-|tpu\d?\w*-", "a Google TPU"),
)  # fmt: skip
#: Resources that are not modelled -> what they are.
RESOURCES = {
    "google.com/tpu": "a Google TPU",
    "aws.amazon.com/neuron": "AWS Inferentia or Trainium",
    "aws.amazon.com/neuroncore": "AWS Inferentia or Trainium",
    "aws.amazon.com/neurondevice": "AWS Inferentia or Trainium",
    "huawei.com/Ascend910": "a Huawei Ascend 910",
    "huawei.com/ascend-1980": "a Huawei Ascend 910",
    "qualcomm.com/qaic": "a Qualcomm AI 100",
    "nvidia.com/gpumem": "a share of a GPU",
    "aliyun.com/gpu-mem": "a share of a GPU",
    "volcano.sh/vgpu-memory": "a share of a GPU",
}


def of_type(text: str) -> tuple[str | None, str]:
    """The device of a machine type; else why there is none: empty where the type says nothing of a GPU."""
    name = text.strip().lower()
    for pattern, device in INSTANCES:
        if re.match(pattern, name):
            return device, ""
    for table, how in ((SHARES, "carries {}; give its memory, such as --device 8GiB"), (OTHERS, "carries {}, which is not modelled")):
        for pattern, what in table:
            if re.match(pattern, name):
                return None, how.format(what)
    return None, ""
