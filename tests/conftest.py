"""What all tests share: specs of one block, where the optional shared data is, and how Hypothesis draws."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from kvplan.api.asking import asked
from kvplan.cli import run
from kvplan.planner.evaluate import evaluate
from kvplan.planner.offload import with_offload
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, parse_spec

SHARED = Path(__file__).parents[2] / "shared"

# Tests of what measures with torch, which kvplan itself does without (`make test-lowest` has none).
TORCH = ("gpu/test_cuda.py", *(f"unit/validate/test_{name}.py" for name in ("attention", "gpu_stand_in", "measure", "storage")))
collect_ignore = list(TORCH) if find_spec("torch") is None else []

#: What `make test-fast` leaves out, nine tenths of the suite's time: whatever compares with engines, draws properties, allocates,
#: runs the pages' commands or reads every packaged model, and of the unit tests those that start many processes or read many files.
SLOW = (
    "gpu/", "oracle/", "property/", "contract/", "catalogue/", "docs/", "unit/validate/", "unit/web/", "unit/importers/test_hub_asked.py",
    *(f"unit/manifests/test_{name}.py" for name in ("bounds", "ci", "emit", "emit_quoting")),
    *(f"unit/manifests/test_{name}.py" for name in ("private", "reports")),
    *(f"unit/simulate/test_{name}.py" for name in ("engine_pools", "paper", "routers", "simulated_tiers")),
    *(f"unit/test_{name}.py" for name in ("changes_advised", "cli_files", "limits_of_settings", "search", "sweep_files")),
)  # fmt: skip

# `make test` draws the same examples everywhere, and does not shrink what it finds (a plan of a large model is dear to ask a thousand
# times); `make explore` draws at random, EXAMPLES times as many, shrinks, and prints how to repeat a find, which is kept as an @example.
EXPLORE = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
settings.register_profile("test", derandomize=True, deadline=None, database=None, phases=(Phase.explicit, Phase.generate))
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
settings.load_profile("explore" if EXPLORE else "test")
if not EXPLORE:  # constants met in the modules that a worker happens to have imported are drawn too: never the same twice
    providers._get_local_constants = lambda: providers._local_constants


def is_slow(path: Path) -> bool:
    return path.relative_to(Path(__file__).parent).as_posix().startswith(SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `make test-fast` leaves out is not even imported: torch and transformers take longer than the rest."""
    return True if config.option.markexpr == "not slow" and collection_path.is_file() and is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)


def examples(n: int, **more: Any) -> settings:
    """How many examples a property is tried on."""
    return settings(max_examples=n * int(os.environ.get("EXAMPLES", "10")) if EXPLORE else n, **more)


def rows_of(file: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def shared(path: str) -> Path:
    """A file of the shared data; skips where a public clone has none."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"no {path} beside this checkout (test inputs that are not published with it)")
    return found


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line: its exit code, what it prints as data, and what it says beside that."""

    def ran(*words: object) -> tuple[int, str, str]:
        code = run(list(map(str, words)))
        return (code, *capsys.readouterr())

    return ran


@pytest.fixture
def refused(command: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """The one line that a command line is refused with."""

    def said(*words: object) -> str:
        code, out, err = command(*words)
        assert (code, out) == (2, ""), (code, out, err)
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return said


@pytest.fixture(scope="module")
def measuring() -> Iterator[Any]:
    """A process that measures, for all questions of a file: torch, and transformers, are imported once."""
    if find_spec("torch") is None:
        pytest.skip("measures with torch")
    from kvplan.validate.child import Worker

    with Worker("cpu", threads=1) as worker:
        yield worker


@pytest.fixture
def one_process(measuring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for a process of its own to measure in gets that of the file."""
    from kvplan.validate import real, run

    for module in (run, real):
        monkeypatch.setattr(module, "Worker", lambda device, threads=None: nullcontext(measuring))


def planned(model: str | ModelSpec, **question: Any) -> Plan:
    """What `estimate` answers but for its limits and advice, which are most of its time."""
    d = asked(model, **question)
    return with_offload(d, evaluate(d, limits=False), limits=False)[1]


def one_block(mixer: dict[str, Any] | None, n_layers: int = 1, hidden: int = 64, **fields: Any) -> ModelSpec:
    """A model of `n_layers` equal layers with one mixer and no feed-forward part."""
    return parse_spec(
        {
            "id": "test/one",
            "name": "one",
            "source": "written for a test",
            "max_context": 1 << 20,
            "vocab_size": 1000,
            "hidden_size": hidden,
            "n_layers": n_layers,
            "layers": [{"pattern": [f"{n_layers}*block"]}],
            "blocks": {"block": {"mixers": [mixer] if mixer else []}},
            **fields,
        },
        "test",
    )
