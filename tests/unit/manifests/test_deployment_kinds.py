"""Every kind of file that names an engine, one small file each in tests/manifests/kinds: what a person reads in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.manifests import Found, Source, check, read_file
from tests.conftest import planned, rows_of

FILES = Path(__file__).parents[2] / "manifests" / "kinds"


def of(found: Found) -> dict[str, Any]:
    return {"engine": found.engine, "model": found.model, **found.question}


#: File -> what is known of each engine; `open`: what must be given; no engine: `says` what is not modelled.
TABLE: dict[str, list[dict[str, Any]]] = {row["file"]: row["engines"] for row in rows_of(Path(__file__).parent / "kinds.jsonl")}


@pytest.mark.parametrize("name", TABLE)
def test_kind(name: str) -> None:
    found = read_file(str(FILES / name))
    assert len(found) == len(TABLE[name]), [of(one) for one in found]
    for one, expected in zip(found, TABLE[name], strict=True):
        expected = dict(expected)
        unresolved = {u.what for u in one.unresolved}
        assert set(expected.pop("open", ())) <= unresolved
        if says := expected.pop("says", ""):
            assert says in one.unresolved[0].why
            assert "is not modelled" in one.unresolved[0].why
        assert expected.items() <= of(one).items(), of(one)


def test_branches_of_one_service_do_not_share_its_gpu() -> None:
    """One of the two is run: 0.95 + 0.95 of a GPU is no refusal."""
    text = (FILES / "compose-either.yaml").read_text()
    verdicts = check([Source("compose.yaml", text)], planned, device="h100-80gb")
    assert {one.status for one in verdicts} <= {"fits", "unknown"}
    assert not any(finding.rule == "shared-gpu" for one in verdicts for finding in one.findings)


def test_releases() -> None:
    """An installed release and a public image's tag are releases; a private image's tag is none."""
    assert read_file(str(FILES / "skypilot.yaml"))[0].engine_version == "0.11.0"
    assert read_file(str(FILES / "truss.yaml"))[0].engine_version == "0.11.0"
    assert read_file(str(FILES / "compose-others.yaml"))[2].engine_version is None


def test_the_image_of_a_job_says_the_release() -> None:
    (found,) = read_file(str(FILES / "gitlab-ci.yml"))
    assert found.engine_version == "0.11.0"


def test_a_container_that_sees_the_gpus_of_its_neighbour() -> None:
    """NVIDIA_VISIBLE_DEVICES=all without a limit: the container toolkit lets it see every GPU of the node."""
    rules = [[f.rule for f in found.findings if f.severity == "warning"] for found in read_file(str(FILES / "pod-sees-all.yaml"))]
    assert rules == [["not-modelled-more"]] * 2


def test_the_tag_of_a_model_image_is_offered() -> None:
    (found,) = read_file(str(FILES / "modelcar.yaml"))
    assert any("did you mean ibm-granite/granite-3.1-8b" in one.why for one in found.unresolved)
