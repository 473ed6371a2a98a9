"""Every file of tests/manifests/deployments: its verdicts, the lines they point at, its exit code, as deployments.tsv beside them says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.errors import SpecError
from kvplan.manifests import check, exit_code
from kvplan.manifests.read import read_file
from kvplan.rows import rows
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests" / "deployments"
Engine = tuple[str, str, dict[str, int]]
"""Status, name, and rule -> line of its errors and warnings."""


def engine(cell: str) -> Engine:
    status, name, rules = (*cell.split("; "), "")[:3]
    return status, name, {rule: int(line) for rule, _, line in (one.partition(":") for one in rules.split())}


TABLE = {name: (int(code), why, list(map(engine, of))) for name, code, why, *of in rows(FILES.with_suffix(".tsv"))}


def test_every_file_is_in_the_table() -> None:
    assert sorted(TABLE) == sorted(path.name for path in FILES.iterdir())
    assert len(TABLE) >= 60


@pytest.mark.parametrize("name", TABLE)
def test_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    code, why, expected = TABLE[name]
    verdicts = check([name], planned)
    found = [(v.status, v.name, {f.rule: f.place.line for f in v.findings if f.severity != "note"}) for v in verdicts]
    assert found == expected, why
    assert exit_code(verdicts) == code, why
    assert all(v.plan is not None for v in verdicts if v.status == "fits"), why


def what_is_read(name: str) -> object:
    try:
        return read_file(name)
    except SpecError as error:
        return str(error)


def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the checker that the files mention change nothing of what is read; what plans is handed that and has no `os`."""
    monkeypatch.chdir(FILES)
    before = {name: what_is_read(name) for name in TABLE}
    for variable in ("MODEL", "TP", "LEN", "SIZE", "PORT", "LORA", "VLLM_VERSION", "VERSION", "HF_TOKEN", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "9")
    assert {name: what_is_read(name) for name in TABLE} == before
