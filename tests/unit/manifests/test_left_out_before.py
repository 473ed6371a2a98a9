"""What public files say and was once dropped, misread or refused: each as it stands there, cut to what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.engines.common.words import Word
from kvplan.errors import SpecError
from kvplan.manifests.dynamo import dynamo_words
from kvplan.manifests.read import read_file
from kvplan.manifests.values import Found
from tests.unit.manifests.as_read import found, opened, rules

KINDS = Path(__file__).parents[2] / "manifests" / "kinds"


def test_what_an_akash_deployment_rents() -> None:
    """akash.network/docs: memory.size is the container's limit, storage that is mounted there its /dev/shm."""
    large, small = read_file(str(KINDS / "akash.yaml"))
    assert large.limits.memory is not None
    assert large.limits.memory.value == 256 << 30
    assert large.limits.shm is not None
    assert large.limits.shm.value == 32 << 30
    assert "any of a100-80gb:1 or h100" in next(u.why for u in small.unresolved if u.what == "device")


def test_a_file_of_a_repository_is_the_model() -> None:
    """llama.cpp common/arg.cpp: --hf-file takes the place of the type behind the repository's name."""
    for text in (
        "llama-server -hf unsloth/Qwen3-8B-GGUF:Q8_0 -hff Qwen3-8B-Q4_K_M.gguf",
        "LLAMA_ARG_HF_REPO=unsloth/Qwen3-8B-GGUF LLAMA_ARG_HF_FILE=sub/Qwen3-8B-Q4_K_M.gguf llama-server",
    ):
        (one,) = found(text)
        assert one.model == "unsloth/Qwen3-8B-GGUF:q4_k_m"
        assert "model" not in opened(one)


def test_a_drafter_by_the_options_before_the_json_object() -> None:
    """vLLM 0.6.2 to 0.8.2, engine/arg_utils.py: --speculative-model, --num-speculative-tokens; --speculative-config since 0.8.3."""
    words = "--speculative-model meta-llama/Llama-3.2-1B-Instruct --num-speculative-tokens 5 --speculative-max-model-len 2048"
    (one,) = found(f"docker run vllm/vllm-openai:v0.6.2 --model meta-llama/Llama-3.1-8B-Instruct {words} --ngram-prompt-lookup-max 3")
    assert one.question["speculative"] == "draft_model:5:meta-llama/Llama-3.2-1B-Instruct"
    assert rules(one) == {"not-modelled-either"}  # --speculative-max-model-len; the last has no memory in it


def test_a_text_that_is_no_shells_breaks_no_python_file() -> None:
    (one,) = found(
        """
        import sglang as sgl
        def start():
            sgl.Runtime(model_path="Qwen/Qwen3-8B", tp_size=1, mem_fraction_static=0.8)
        def ask(s):
            s += sgl.system("What it's for, in one word 'END")
        """,
        "main.py",
    )
    assert (one.engine, one.model, one.question["memory_fraction"]) == ("sglang", "Qwen/Qwen3-8B", 0.8)


def test_server_args_are_one_engine_with_the_model_that_bentoml_fetches() -> None:
    (one,) = found(
        """
        import bentoml, sglang as sgl
        from sglang.srt.server_args import ServerArgs
        MODEL = "Qwen/Qwen3-8B"
        @bentoml.service(resources={"gpu": 1, "gpu_type": "nvidia-h200-141gb"})
        class SGL:
            hf_model = bentoml.models.HuggingFaceModel(MODEL)
            def __init__(self):
                server_args = ServerArgs(model_path=self.hf_model, context_length=8192)
                self.engine = sgl.Engine(server_args=server_args)
        """,
        "service.py",
    )
    assert (one.model, one.question["max_model_len"], one.question["device"]) == ("Qwen/Qwen3-8B", 8192, "h200")


def test_beams_name_of_an_a100() -> None:
    """docs.beam.cloud, "GPU": A100-40 is the one of 40 GB."""
    (one,) = found(
        """
        from beam import endpoint
        import vllm
        @endpoint(gpu="A100-40")
        def serve():
            return vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(model="Qwen/Qwen3-8B"))
        """,
        "app.py",
    )
    assert one.question["device"] == "a100-40gb"


