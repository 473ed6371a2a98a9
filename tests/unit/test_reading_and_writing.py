"""kvplan.files: bounded reads of regular files, whole writes, one writer at a time."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvplan import catalogue, files
from kvplan.cli import run
from kvplan.errors import SpecError
from tests.modes import modes_hold

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="FIFOs and signals as POSIX has them")


@POSIX
@pytest.mark.parametrize("read", [files.read_bytes, files.read_text, lambda path: list(files.chunks(path)), files.opened])
def test_only_regular_files_are_read_and_at_once(read, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, told in ((fifo, "no regular file"), ("/dev/zero", "no regular file"), (tmp_path, "a directory"), ("/nowhere/x", "no such")):
        with pytest.raises(SpecError, match=told):
            read(path)


def test_no_more_is_read_than_the_bound(tmp_path):
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(SpecError, match="larger than 4 MiB; a spec is a few kilobytes"):
        files.read_bytes(path)


def test_names_that_no_file_can_have_are_faults():
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(SpecError, match="can not be read"):
            files.read_text(name)


@POSIX
@pytest.mark.parametrize("end", [".json", ".yaml", ".gguf", ".safetensors", ".sh", ".log", ".csv", ""])
def test_no_command_waits_for_a_fifo_or_a_device_without_end(end, tmp_path, capsys):
    fifo, endless = tmp_path / f"fifo{end}", tmp_path / f"endless{end}"
    os.mkfifo(fifo)
    endless.symlink_to("/dev/zero")
    model = "meta-llama/llama-3.1-8b"
    for place in map(str, (fifo, endless)):
        for words in (
            ["estimate", place], ["import", place], ["check", place], ["check", "--diff", place, place], ["reconcile", place],
            ["calibrate", place], ["validate", "--check", place], ["simulate", model, "--device", "h100", "--trace", place],
            ["sweep", model, "--grid", "context=1:9", "--out", place, "--resume"], ["estimate", model, "--device", place],
            ["emit", place, "vllm"], ["roofline", place, "--device", "h100"],
        ):  # fmt: skip
            assert run(words) == 2, words
            assert "internal" not in capsys.readouterr().err, words


def test_a_home_of_nobody_is_no_such_file(capsys):
    assert run(["estimate", "~nobody-of-this-name/x.json"]) == 2
    assert "no such file" in capsys.readouterr().err


@POSIX
def test_places_that_can_not_be_looked_at_are_faults_of_the_question(tmp_path, capsys):
    """Too long for any file, or in a folder that one may not enter: pathlib's own questions raise there."""
    shut = tmp_path / "shut"
    shut.mkdir()
    names = ("config.json", "a.gguf", "a.safetensors", "model.safetensors.index.json")
    for name in names:
        (shut / name).write_text("{}")
    shut.chmod(0)
    with modes_hold():
        for place in (f"./{'x' * 5000}", f"./{'x' * 5000}.gguf", f"a/{'x' * 5000}", shut, *(shut / name for name in names)):
            for command in ("estimate", "import", "fit", "explain", "check", "reconcile", "calibrate"):
                assert run([command, str(place)]) == 2, (command, place)
                err = capsys.readouterr().err
                assert err.count("error: ") <= 1, err
                assert "internal" not in err
    shut.chmod(0o700)


@POSIX
def test_who_has_no_home_is_told_what_to_set(monkeypatch, capsys):
    """As in a container that runs as a number that its system does not know."""
    import pwd

    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_CONFIG_HOME", "KVPLAN_CALIBRATION"):
        monkeypatch.delenv(name, raising=False)
    question = ["estimate", "meta-llama/llama-3.1-8b", "--engine", "vllm", "--device", "h100", "--context", "8k"]
    assert run(question) in (0, 1)
    assert run(["doctor"]) == 0
    assert "KVPLAN_CALIBRATION" in capsys.readouterr().out
    assert run([*question, "--calibration", "user"]) == 2
    assert "no home directory to keep it in; name a file with KVPLAN_CALIBRATION" in capsys.readouterr().err


