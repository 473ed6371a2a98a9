"""GGUF files that a deployment names one by one, and keys that are negated: expected is what LLMKube's controller and llama.cpp's
common/preset.cpp (parse_bool_arg) make of them."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.manifests import Source
from tests.unit.manifests.as_read import found, opened, rules

MODEL = """
    apiVersion: inference.llmkube.dev/v1alpha1
    kind: Model
    metadata: {name: m}
    spec:
      source: SOURCE
      files: [FILES]
      MORE
      hardware: {gpu: {enabled: true, layers: 40, resourceClaims: [{name: gpu}]}}
    ---
    apiVersion: inference.llmkube.dev/v1alpha1
    kind: InferenceService
    metadata: {name: s}
    spec: {modelRef: m, contextSize: 8192, resources: {memory: 8Gi}}
    """


def llmkube(source: str, files: str = "", more: str = ""):  # type: ignore[no-untyped-def]
    (one,) = found(MODEL.replace("SOURCE", source).replace("FILES", files).replace("MORE", more), "a.yaml")
    return one


def test_the_type_of_the_file_that_is_loaded_is_the_models() -> None:
    one = llmkube("hf://unsloth/Qwen3-8B-GGUF", "Qwen3-8B-UD-Q4_K_XL.gguf, mmproj-F16.gguf", "mmproj: mmproj-F16.gguf")
    assert one.model == "unsloth/Qwen3-8B-GGUF:ud-q4_k_xl"
    assert "not-modelled-more" in rules(one)  # the projector's own memory
    parts = llmkube("hf://unsloth/Qwen3-32B-GGUF", "Q8_0/Qwen3-32B-Q8_0-00001-of-00002.gguf, Q8_0/Qwen3-32B-Q8_0-00002-of-00002.gguf")
    assert parts.model == "unsloth/Qwen3-32B-GGUF:q8_0"


def test_a_claim_of_devices_puts_the_layers_on_them() -> None:
    one = llmkube("hf://unsloth/Qwen3-8B-GGUF", "Qwen3-8B-Q8_0.gguf")
    assert one.question["n_gpu_layers"] == 40
    assert "n_devices" not in one.question  # how many stands in the claim's template


def test_a_file_by_its_address_on_the_hub_is_of_its_repository() -> None:
    one = llmkube("https://huggingface.co/Qwen/Qwen3-0.6B-GGUF/resolve/main/Qwen3-0.6B-Q8_0.gguf")
    assert one.model == "Qwen/Qwen3-0.6B-GGUF:q8_0"
    assert "model" not in opened(one)


@pytest.mark.parametrize(("key", "offloads"), [("no-mmproj-offload = true", False), ("no-mmproj-offload = false", True),
                                               ("no-mmproj-offload = 1", False), ("mmproj-offload = off", False)])  # fmt: skip
def test_a_negated_key_of_presets_turns_its_value_about(key: str, offloads: bool) -> None:
    (one,) = found(f"[a]\nmodel = /m/Qwen3-8B-Q8_0.gguf\n{key}\n", "models.ini")
    assert one.question["engine_option"].get("mmproj_offload", True) is offloads
    assert "bad-value" not in rules(one)


def test_a_type_of_gguf_that_is_not_known_is_open_and_no_refusal() -> None:
    text = "llama-server -hf unsloth/Qwen3-8B-GGUF:UD-Q4_NEW_XXL -ngl 99\n"
    (one,) = kvplan.check([Source("run.sh", text)], device="rtx-4090")
    assert one.status == "unknown"
    assert [(u.what, u.give) for u in one.unresolved] == [("weights", "--weight-dtype NAME")]