@pytest.mark.parametrize("value", ["$LEN", "${LEN}"])
def test_a_name_that_envsubst_fills_in_is_open(value: str) -> None:
    ray = f"""
        applications:
        - name: llms
          import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {{model_id: q, model_source: Qwen/Qwen3-8B}}
              accelerator_type: H100
              engine_kwargs: {{max_model_len: "{value}"}}
        """
    own = f"""
        applications:
        - name: llm
          import_path: serve_vllm:model
          runtime_env: {{env_vars: {{MODEL_ID: Qwen/Qwen3-8B, MAX_MODEL_LEN: "{value}"}}}}
        """
    chart = f"""
        servingEngineSpec:
          modelSpec:
          - name: a
            repository: vllm/vllm-openai
            modelURL: Qwen/Qwen3-8B
            requestGPU: 1
            vllmConfig: {{maxModelLen: "{value}"}}
        """
    for text in (ray, own, chart):
        (one,) = found(text, "a.yaml")
        assert "max_model_len" in opened(one)
        assert "bad-value" not in rules(one)


def test_sed_fills_in_a_file_that_the_script_wrote() -> None:
    text = """
        FRACTION=0.85
        cat > /tmp/c.yaml <<'EOF'
        kv_cache_config:
          free_gpu_memory_fraction: __FRACTION__
        EOF
        sed -i "s/__FRACTION__/${FRACTION}/" /tmp/c.yaml
        trtllm-serve serve Qwen/Qwen3-8B --config /tmp/c.yaml
        """
    (one,) = found(text)
    assert one.question["memory_fraction"] == 0.85
    (one,) = found(text.replace("FRACTION=0.85\n", "\n"))
    assert "memory_fraction" in opened(one)
    assert "bad-value" not in rules(one)


def test_a_chart_that_says_the_model_alone() -> None:
    (one,) = found("model: mistralai/Mistral-7B-Instruct-v0.1\nimage: {repository: substratusai/vllm}\n", "values.yaml")
    assert (one.engine, one.model) == ("vllm", "mistralai/Mistral-7B-Instruct-v0.1")
    assert "command" not in opened(one)


def test_srt_slurm_leaves_out_what_is_false() -> None:
    """srtctl backends/sglang.py _config_to_cli_args: a true option is written, a false one is not."""
    (one,) = found(
        """
        name: r
        model: {path: Qwen/Qwen3-8B}
        resources: {gpu_type: h100, gpus_per_node: 8, prefill_nodes: 1}
        backend:
          type: sglang
          sglang_config:
            prefill: {tensor-parallel-size: 8, enable-dp-attention: false, disable-radix-cache: true}
        """,
        "recipe.yaml",
    )
    assert one.question["engine_option"] == {"disable_radix_cache": True}
    assert "enable_dp_attention" not in opened(one)
    assert "unknown-option" not in rules(one)


@pytest.mark.parametrize(
    ("connectors", "names"),
    [("kvbm", ["DynamoConnector"]), ("nixl lmcache", ["NixlConnector", "LMCacheConnectorV1", "PdConnector"]), ("none", [])],
)
def test_connectors_of_dynamos_workers(connectors: str, names: list[str]) -> None:
    """ai-dynamo 0.7.0, vllm/args.py create_kv_transfer_config."""
    (one,) = found(f"python3 -m dynamo.vllm --model Qwen/Qwen3-8B --connector {connectors} --max-model-len 8192")
    assert one.question["max_model_len"] == 8192
    assert ("not-modelled-either" in rules(one)) is bool(names)
    words = dynamo_words("dynamo.vllm", [Word("--connector"), *map(Word, connectors.split())])
    assert all(name in words[1].text for name in names) if names else not words


def worker(image: str, more: str = "", gpus: str = "--gpus 2") -> Found:
    env = f"-e MODEL_NAME=Qwen/Qwen3-8B -e MAX_MODEL_LEN=16384 {more}"
    (one,) = found(f"docker run {gpus} {env} {image}")
    return one


