"""What public charts, installers and templates say beside an engine's command, and what is told of what they leave open."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.manifests import Found, Source, check, read_file
from kvplan.manifests.weights import meant
from kvplan.report.findings import text as table
from tests.conftest import planned
from tests.unit.manifests import as_read
from tests.unit.manifests.as_read import rules

FILES = Path(__file__).parents[2] / "manifests" / "kinds"


def of(name: str) -> list[Found]:
    return read_file(str(FILES / name))


def said(one: Found, rule: str) -> str:
    return " | ".join(finding.message for finding in one.findings if finding.rule == rule)


@pytest.mark.parametrize(
    ("name", "release"),
    [("values-args.yaml", "0.11.0"), ("stack-mapping.yaml", "0.22.1"), ("isvc-below.yaml", "0.9.2"), ("Dockerfile.replaced", None)],
)
def test_the_release_is_that_of_the_one_image_unless_it_is_replaced(name: str, release: str | None) -> None:
    assert of(name)[0].engine_version == release


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("image-variable.yaml", "which image it is stands elsewhere"),
        ("compose-more.yaml", "which release sha256:111111111111 holds is not known here"),
        ("Dockerfile.replaced", "vllm is taken out and another put in"),
    ],
)
def test_a_release_that_nothing_says_is_said_to_be_the_newest(name: str, says: str) -> None:
    assert says in said(of(name)[0], "tag")


def test_a_label_of_the_cluster_own_that_names_a_gpu_is_a_hint() -> None:
    (verdict,) = check([Source("x.yaml", (FILES / "image-variable.yaml").read_text())], planned)
    assert any("gpuspecs says A100_40GB: if that is its GPU, --device a100-40gb" in one.message for one in verdict.findings)


def test_a_line_that_is_lost_behind_a_blank_is_told() -> None:
    assert "--model-path" in said(of("router-cut.sh")[0], "cut-command")


def test_a_service_of_a_compose_file_has_more_than_its_command() -> None:
    assert "stand there are not read" in said(of("compose-run.sh")[0], "not-read")
    assert "unread-variable" in rules(of("compose-run.sh")[0])


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/models/meta-llama--Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("/models/Qwen_Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B"),
        ("/models/some--thing", None),
    ],
)
def test_a_folder_or_file_named_after_its_repository_is_a_hint(path: str, model: str | None) -> None:
    known = meant(path)
    assert (known or "").lower() == (model or "").lower()


@pytest.mark.parametrize(("release", "is_known"), [("v0.5.6.post2", True), ("v0.4.9", False)])
def test_an_abbreviation_is_of_the_options_that_the_release_has(release: str, is_known: bool) -> None:
    """sglang's --disable-overlap-cg-plan was in 0.4.8 and 0.4.9 alone: there `--disable-overlap` is of two."""
    (one,) = as_read.found(
        f"""
        services:
          chat:
            image: lmsysorg/sglang:{release}
            command: python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --disable-overlap
        """,
        "compose.yaml",
    )
    assert ("unknown-option" not in rules(one)) == is_known


