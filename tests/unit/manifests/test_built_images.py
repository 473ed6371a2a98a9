"""Services and images built from a Dockerfile that lies elsewhere in the repository: expected is what Docker's own rules make of it
(docs.docker.com/reference/dockerfile, "WORKDIR", "COPY"); the shape was met in a public compose file."""

from __future__ import annotations

from kvplan.manifests.read import read
from tests.unit.manifests.as_read import rules

DOCKERFILE = """FROM vllm/vllm-openai:v0.11.0
WORKDIR /app
COPY run.sh util.sh ./
COPY conf/ /etc/conf/
ENTRYPOINT []
CMD ["./run.sh"]
"""
RUN = '#!/bin/sh\nexec vllm serve "$MODEL" --max-model-len "${LEN:-4096}"\n'
COMPOSE = """services:
  app: {image: nginx}
  vllm:
    build: {context: ../../services/vllm, dockerfile: Dockerfile}
    environment: [MODEL=Qwen/Qwen3-8B, LEN=8192]
"""


def test_a_service_built_in_another_folder_of_the_repository() -> None:
    files = {"../../services/vllm/Dockerfile": DOCKERFILE, "../../services/vllm/run.sh": RUN}
    (one,) = read(COMPOSE, "compose.yaml", None, files.get)
    assert (one.engine, one.engine_version, one.model, one.question["max_model_len"]) == ("vllm", "0.11.0", "Qwen/Qwen3-8B", 8192)
    assert "config-read" in rules(one)
    assert one.place.line <= 5


def test_a_service_that_is_built_where_nothing_is_read_is_named_by_what_it_is() -> None:
    (one,) = read(COMPOSE, "compose.yaml", None, {}.get)
    assert one.engine == "vllm"
    assert any("../../services/vllm/Dockerfile" in u.why for u in one.unresolved)


def test_services_built_that_speak_of_no_engine_are_left_alone() -> None:
    text = "services:\n  web: {build: ../web, ports: ['80:80']}\n  vllm-benchmark: {build: .}\n"
    text += "  one: {image: 'vllm/vllm-openai', command: -h}\n"
    assert {one.name for one in read(text, "compose.yaml", None, {}.get)} <= {"services/one"}


def test_a_dockerfile_starts_the_script_that_it_copies() -> None:
    (one,) = read(DOCKERFILE.replace("CMD", "ENV MODEL=Qwen/Qwen3-4B\nCMD"), "Dockerfile", None, {"run.sh": RUN}.get)
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen3-4B", 4096)


def test_nvidias_images_hold_what_their_release_notes_say() -> None:
    text = "services:\n  one:\n    image: nvcr.io/nvidia/vllm:TAG-py3\n    command: vllm serve Qwen/Qwen3-8B\n"
    (one,) = read(text.replace("TAG", "26.03"), "compose.yaml")
    assert one.engine_version == "0.17.1"
    (two,) = read(text.replace("TAG", "25.08"), "compose.yaml")
    assert two.engine_version is None
    assert any("25.08-py3" in finding.message and "--engine-version" in finding.message for finding in two.findings)
