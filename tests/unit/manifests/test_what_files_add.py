"""What public files say beside a command, and how a shell reads them: expected is what their own words say; each shape was met in one."""

from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from tests.unit.manifests.test_shapes_of_public_files import found, opened, rules

ROLE = """
    apiVersion: workload.serving.volcano.sh/v1alpha1
    kind: ModelServing
    metadata: {name: m}
    spec:
      template:
        roles:
          - name: big
            entryTemplate:
              spec:
                containers:
                  - image: vllm/vllm-openai:v0.11.0
                    args: [--model, Qwen/Qwen3-8B, -tp, "8", -pp, "2"]
                    resources: {limits: {nvidia.com/gpu: "8"}}
            workerReplicas: WORKERS
    """
SERVICE = """
    apiVersion: serving.kserve.io/v1alpha2
    kind: LLMInferenceService
    metadata: {name: m, annotations: {NOTES}}
    spec:
      model: {uri: "hf://Qwen/Qwen3-8B", MORE}
      template: {containers: [{name: main}]}
      OTHERS
    """


def service(notes: str = "", more: str = "", others: str = "replicas: 1"):  # type: ignore[no-untyped-def]
    (one,) = found(SERVICE.replace("NOTES", notes).replace("MORE", more).replace("OTHERS", others))
    return one


@pytest.mark.parametrize(("workers", "gpus"), [(1, 16), (0, 8)])
def test_the_workers_of_a_role_bring_their_gpus(workers: int, gpus: int) -> None:
    (one,) = found(ROLE.replace("WORKERS", str(workers)))
    assert one.question["n_devices"] == gpus  # 8 each, of the entry and its workers


def test_what_an_llm_inference_service_adds_to_the_command() -> None:
    """config_merge.go (kvTransferConfig) and workload_lora.go of kserve's controller."""
    assert "not-modelled-either" in rules(service(others="kvCacheOffloading: {cpu: 10Gi}"))
    one = service(more="lora: {adapters: [{name: a, uri: 'hf://x/y'}], maxRank: 64, maxAdapters: 2}")
    assert one.question["lora"] == "64x2"
    assert "lora" not in service(more="lora: {maxRank: 64}").question  # no adapter, no LoRA


def test_what_an_llm_inference_service_does_not_say_itself_is_open() -> None:
    assert "options" in opened(service(others="baseRefs: [{name: elsewhere}]"))
    assert "options" not in opened(service())
    assert "no-effect" in rules(service(others="workload: {kvCacheOffloading: {cpu: 10Gi}}"))


@pytest.mark.parametrize(("count", "gpus"), [(", serving.kserve.io/exp-dra-device-count: '2'", 2), ("", 1)])
def test_devices_that_the_controller_claims(count: str, gpus: int) -> None:
    """The annotations of KServe's managed DRA: one device where no count is given."""
    assert service(f"serving.kserve.io/exp-dra-device-class: gpu.nvidia.com{count}").question["n_devices"] == gpus


def test_values_of_a_chart_of_ones_own_are_read_by_the_engine_s_own_names() -> None:
    (one,) = found("""
        vllm:
          image: {repository: vllm/vllm-openai, tag: v0.10.0}
          model: {name: Qwen/Qwen3-8B, maxModelLen: 16384}
          maxNumBatchedTokens: 1024
          enableChunkedPrefill: true
          enforceEager: false
          gpuMemoryUtilization: null
          quantization: ""
          blockSize: 64
        """)
    asked = {"max_model_len": 16384, "max_num_batched_tokens": 1024, "block_size": 64, "engine_option": {"enable_chunked_prefill": True}}
    assert (one.model, dict(one.question)) == ("Qwen/Qwen3-8B", asked)


def test_an_action_of_ones_own_has_steps_and_defaults() -> None:
    (one,) = found("""
        inputs:
          model: {default: Qwen/Qwen3-1.7B}
        runs:
          using: composite
          steps:
            - run: vllm serve "${{ inputs.model }}" --max-model-len 4096 &
        """)
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-1.7B", 4096)