def test_a_device_whose_name_is_no_text_is_unknown(capsys):
    assert run(["estimate", "meta-llama/llama-3.1-8b", "--device", "h\udcff100"]) == 2
    assert "unknown device" in capsys.readouterr().err


@POSIX
def test_a_folder_of_settings_that_one_may_not_enter_holds_no_calibration(tmp_path, monkeypatch):
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(tmp_path / "shut" / "calibration.yaml"))
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut").chmod(0)
    with modes_hold():
        assert catalogue.constants("vllm", "user") is not None
    (tmp_path / "shut").chmod(0o700)


def test_a_broken_archive_is_a_fault_or_gives_what_it_holds(tmp_path):
    path = tmp_path / "a.gz"
    whole = gzip.compress(bytes(range(256)) * 2000, compresslevel=0)
    for data in (whole[:-200_000], whole[:-4], b"\x1f\x8b" + b"x" * 50, whole[:60_000] + b"y" * 1000 + whole[61_000:]):
        path.write_bytes(data)
        with pytest.raises(SpecError, match="gzip file that is broken or cut off"):
            list(files.chunks(path))
        assert (bytes(range(256)) * 2000).startswith(b"".join(files.chunks(path, whole=False))[:50_000])
    path.write_bytes(whole)
    assert b"".join(files.chunks(path)) == bytes(range(256)) * 2000


def test_lines_are_bounded_and_keep_their_ends():
    assert list(files.lines(["a\nb", "c\r\n", "", "d"], "x")) == ["a\n", "bc\r\n", "d"]
    endless = ("x" * 1000 for _ in range(1 << 40))
    with pytest.raises(SpecError, match="line 1: longer than 5,000"):
        list(files.lines(endless, "x", 5000))


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    files.write_text(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpecError, match=r"kept\.json: can not be written: No space left"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_places_that_take_no_file_are_faults(tmp_path):
    (tmp_path / "file").write_text("")
    for path, told in (
        (tmp_path, "a directory; name a file"),
        (tmp_path / "file" / "below", "Not a directory|can not be written"),
        (Path("/dev/null"), "no regular file"),
        (Path("/proc/none/x"), "can not be written"),
    ):
        with pytest.raises(SpecError, match=told):
            files.write_text(path, "x")


def test_a_link_is_written_through_and_modes_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    os.chmod(real, 0o600)
    link.symlink_to(real)
    files.write_text(link, "new")
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "new", 0o600)


ADD = """
import sys
from pathlib import Path
from kvplan import files
path = Path(sys.argv[1])
for n in range(int(sys.argv[2])):
    files.update(path, lambda: (path.read_text() if path.exists() else "") + f"{sys.argv[3]} {n}\\n")
"""


def _adder(path, times, name):
    return subprocess.Popen([sys.executable, "-c", ADD, str(path), str(times), name])


def test_what_several_processes_add_is_all_kept(tmp_path):
    path = tmp_path / "sums"
    for adder in [_adder(path, 20, name) for name in "abcd"]:
        assert adder.wait(60) == 0
    assert sorted(path.read_text().splitlines()) == sorted(f"{name} {n}" for name in "abcd" for n in range(20))
    assert os.listdir(tmp_path) == ["sums"]


@POSIX
def test_killed_writers_leave_whole_files_and_the_next_one_cleans_up(tmp_path):
    path = tmp_path / "sums"
    for delay in range(5):
        adder = _adder(path, 100_000, "k")
        time.sleep(0.25 + delay / 50)
        adder.send_signal(signal.SIGKILL)
        adder.wait()
    assert all(line.startswith("k ") for line in path.read_text().splitlines())
    (tmp_path / ".sums.a1b2.partial").write_text("cut o")  # as a kill between the two steps leaves it
    files.update(path, lambda: "end")
    assert os.listdir(tmp_path) == ["sums"]


def test_a_lock_that_is_held_is_said(tmp_path):
    path = tmp_path / "held"
    with files.locked(path), pytest.raises(SpecError, match="another kvplan is writing it"), files.locked(path, seconds=0):
        pass
    with files.locked(path, seconds=0):
        pass
