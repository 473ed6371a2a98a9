"""What a manifest says of hardware: devices as clouds spell them, several engines on one GPU, memory beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan import catalogue, machines
from kvplan.errors import AmbiguousName
from kvplan.manifests import Source, Verdict, check
from kvplan.manifests.host import docker_size, quantity
from tests.conftest import planned

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: llm}}
spec:
  {pod}
  containers:
  - name: llm
    image: vllm/vllm-openai:v0.19.0
    args: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "8192"{more}]
    resources: {{limits: {{{limits}}}}}
"""


def pod(selector: str = "", limits: str = '"nvidia.com/gpu": "1"', more: str = "", spec: str = "") -> Verdict:
    text = POD.format(pod=spec or (f"nodeSelector: {{{selector}}}" if selector else ""), limits=limits, more=more)
    (verdict,) = check([Source("pod.yaml", text)], planned)
    return verdict


def why(verdict: Verdict) -> str:
    return " ".join(u.why for u in verdict.unresolved) + " ".join(f.message for f in verdict.findings)


@pytest.mark.parametrize(
    ("selector", "device"),
    [  # as the clouds' own pages spell them
        ("nvidia.com/gpu.product: NVIDIA-H100-SXM4-80GB", "h100-80gb"),
        ("nvidia.com/gpu.product: Quadro-RTX-6000", "quadro-rtx-6000"),
        ("gpu.nvidia.com/class: H100_NVLINK_80GB", "h100-80gb"),
        ("gpu.nvidia.com/class: A40", "a40"),
        ("cloud.google.com/gke-accelerator: nvidia-b300", "b300"),
        ("cloud.google.com/gke-accelerator: nvidia-tesla-p4", "p4"),
        ("karpenter.k8s.aws/instance-gpu-name: l40s", "l40s"),
        ("eks.amazonaws.com/instance-gpu-name: h200", "h200"),
        ("node.kubernetes.io/instance-type: g7e.12xlarge", "rtx-pro-6000-blackwell-server"),
        ("node.kubernetes.io/instance-type: p6e-gb200.36xlarge", "gb200"),
        ("node.kubernetes.io/instance-type: g4-standard-48", "rtx-pro-6000-blackwell-server"),
        ("node.kubernetes.io/instance-type: Standard_NV36ads_A10_v5", "a10"),
        ("node.kubernetes.io/instance-type: NV36ads_A10_v5", "a10"),
        ("node.kubernetes.io/instance-type: BM.GPU.H100.8", "h100-80gb"),
        ("node.kubernetes.io/instance-type: BM.GPU4.8", "a100-40gb"),
        ("node.kubernetes.io/instance-type: BM.GPU.A100-v2.8", "a100-80gb"),
        ("node.kubernetes.io/instance-type: BM.GPU.MI300X.8", "mi300x"),
        ("node.kubernetes.io/instance-type: gd-8xh200ib-i128", "h200"),
        ("karpenter.k8s.aws/instance-family: g6e", "l40s"),
    ],
)
def test_a_node_selector_names_the_device(selector: str, device: str) -> None:
    verdict = pod(selector)
    assert verdict.found is not None
    assert verdict.found.question.get("device") == device, why(verdict)


@pytest.mark.parametrize(
    ("selector", "limits", "word"),
    [
        ("node.kubernetes.io/instance-type: inf2.48xlarge", '"aws.amazon.com/neuron": "12"', "Inferentia"),
        ("node.kubernetes.io/instance-type: trn1.32xlarge", "", "AWS Trainium"),
        ("cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice", '"google.com/tpu": "8"', "Google TPU"),
        ("node.kubernetes.io/instance-type: Standard_NV12ads_A10_v5", "", "share of an A10"),
        ("karpenter.k8s.aws/instance-gpu-name: a100", '"nvidia.com/gpu": "1"', "more than one size"),
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB", '"nvidia.com/mig-9g.99gb": "1"', "mig-9g.99gb is a share of a100-40gb"),
        ("nvidia.com/gpu.product: NVIDIA-A10", '"nvidia.com/mig-1g.6gb": "1"', "mig-1g.6gb is a share of a10"),
        ("", '"nvidia.com/gpu.shared": "1"', "nvidia.com/gpu.shared is a share of a GPU"),
    ],
)
def test_what_is_no_whole_modelled_gpu_is_named(selector: str, limits: str, word: str) -> None:
    verdict = pod(selector, limits)
    assert verdict.status == "unknown"
    assert word in why(verdict)