@pytest.mark.parametrize(
    ("script", "model"),
    [
        ('vllm serve Qwen/Qwen3-8B\n\n-q $QUANT"\necho done\n', "Qwen/Qwen3-8B"),  # a shell has run the first line by then
        ("N=\"${A:-$(ip route | awk '{print $5}')}\"\nvllm serve Qwen/Qwen3-8B\n", "Qwen/Qwen3-8B"),
        ('len=$(grep -oP "cache \\\\(\\\\K[0-9]+" log)\nvllm serve Qwen/Qwen3-8B\n', "Qwen/Qwen3-8B"),
        ("ray job submit --no-wait -- vllm serve Qwen/Qwen3-8B\n", "Qwen/Qwen3-8B"),
        ("vllm serve /c/hub/models--Qwen--Qwen3-8B/snapshots/b968826d\n", "Qwen/Qwen3-8B"),  # huggingface_hub's cache
    ],
)
def test_shells_read_as_shells_do(script: str, model: str) -> None:
    (one,) = found(script, "serve.sh")
    assert one.model == model
    assert ("unclosed" in rules(one)) == script.endswith("done\n")


def test_a_quote_left_open_before_any_engine_is_an_error() -> None:
    with pytest.raises(SpecError, match="is not closed"):
        found('echo "x\nvllm serve Qwen/Qwen3-8B\n', "serve.sh")


def test_a_variable_that_is_open_stays_so_within_a_text_s_own_quotes() -> None:
    (one,) = found("while getopts m: o; do M=$OPTARG; done\nsrun bash -c \"vllm serve --model '$M' -tp 2\"\n", "serve.sh")
    assert "model" in opened(one)
    assert one.question["tp"] == 2


@pytest.mark.parametrize(
    ("image", "version", "said"),
    [
        ("vllm/vllm-openai-cpu:v0.19.0", "0.19.0", False),
        ("vllm/vllm-openai:v0.8.5.post1", "0.8.5.post1", False),
        ("reg.example.com/team/vllm-cpu:v0.11.0-x", None, True),
        ("reg.example.com/team/vllm:v0.11.0-x", None, True),
        ("reg.example.com/team/vllm:nightly", None, False),
        ("lmcache/vllm-openai:v0.3.12", None, True),  # LMCache's own numbers: which release of vLLM it holds is not said
    ],
)
def test_tags(image: str, version: str | None, said: bool) -> None:
    (one,) = found(f"docker run {image} --model Qwen/Qwen3-8B\n", "serve.sh")
    assert (one.engine_version, "tag" in rules(one)) == (version, said)


def test_python_counts_gpus_and_splits_a_text() -> None:
    (one,) = found(
        "import vllm\nfrom beam import endpoint\n@endpoint(gpu='A10G', gpu_count=2)\ndef f():\n    vllm.LLM(model='a/b')\n", "x.py"
    )
    assert (one.question["device"], one.question["n_devices"]) == ("a10g", 2)
    text = "import subprocess\ndef f(n: int):\n    c = f'vllm serve a/b --max-model-len 4096 -tp {n}'\n    subprocess.run(c.split())\n"
    (one,) = found(text, "x.py")
    assert (one.model, one.question["max_model_len"], "tp" in opened(one)) == ("a/b", 4096, True)


SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 4096"


@pytest.mark.parametrize(
    "lines",
    [
        ["RUN echo '#!/bin/bash\\nexec SERVE' > /s.sh && chmod +x /s.sh", 'ENTRYPOINT ["/s.sh"]'],
        ["RUN printf '%s\\n' '#!/bin/sh' \\", "    'exec SERVE' > /s.sh", 'ENTRYPOINT ["/s.sh"]'],
        ["RUN cat <<'EOF' > /opt/s.sh", "#!/bin/bash", "exec SERVE", "EOF", "RUN true", 'ENTRYPOINT ["/bin/bash", "/opt/s.sh"]'],
        ["COPY --chmod=755 <<EOF /s.sh", "#!/bin/sh", "SERVE", "EOF", "ENTRYPOINT []", 'CMD ["/s.sh"]'],
        [
            'CMD ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "4096"]',
            "ENTRYPOINT []",
        ],  # the stage's own CMD stays
    ],
)
def test_a_dockerfile_writes_what_it_starts(lines: list[str]) -> None:
    text = "\n".join(["FROM vllm/vllm-openai:v0.11.0", *lines]).replace("SERVE", SERVE)
    (one,) = found(text + "\n", "Dockerfile")
    assert (one.model, one.engine_version, one.question.get("max_model_len")) == ("Qwen/Qwen3-8B", "0.11.0", 4096)
    (same,) = found("services: {llm: {build: .}}", "compose.yaml", Dockerfile=text + "\n")
    assert (same.model, same.question) == (one.model, one.question)