def test_variables_of_runpods_worker_are_options() -> None:
    """runpod-workers/worker-vllm src/args_builder.py of 2026-08: an option for each variable; pairs of a switch have no value."""
    more = "-e QUANTIZATION=fp8 -e TENSOR_PARALLEL_SIZE=2 -e ENFORCE_EAGER=true -e ENABLE_PREFIX_CACHING=false -e MAX_NUM_BATCHED_TOKENS=0"
    one = worker("runpod/worker-v1-vllm:v2.25.0", more + " -e 'VLLM_EXTRA_ARGS=--kv-cache-dtype fp8'")
    assert (one.engine, one.engine_version, one.model) == ("vllm", "0.23.0", "Qwen/Qwen3-8B")
    assert one.question == {
        "max_model_len": 16384, "weight_dtype": "fp8", "tp": 2, "enforce_eager": True, "kv_dtype": "fp8", "n_devices": 2,
        "engine_option": {"enable_prefix_caching": False},
    }  # fmt: skip
    assert not rules(one)


def test_what_runpods_worker_decided_before_it_served() -> None:
    """src/engine_args.py of its tags: DEFAULT_ARGS, device_count(), and from 2.12 on batches as long as max_model_len."""
    old, later = worker("runpod/worker-v1-vllm:v2.11.2"), worker("runpod/worker-v1-vllm:v2.19.0", "-e GPU_MEMORY_UTILIZATION=0.85")
    plain = {"block_size": 16, "max_num_seqs": 256, "max_model_len": 16384, "tp": 2, "n_devices": 2}
    said = {"engine_option": {"enable_prefix_caching": False}}
    assert (old.engine_version, old.question) == ("0.11.0", {"memory_fraction": 0.95, **plain, **said})
    assert (later.engine_version, later.question) == (
        "0.20.2", {"memory_fraction": 0.85, "max_num_batched_tokens": 16384, **plain, **said},
    )  # fmt: skip
    assert rules(worker("runpod/worker-v1-vllm:v2.11.2", gpus="--gpus all")) == {"every-gpu"}


@pytest.mark.parametrize(("line", "title"), [("ramalama serve -c 8192 hf://a/b", "RamaLama"), ("lms load qwen/qwen3-8b", "LM Studio")])
def test_engines_that_are_named_and_not_modelled(line: str, title: str) -> None:
    assert title in found(line)[0].unresolved[0].why


def test_what_is_no_property_list_is_one_error() -> None:
    for text in ("nonsense", '<!DOCTYPE a [<!ENTITY x "y">]><plist><string>&x;</string></plist>', "<plist><array><array>"):
        with pytest.raises(SpecError, match="not a property list"):
            found(text, "a.plist")


def test_terraform_that_holds_manifests_and_rents_pods() -> None:
    """kubectl_manifest's yaml_body, helm_release's values (registry.terraform.io); runpod_pod of RunPod's provider."""
    manifest, chart, pod = found(
        """
        variable "model" { default = "Qwen/Qwen3-8B" }
        resource "kubectl_manifest" "d" {
          yaml_body = <<EOT
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
          containers:
          - name: c
            image: vllm/vllm-openai:v0.11.0
            args: [--model, "${var.model}", --max-model-len, "8192", --max-num-seqs, "${var.seqs}"]
            resources: {limits: {nvidia.com/gpu: 1}}
        EOT
        }
        resource "helm_release" "s" {
          values = [<<EOF
        servingEngineSpec:
          modelSpec:
          - {name: a, repository: vllm/vllm-openai, modelURL: Qwen/Qwen3-4B, requestGPU: 2}
        EOF
          ]
        }
        resource "runpod_pod" "p" {
          image_name = "vllm/vllm-openai:v0.11.0"
          gpu_type_ids = ["NVIDIA A100 80GB PCIe"]
          gpu_count = 2
          docker_start_cmd = ["--model", "Qwen/Qwen3-32B", "--tensor-parallel-size", "2"]
        }
        """,
        "main.tf",
    )
    assert (manifest.model, manifest.question["device"], manifest.question["max_model_len"]) == ("Qwen/Qwen3-8B", "l4", 8192)
    assert opened(manifest) == {"max_num_seqs"}
    assert (chart.model, chart.question["n_devices"]) == ("Qwen/Qwen3-4B", 2)
    assert pod.question == {"tp": 2, "n_devices": 2, "device": "a100-pcie-80gb"}


def test_a_terminal_around_the_engine() -> None:
    """vast-ai/base-image runs its engines by `pty`, a command of its own that gives them a terminal."""
    (one,) = found('pty llama-server -hf "unsloth/Qwen3-8B-GGUF:Q4_K_M" ${LLAMA_ARGS:---port 18000} 2>&1')
    assert one.model == "unsloth/Qwen3-8B-GGUF:Q4_K_M"