@pytest.mark.parametrize(
    ("selector", "limits", "device"),
    [
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB", '"nvidia.com/mig-3g.20gb": "1"', "a100-40gb-3g.20gb"),
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", '"nvidia.com/gpu": "1"', "a100-80gb-3g.40gb"),
        ("nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", '"nvidia.com/mig-1g.10gb": "1"', "h100-80gb-1g.10gb"),
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-MIG-3g.40gb-SHARED", '"nvidia.com/mig-3g.40gb": "1"', "a100-80gb-3g.40gb"),
        (
            "cloud.google.com/gke-accelerator: nvidia-tesla-a100, cloud.google.com/gke-gpu-partition-size: 1g.5gb",
            '"nvidia.com/gpu": "1"',
            "a100-40gb-1g.5gb",
        ),
        ("", '"nvidia.com/mig-3g.40gb": "1"', "3g.40gb"),
    ],
)
def test_a_slice_is_a_device_of_its_own(selector: str, limits: str, device: str) -> None:
    """GKE, "Running multi-instance GPUs"; NVIDIA's device plugin, mixed and single strategies."""
    verdict = pod(selector, limits)
    assert verdict.found is not None
    assert verdict.found.question["device"] == device


@pytest.mark.parametrize(
    ("selector", "word"),
    [
        ("nvidia.com/gpu.product: NVIDIA-L40S-SHARED", "time-slicing shares the GPU's memory with other containers"),
        (
            "cloud.google.com/gke-accelerator: nvidia-l4, cloud.google.com/gke-gpu-sharing-strategy: time-sharing, "
            'cloud.google.com/gke-max-shared-clients-per-gpu: "4"',
            "time-slicing shares the GPU's memory with up to 3 other containers",
        ),
        ("nvidia.com/gpu.product: NVIDIA-L40S, nvidia.com/gpu.sharing-strategy: mps", "MPS shares the GPU"),
    ],
)
def test_a_shared_gpu_is_not_said_to_fit(selector: str, word: str) -> None:
    verdict = pod(selector)
    assert verdict.status != "fits"
    assert word in why(verdict)


CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two-h100}
spec:
  spec:
    devices:
      requests:
      - name: gpus
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2
          selectors:
          - cel: {expression: "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"}
---
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: two-h100}]
  containers:
  - name: llm
    image: vllm/vllm-openai:v0.19.0
    args: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "8192", "--tensor-parallel-size", "2"]
    resources: {claims: [{name: gpu}]}
"""


def test_a_claim_names_the_device_and_how_many() -> None:
    (verdict,) = check([Source("pod.yaml", CLAIM)], planned)
    assert verdict.found is not None
    assert (verdict.found.question["device"], verdict.found.question["n_devices"]) == ("h100-80gb", 2)
    assert verdict.status == "fits", verdict.message
    (mig,) = check([Source("pod.yaml", CLAIM.replace("deviceClassName: gpu", "deviceClassName: mig"))], planned)
    assert "device class mig.nvidia.com" in why(mig)
    (elsewhere,) = check([Source("pod.yaml", CLAIM.partition("---\n")[2])], planned)
    assert "the claim is not in this file" in why(elsewhere)


def test_every_machine_type_carries_a_packaged_device() -> None:
    assert {row.device for row in machines.every()} <= set(catalogue.device_ids())


def test_rtx_6000_alone_is_several_cards() -> None:
    with pytest.raises(AmbiguousName, match="quadro-rtx-6000, rtx-6000-ada, rtx-pro-6000-blackwell"):
        catalogue.find_device("RTX 6000")
    assert catalogue.find_device("Quadro RTX 6000").id == "quadro-rtx-6000"
    assert catalogue.find_device("RTX 6000 Ada").id == "rtx-6000-ada"


SERVICE = """\
  {name}:
    image: vllm/vllm-openai:v0.19.0
    command: --model Qwen/Qwen3-{size} --max-model-len 4096 --gpu-memory-utilization {fraction} {more}
    ipc: host
    {rest}