def test_a_program_of_its_own_that_is_handed_the_options_is_told() -> None:
    (one,) = as_read.found(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
            - name: vllm
              image: registry.example.com/scratch:1.0
              command: [/bin/python3, -c, "import ours; ours.serve()"]
              args: [--model, Qwen/Qwen3-8B, --max-model-len, "8192", --gpu-memory-utilization, "0.8"]
        """,
        "pod.yaml",
    )
    assert one.question["max_model_len"] == 8192
    assert "what it sets itself is not read" in said(one, "wrapper")


def test_variables_for_a_runtime_that_is_elsewhere_are_named() -> None:
    (one,) = as_read.found(
        """
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: m}
        spec:
          predictor:
            model:
              modelFormat: {name: vllm}
              runtime: vllm-elsewhere
              env: [{name: MAX_MODEL_LEN, value: "2048"}, {name: MODEL_NAME, value: Qwen/Qwen3-8B}]
        """,
        "isvc.yaml",
    )
    assert any("MAX_MODEL_LEN, MODEL_NAME" in one.why for one in one.unresolved)


def test_a_script_that_applies_a_manifest_says_which() -> None:
    (verdict,) = check(
        [Source("deploy.sh", "# vllm\nkubectl apply -f k8s/ns.yaml\nenvsubst < k8s/vllm.yaml | kubectl apply -f -\n")], planned
    )
    assert "k8s/vllm.yaml and k8s/ns.yaml, which it runs, are not read" in verdict.message


def test_the_first_line_says_what_is_counted_without_a_device() -> None:
    """Qwen3-8B in bf16: 8,190,735,360 x 2 bytes of weights; 36 layers x 2 x 8 heads x 128 x 2 bytes x 8,192 tokens of cache."""
    (verdict,) = check([Source("serve.sh", "vllm serve Qwen/Qwen3-8B --max-model-len 8192")], planned)
    assert verdict.message == "not known: device (15.256 GiB of weights, 1.125 GiB for 1 x 8,192 tokens)"


def test_a_file_that_starts_nothing_is_named_once() -> None:
    (verdict,) = check([Source("nothing.sh", "echo hello\n")], planned)
    assert table([verdict.as_dict()]).splitlines()[0] == "-- nothing.sh:1: no command of an inference engine in it"


def test_options_that_may_come_after_a_list_of_names_are_told_once() -> None:
    (one,) = as_read.found("vllm serve Qwen/Qwen3-8B --served-model-name x $MORE_ARGS $MORE_ARGS\n", "serve.sh")
    assert [u.what for u in one.unresolved] == ["options", "device"]
    assert len(set(one.findings)) == len(one.findings)


@pytest.mark.parametrize(("tag", "is_told"), [("gemma4-cu130", True), ("latest", False), ("v0.11.0", False), ("nightly-x86_64", False)])
def test_a_tag_that_numbers_no_release_is_told(tag: str, is_told: bool) -> None:
    (one,) = as_read.found(
        f"""
        services:
          chat: {{image: "vllm/vllm-openai:{tag}", command: --model Qwen/Qwen3-8B}}
        """,
        "compose.yaml",
    )
    assert ("does not number" in said(one, "tag")) == is_told


def test_a_release_that_is_installed_answers_for_the_tag() -> None:
    (one,) = as_read.found(
        """
        FROM vllm/vllm-openai:ours-2026
        RUN pip install vllm==0.11.0
        CMD ["--model", "Qwen/Qwen3-8B"]
        """,
        "Dockerfile",
    )
    assert (one.engine_version, said(one, "tag")) == ("0.11.0", "")


def test_a_server_under_a_condition_is_read_and_one_that_is_off_is_not() -> None:
    (one,) = as_read.found(
        """
        { lib, config, ... }:
        {
          virtualisation.oci-containers.containers = lib.optionalAttrs config.services.chat.enable {
            chat = { image = "vllm/vllm-openai:v0.11.0"; cmd = [ "--model" "Qwen/Qwen3-8B" "--max-model-len" "8192" ]; };
          };
        }
        """,
        "serve.nix",
    )
    assert one.question["max_model_len"] == 8192
    found = as_read.found(
        """
        servers:
          a: {enabled: false, command: vllm serve Qwen/Qwen3-8B}
          b: {enabled: true, command: vllm serve Qwen/Qwen3-4B}
        """,
        "vars.yaml",
    )
    assert [each.model for each in found] == ["Qwen/Qwen3-4B"]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("vllm: {extraArgs: [--model, Qwen/Qwen3-8B, --max-model-len, '8192']}\nresources: {vllm: {limits: {nvidia.com/gpu: 2}}}\n", [2]),
        ("a: {extraArgs: [--model, Qwen/Qwen3-8B, --max-model-len, '8192'], gpuCount: 2}\nb: {gpuCount: 4}\n", [None]),
    ],
)
def test_the_gpus_of_a_list_of_options_are_those_of_the_one_count(text: str, counts: list[int | None]) -> None:
    assert [one.question.get("n_devices") for one in as_read.found(text, "vars.yaml")] == counts


def test_an_argument_of_the_script_is_nothing_to_set_in_it() -> None:
    (one,) = as_read.found("vllm serve Qwen/Qwen3-8B $1\n", "serve.sh")
    assert [u.give for u in one.unresolved if u.what == "options"] == ["give --tp N and --max-model-len N"]


def test_a_part_that_is_off_is_spoken_of_where_nothing_starts() -> None:
    text = "servers:\n  a:\n    enabled: false\n    command: vllm serve Qwen/Qwen3-8B\n"
    (verdict,) = check([Source("vars.yaml", text)], planned)
    assert verdict.status == "empty"
    assert "a part with `enabled: false` starts nothing" in verdict.message
