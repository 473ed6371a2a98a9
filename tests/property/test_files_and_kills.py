"""Files through any order of runs: calibrations recorded one by one and at once, sweeps resumed, kills, full disks, shut folders, no home.

Nothing that a finished command said it wrote is ever lost or half there; what fails says one line and leaves the files as they were.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fcntl", reason="kills, limits and modes as POSIX has them")
pytest.importorskip("numpy", reason="the sweep extra brings numpy")

import yaml
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.conftest import examples
from tests.forked import Commands

LOG = """INFO 01-01 00:00:00 [llm_engine.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='meta-llama/Llama-3.1-8B'
INFO 01-01 00:00:00 [x.py:1] non-default args: {{'max_num_seqs': {seqs}}}
INFO 01-01 00:00:01 [gpu_model_runner.py:1] Model loading took 15.1 GiB and 5.0 seconds
INFO 01-01 00:00:02 [gpu_worker.py:1] Available KV cache memory: {left} GiB
"""
POINTS, ROWS = 90, 20
SWEEP = ["sweep", "meta-llama/llama-3.1-8b", "--engine", "ideal", "--grid", f"context=1:{POINTS}", "--rows", str(ROWS)]
DISK = 128 << 10  # bytes of the file system of their own that the files have, where one may be mounted


class Files(RuleBasedStateMachine):
    """A folder with a calibration file and a sweep. `sure`: logs whose record was said to be kept; `maybe`: those of killed runs."""

    commands: Commands
    whole: bytes

    @initialize()
    def begin(self) -> None:
        self.logs = Path(tempfile.mkdtemp(prefix="kvplan-logs-"))
        self.folder = Path(tempfile.mkdtemp(prefix="kvplan-files-"))
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "kvplan-test", str(self.folder)]
        self.mounted = sys.platform.startswith("linux") and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self.kept, self.out = self.folder / "own" / "calibration.yaml", self.folder / "out.csv"
        self.sure: set[int] = set()
        self.maybe: set[int] = set()
        self.finished = False
        self.n = 0

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        with suppress(FileNotFoundError):
            (self.folder / "ballast").unlink()
        try:
            self.sweep_whole()
        finally:
            if self.mounted:
                subprocess.run(["umount", str(self.folder)], check=True)
            shutil.rmtree(self.folder)
            shutil.rmtree(self.logs)

    def sweep_whole(self) -> None:
        """Whatever came before, a resumed sweep ends as one that was never broken off; a kill's lock holds nobody up."""
        ((code, said),) = self.commands.run({"args": self.sweeping()})
        assert code == 0, said
        assert self.out.read_bytes() == self.whole
        left = {name for name in os.listdir(self.folder) if not name.startswith("own") and not name.endswith(".lock")}
        assert left == {"out.csv", "out.csv.progress"}

    def recording(self) -> tuple[int, dict[str, Any]]:
        """A start that no other is like, and the job that records it."""
        self.n += 1
        log = self.logs / f"{self.n}.log"
        log.write_text(LOG.format(seqs=self.n, left=40 + self.n / 100))
        args = ["calibrate", str(log), "--engine", "vllm", "--device", "h100-80gb", "--record"]
        return self.n, {"args": args, "env": {"KVPLAN_CALIBRATION": str(self.kept)}}

    def sweeping(self) -> list[str]:
        begun = os.path.lexists(self.out) or os.path.lexists(f"{self.out}.progress")
        return [*SWEEP, "--out", str(self.out), *(["--resume"] if begun else [])]

    def failed(self, code: int, said: str) -> None:
        assert code == 2, said
        assert said.count("error: ") == 1, said
        assert "internal" not in said, said

    @rule(others=st.integers(0, 3), killed=st.integers(0, 6))
    def record(self, others: int, killed: int) -> None:
        """One, or several at once, beside one that is killed at any step."""
        runs = [self.recording() for _ in range(others + 1)]
        number, job = self.recording()
        self.maybe.add(number)
        *done, _ = self.commands.run(*(job for _, job in runs), job | {"die_at": killed})
        for (number, _), (code, said) in zip(runs, done, strict=True):
            if self.is_full():
                self.sure |= {number} if code == 0 else set()
                if code:
                    self.failed(code, said)
            else:
                assert code == 0, said
                self.sure.add(number)

    @rule(killed=st.integers(0, 30))
    def sweep_killed(self, killed: int) -> None:
        ((code, said),) = self.commands.run({"args": self.sweeping(), "die_at": killed})
        if code not in (-9, 0):
            assert self.is_full(), said
            self.failed(code, said)

    @rule(most=st.integers(0, 1500))
    def sweep_where_files_may_not_grow(self, most: int) -> None:
        ((code, said),) = self.commands.run({"args": self.sweeping(), "most_bytes": most})
        if code:
            self.failed(code, said)

    @rule(most=st.integers(0, 1000))
    def record_where_files_may_not_grow(self, most: int) -> None:
        number, job = self.recording()
        before = self.kept.read_bytes() if self.kept.exists() else None
        ((code, said),) = self.commands.run(job | {"most_bytes": most})
        if code:
            self.failed(code, said)
            assert (self.kept.read_bytes() if self.kept.exists() else None) == before
        else:
            self.sure.add(number)

    @precondition(lambda self: self.mounted and not self.is_full())
    @rule(left=st.integers(0, 5))
    def fill(self, left: int) -> None:
        """The disk, but for so many pages."""
        with open(self.folder / "ballast", "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        size = (self.folder / "ballast").stat().st_size
        os.truncate(self.folder / "ballast", max(0, size - left * 4096))

    @precondition(lambda self: self.is_full())
    @rule()
    def free(self) -> None:
        (self.folder / "ballast").unlink()

    @rule()
    def shut(self) -> None:
        """Folders that one may not write to, for a while."""
        folders = [folder for folder in (self.folder, self.kept.parent) if folder.is_dir()]
        _, job = self.recording()
        for folder in folders:
            folder.chmod(0o555)
        done = self.commands.run(job | {"modes": True}, {"args": self.sweeping(), "modes": True})
        for folder in folders:
            folder.chmod(0o755)
        for code, said in done:
            self.failed(code, said)
            assert "can not be written" in said, said

    @rule()
    def without_a_home(self) -> None:
        _, job = self.recording()
        ((code, said),) = self.commands.run(job | {"no_home": True, "env": {}})
        self.failed(code, said)

    def is_full(self) -> bool:
        return (self.folder / "ballast").exists()

    @invariant()
    def what_was_kept_is_there(self) -> None:
        if not self.kept.exists():
            assert not self.sure
            return
        found = [record["max_num_seqs"] for record in yaml.safe_load(self.kept.read_text())["records"]]
        assert len(found) == len(set(found))
        assert self.sure <= set(found) <= self.sure | self.maybe

    @invariant()
    def what_was_swept_is_there(self) -> None:
        """Whole lines of the unbroken run, at least as far as the progress says."""
        if self.out.exists():
            assert self.whole.startswith(self.out.read_bytes())


def test_files_survive_what_happens_to_them(tmp_path: Path) -> None:
    with Commands() as commands:
        whole, log = tmp_path / "whole.csv", tmp_path / "a.log"
        log.write_text(LOG.format(seqs=1, left=40))
        commands.warm("calibrate", str(log), "--engine", "vllm", "--device", "h100-80gb")
        commands.warm(*SWEEP, "--out", str(whole))
        made = type("Here", (Files,), {"commands": commands, "whole": whole.read_bytes()})
        run_state_machine_as_test(made, settings=examples(8, stateful_step_count=10))