"""
GPU = "deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, {0}, capabilities: [gpu]}}]}}}}}}"


def two(first: str, second: str, *, fractions: tuple[float, float] = (0.3, 0.85)) -> list[Verdict]:
    text = "services:\n" + "".join(
        SERVICE.format(name=name, size="0.6B", fraction=fraction, more="", rest=rest)
        for name, fraction, rest in zip(("chat", "embed"), fractions, (first, second), strict=True)
    )
    verdicts = list(check([Source("compose.yaml", text)], planned, device="h100-80gb"))
    assert len(verdicts) == 2
    return verdicts


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (GPU.format("count: 1"), GPU.format("count: 1")),  # Docker gives both the first
        (GPU.format("device_ids: ['0']"), GPU.format("device_ids: ['0']")),
        (GPU.format("count: all"), GPU.format("count: all")),
        ("runtime: nvidia\n    environment: [NVIDIA_VISIBLE_DEVICES=1]", GPU.format("device_ids: ['1']")),
        (GPU.format("device_ids: ['2','3']") + "\n    environment: {CUDA_VISIBLE_DEVICES: '1'}", GPU.format("device_ids: ['3']")),
    ],
)
def test_two_engines_on_one_gpu_are_added_up(first: str, second: str) -> None:
    """0.30 + 0.85 of one GPU are more than there is of it."""
    for verdict in two(first, second):
        assert verdict.status == "refuses", verdict.message
        assert "0.3 + 0.85 = 1.15" in verdict.message
    for verdict in two(first, second, fractions=(0.3, 0.6)):
        assert verdict.status == "fits", verdict.message
        assert any(f.rule == "shared-gpu" and "0.9 of its memory" in f.message for f in verdict.findings)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (GPU.format("device_ids: ['0']"), GPU.format("device_ids: ['1']")),
        (GPU.format("count: all") + "\n    environment: {CUDA_VISIBLE_DEVICES: '0'}", GPU.format("device_ids: ['1']")),
        (GPU.format("count: 1") + "\n    profiles: [a]", GPU.format("count: 1") + "\n    profiles: [b]"),  # one or the other
        ("runtime: nvidia", "runtime: nvidia"),  # nobody says which
    ],
)
def test_engines_apart_are_not(first: str, second: str) -> None:
    for verdict in two(first, second):
        assert verdict.status == "fits", verdict.message
        assert not [f for f in verdict.findings if f.rule == "shared-gpu"]


SGLANG = "CUDA_VISIBLE_DEVICES=0 python -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static {} &\n"


@pytest.mark.parametrize(("fractions", "status"), [((0.4, 0.4), "fits"), ((0.6, 0.6), "unknown")])
def test_pools_that_are_a_share_of_what_is_free(fractions: tuple[float, float], status: str, tmp_path: Path) -> None:
    """SGLang's fraction is of what is free when it starts: beside one of 0.6 there is room for 16 GiB of weights, and a smaller pool."""
    script = tmp_path / "two.sh"
    script.write_text("".join(SGLANG.format(f) for f in fractions))
    verdicts = kvplan.check(script, device="h100")
    assert [verdict.status for verdict in verdicts] == [status] * 2
    for verdict in verdicts:
        assert any(f.rule == "shared-gpu" for f in verdict.findings)


def test_a_neighbour_that_is_not_known_is_spoken_of(tmp_path: Path) -> None:
    script = tmp_path / "two.sh"
    script.write_text(
        "export CUDA_VISIBLE_DEVICES=0\nllama-server -m some.gguf -c 8192 &\n"
        "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.9 --max-model-len 8192 &\n"
    )
    for verdict in kvplan.check(script, device="h100"):
        assert any("what they take together is not known" in f.message for f in verdict.findings)


def test_a_shared_gpu_is_said_to_be_one_whoever_names_it() -> None:
    text = POD.format(pod="restartPolicy: Never", more="", limits="nvidia.com/gpu.shared: 1")
    (verdict,) = kvplan.check(Source("pod.yaml", text), device="h100")
    assert verdict.status == "unknown"
    assert "time-slicing shares the GPU's memory" in verdict.message


def test_two_engines_under_nvidias_runtime_that_pick_one_gpu() -> None:
    pick = "runtime: nvidia\n    environment: {CUDA_VISIBLE_DEVICES: '0'}"
    assert all(verdict.status == "refuses" for verdict in two(pick, pick))


def test_bytes_are_added_up_where_nothing_caps_them() -> None:
    """llama-server takes what it needs: 2 x (15.3 GiB of weights and 128k tokens x 36 layers x 8 heads x 128 x 2 x 2 bytes = 18 GiB)."""
    service = "  {0}:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda\n    command: -m qwen3-8b.gguf -c {1} -ngl 99\n    gpus: all"
    for context, status in ((4096, "fits"), (131_072, "refuses")):
        text = "services:\n" + "\n".join(service.format(name, context) for name in ("a", "b"))
        found = check([Source("compose.yaml", text)], planned, models=["Qwen/Qwen3-8B"], device="48GiB", context=4096)
        assert {v.status for v in found} == {status}, [v.message for v in found]


