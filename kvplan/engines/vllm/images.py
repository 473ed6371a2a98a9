"""Releases of vLLM in images whose tags are numbers of another kind: a tag, or how it begins -> the release."""

#: Tags of RunPod's worker -> what the Dockerfile of that tag installs (runpod-workers/worker-vllm).
RUNPOD = {
    "v2.2.": "0.8.2", "v2.3.": "0.8.3", "v2.4.": "0.8.4", "v2.5.": "0.8.4", "v2.6.": "0.9.0.1", "v2.8.": "0.10.0", "v2.9.5": "0.11.0",
    "v2.9.6": "0.11.0", "v2.9.": "0.10.0", "v2.10.": "0.11.0", "v2.11.": "0.11.0", "v2.12.": "0.15.0", "v2.13.0": "0.15.0",
    "v2.13.": "0.15.1", "v2.14.": "0.16.0", "v2.15.": "0.16.0", "v2.16.": "0.17.1", "v2.17.": "0.18.1", "v2.18.": "0.19.1",
    "v2.19.": "0.20.2", "v2.20.": "0.20.2", "v2.21.": "0.21.0", "v2.22.4": "0.20.2", "v2.22.5": "0.20.2", "v2.22.": "0.22.1",
    "v2.23.": "0.23.0", "v2.24.": "0.23.0", "v2.25.": "0.23.0",
}  # fmt: skip
#: NVIDIA's own images: docs.nvidia.com/deeplearning/frameworks/vllm-release-notes, "Contents of the vLLM container" of each.
NGC = {"25.10": "0.10.2", "26.01": "0.11.1", "26.03": "0.17.1", "26.05": "0.20.1", "26.10": "0.31.0"}