def test_memory_beside_the_gpu() -> None:
    """Qwen3-8B is 15.3 GiB in 16 bits, in files of up to 5 GB: 4Gi hold not even one; 20 GiB pinned under 8Gi is known not to go."""
    l40s = "nvidia.com/gpu.product: NVIDIA-L40S"
    low = pod(l40s, '"nvidia.com/gpu": "1", memory: 4Gi')
    assert (low.status, low.exit_code) == ("unknown", 2)
    assert "15.256 GiB of weights pass through host memory" in low.message
    assert pod(l40s, '"nvidia.com/gpu": "1", memory: 32Gi').status == "fits"
    enough = pod(l40s, '"nvidia.com/gpu": "1", memory: 8Gi')
    assert enough.status == "fits"
    assert "host-memory-weights" in [f.rule for f in enough.findings if f.severity == "note"]
    assert pod(l40s).status == "fits"
    pinned = pod(l40s, '"nvidia.com/gpu": "1", memory: 8Gi', ', "--kv-offloading-size", "20", "--disable-hybrid-kv-cache-manager"')
    assert pinned.status == "refuses"
    assert "KV cache offloaded 20.000 GiB (kv_offloading_size 20 GiB; vLLM's offloading connector)" in pinned.message


def test_shared_memory_between_ranks_is_said() -> None:
    h100 = "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3"
    rules = [f.rule for f in pod(h100, '"nvidia.com/gpu": "2"', ', "--tensor-parallel-size", "2"').findings]
    assert "small-shm" in rules
    assert "small-shm" not in [f.rule for f in pod(h100).findings]


@pytest.mark.parametrize(
    ("text", "n"), [("4Gi", 4 << 30), ("500M", 500_000_000), ("1e9", 10**9), ("1500m", 2), ("128974848", 128_974_848), ("x", None)]
)
def test_kubernetes_quantities(text: str, n: int | None) -> None:
    assert quantity(text) == n


@pytest.mark.parametrize(("text", "n"), [("4g", 4 << 30), ("512MB", 512 << 20), ("10240", 10_240), ("1.5gb", 3 << 29), ("x", None)])
def test_docker_sizes(text: str, n: int | None) -> None:
    assert docker_size(text) == n


def one(command: str, **given: object) -> Verdict:
    (verdict,) = check([Source("serve.sh", command)], kvplan.estimate, device="h100-80gb", **given)
    return verdict


def test_a_pool_that_is_asked_smaller_than_the_length_starts() -> None:
    """SGLang warns and starts: a request may have as many tokens as the pool less one (managers/scheduler.py, max_req_len)."""
    command = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --max-total-tokens 8192"
    verdict = one(command)
    assert (verdict.status, verdict.exit_code) == ("fits", 0)
    assert "8,191 tokens" in verdict.message
    assert one(command, context=20_000).status != "fits"  # that is asked, and not held


@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_a_drafter_whose_size_is_not_known_leaves_it_open(method: str) -> None:
    config = f'{{"method": "{method}", "model": "nobody/a-drafter", "num_speculative_tokens": 8}}'
    verdict = one(f"vllm serve Qwen/Qwen3-8B --speculative-config '{config}'")
    assert (verdict.status, verdict.exit_code) == ("unknown", 2)
    assert "nobody/a-drafter" in verdict.message
    assert one(f"vllm serve Qwen/Qwen3-8B --speculative-config '{config}'", speculative="off").status == "fits"


def test_a_value_that_no_template_reads_is_said() -> None:
    """production-stack helm/templates/deployment-vllm-multi.yaml: no swapSpace, and pipelineParallelSize only of the Ray template."""
    values = """\
servingEngineSpec:
  modelSpec:
  - name: llm
    repository: vllm/vllm-openai
    tag: v0.19.0
    modelURL: Qwen/Qwen3-8B
    requestGPU: 1
    vllmConfig:
      maxModelLen: 8192
      pipelineParallelSize: 2
      swapSpace: 8
"""
    (verdict,) = check([Source("values.yaml", values)], planned, device="h100-80gb")
    assert verdict.status == "fits"
    assert [f.place.line for f in verdict.findings if f.rule == "no-effect"] == [10, 11]


def test_a_toleration_that_names_a_gpu_is_spoken_of() -> None:
    text = """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: c, image: vllm/vllm-openai, args: [--model, Qwen/Qwen3-8B], resources: {limits: {nvidia.com/gpu: 1}}}]
          tolerations: [{key: nvidia.com/gpu, value: NVIDIA-A10G-SHARED, effect: NoSchedule}, {key: x, value: "true"}]
        """
    from tests.unit.manifests.as_read import found

    (one,) = found(text, "pod.yaml")
    (why,) = [u.why for u in one.unresolved if u.what == "device"]
    assert "NVIDIA-A10G-SHARED" in why
    assert "which others share, --device a10g" in why
