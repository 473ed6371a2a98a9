"""`kvplan simulate` and `kvplan.simulate`: one answer said twice, every option, one error for bad input."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from functools import partial

import pytest
from jsonschema import Draft202012Validator

import kvplan

MODEL = "meta-llama/llama-3.1-8b"
SMALL = ["--engine", "vllm", "--kv-memory", "2GiB", "--max-model-len", "4k", "--requests", "40", "--rate", "4"]
QUESTION = {"engine": "vllm", "kv_memory": "2GiB", "max_model_len": "4k", "requests": 40, "rate": 4.0}


@pytest.fixture
def ask(command):
    return partial(command, "simulate", MODEL)


def test_json_is_the_librarys_answer_and_obeys_the_schema(ask):
    code, out, err = ask(*SMALL, "--policy", "paged,contiguous-max", "--size-for", "p99", "--format", "json")
    found = kvplan.simulate(MODEL, policy=["paged", "contiguous-max"], size_for="p99", **QUESTION)
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(found.as_dict()))
    Draft202012Validator(kvplan.schema("simulation")).validate(json.loads(out))


def test_the_table_has_a_column_for_each_policy(ask):
    code, out, _ = ask(*SMALL, "--policy", "contiguous-max,contiguous-pow2,contiguous-oracle,paged")
    assert code == 0
    assert "1,023 pages of 16 tokens, 2.000 MiB a page" in " ".join(out.split())  # 2 GiB of 2 MiB blocks, one of them the null block
    header = next(line for line in out.splitlines() if "contiguous-max" in line)
    assert header.split() == ["contiguous-max", "contiguous-pow2", "contiguous-oracle", "paged"]
    assert "note: every step takes 30 ms" in out


def test_rows_have_every_figure(ask):
    _, out, _ = ask(*SMALL, "--policy", "paged,contiguous-oracle", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["policy"] for row in rows] == ["paged", "contiguous-oracle"]
    assert {row["requests"] for row in rows} == {"40"}
    assert {"pages_used_p99", "running_mean", "hit_rate", "stored", "seed"} <= rows[0].keys()


def test_several_values_of_an_option(ask):
    options = [*SMALL[:2], *SMALL[4:], "--kv-memory", "1GiB,2GiB"]
    _, out, _ = ask(*options, "--format", "json")
    assert [one["policies"][0]["pages"] for one in json.loads(out)] == [511, 1023]
    _, out, _ = ask(*options, "--format", "csv")
    assert [row["kv_memory"] for row in csv.DictReader(io.StringIO(out))] == [str(1 << 30), str(2 << 30)]
    assert ask(*options, "--plot", "p.png")[0] == 2


def test_promised_and_real_concurrency():
    """Requests of 500 tokens where requests of 4,096 are promised: 1,023 blocks hold 1,023 // 32 = 31 of them, and 3.99 long ones."""
    asked = QUESTION | {"requests": 200, "rate": None, "prompt_lengths": 500, "output_lengths": 1, "max_num_batched_tokens": 40_960}
    found = kvplan.simulate(MODEL, **asked).policies[0]
    assert found.promised == 4.0
    assert found.running.most == 31


def test_a_device_gives_the_step_time(ask):
    options = ["--device", "h100", "--max-model-len", "4k", "--requests", "30", "--rate", "4", "--format", "json"]
    bound = json.loads(ask(*options)[1])
    slower = json.loads(ask(*options, "--step-overhead", "0.02")[1])
    # 8.03 - 0.525 (the embedding, of which only rows are read) billion weights of 2 bytes over 3.35 TB/s
    assert bound["step_time"]["per_step"] == pytest.approx(2 * 7.505e9 / 3.35e12, rel=0.01)
    assert slower["step_time"]["overhead"] == 0.02
    assert slower["policies"][0]["latency"]["mean"] > 3 * bound["policies"][0]["latency"]["mean"]


def test_measured_steps(tmp_path, ask):
    table = tmp_path / "steps.csv"
    table.write_text("sequences,seconds\n1,0.02\n101,0.03\n")
    found = json.loads(ask(*SMALL, "--step-time", str(table), "--format", "json")[1])
    assert found["step_time"]["overhead"] + found["step_time"]["per_sequence"] == pytest.approx(0.02)
    assert not found["notes"]


def test_size_for_names_pool_and_devices():
    """64 requests at once, two prompts a step: in step 199 the first hold 1000 + 199 tokens, the last 1000 + 168: 74 blocks of 2 MiB on
    average, 9.3 GiB in all, which a card of 24 GiB does not have beside 15 GiB of weights."""
    asked = {"prompt_lengths": 1000, "output_lengths": 200, "requests": 64, "max_num_seqs": 64, "max_model_len": 2048, "engine": "vllm"}
    found = kvplan.simulate(MODEL, device="rtx-4090", size_for="p99", **asked)
    assert found.size.pages == pytest.approx(64 * 74, rel=0.02)
    assert found.size.kv_bytes == found.size.pages * (2 << 20)
    assert (found.size.n_devices, found.size.tp) == (2, 2)
    assert found.policies[0].hindered > 0.64
    assert found.size.result.hindered <= 0.64


def test_replicas_take_turns():
    whole = kvplan.simulate(MODEL, **QUESTION).policies[0]
    half = kvplan.simulate(MODEL, dp=2, **QUESTION)
    assert (whole.requests, half.policies[0].requests) == (40, 20)
    assert "one of 2 replicas" in " ".join(half.notes)


def test_samples_prefixes_turns_and_beams_share():
    def hits(**more):
        return kvplan.simulate(MODEL, **QUESTION, **more).policies[0]

    assert hits().hit_tokens == 0
    assert hits(prefixes=2, prefix_tokens=256).hit_rate > 0.3
    assert hits(branch=2, depth=3, prefix_tokens=64).hit_rate > 0.3
    assert hits(turns=4).hit_tokens > 0
    assert hits(samples=4).saved > 0.1
    assert hits(beams=4).saved > 0.3
    assert hits(prefixes=2, prefix_tokens=256, share_prefixes=False).hit_tokens == 0
    off = {"engine_option": {"enable_prefix_caching": False}}
    assert hits(prefixes=2, prefix_tokens=256, **off).hit_tokens == 0


def test_a_trace_is_run_at_its_times_or_at_a_rate(tmp_path, ask):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,prompt,output\n" + "".join(f"{n * 100},64,2\n" for n in range(20)))
    own = [*SMALL[:6], "--trace", str(trace), "--format", "json"]
    found = json.loads(ask(*own)[1])
    assert found["workload"]["name"] == "lengths"
    assert found["policies"][0]["running"]["most"] == 1
    assert found["policies"][0]["seconds"] > 1900
    again = json.loads(ask(*own, "--rate", "1000", "--requests", "10")[1])
    assert again["policies"][0]["requests"] == 10
    assert again["policies"][0]["running"]["most"] > 1


def test_a_pool_that_does_not_start_is_an_answer(ask):
    code, out, err = ask("--device", "rtx-4090", "--max-model-len", "128k", "--requests", "5")
    assert (code, err) == (1, "")
    assert "would not start" in out


@pytest.mark.parametrize(
    "extra",
    [
        ["--rate", "0"], ["--rate", "nan"], ["--burstiness", "-1"], ["--requests", "0"], ["--policy", "pagde"], ["--workload", "sharegtp"],
        ["--size-for", "p0"], ["--size-for", "most"], ["--prefixes", "2"], ["--prefix-tokens", "9"], ["--samples", "2", "--beams", "2"],
        ["--trace", "nowhere.csv"], ["--trace-format", "azure"], ["--prompt-lengths", "lognormal:x"], ["--output-lengths", "0"],
        ["--step-time", "nowhere.csv"], ["--step-overhead", "-1"], ["--beams", "4", "--policy", "contiguous-max"],
        ["--plot", "picture.txt"], ["--plot", "no/such/folder/p.png"], ["--turns", "3", "--beams", "2"],
        ["--beams", "4", "--share-prefixes"], ["--swap-seconds", "-1"], ["--warm", "-1"],
    ],
)  # fmt: skip
def test_bad_input_is_one_error(extra, refused):
    assert "Traceback" not in refused("simulate", MODEL, *SMALL, *extra)


def test_no_pool_is_an_error(refused):
    assert "device or kv_memory" in refused("simulate", MODEL, "--requests", "5")


def test_a_picture(tmp_path, ask):
    pytest.importorskip("matplotlib")
    path = tmp_path / "p.svg"
    code, _, _ = ask(*SMALL, "--prefixes", "2", "--prefix-tokens", "64", "--policy", "paged,contiguous-max", "--plot", str(path))
    text = path.read_text()
    assert code == 0
    assert text.startswith("<?xml")
    assert len(text) > 20_000


def test_a_picture_without_matplotlib_is_a_clear_error():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from kvplan.cli import run\n"
        f"sys.exit(run(['simulate', {MODEL!r}, '--kv-memory', '1GiB', '--plot', 'p.png']))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "a picture needs matplotlib" in found.stderr
    assert "[plot]" in found.stderr


def test_progress_is_for_terminals(monkeypatch, capsys):
    from kvplan.cli import simulate as command

    clock = iter(range(10_000))
    monkeypatch.setattr(command.time, "monotonic", lambda: float(next(clock)))
    assert list(command._watch(range(1000), 1000)) == list(range(1000))
    err = capsys.readouterr().err
    # a second passes at each look
    assert "256 requests of 1,000, 3 s left, 256 a second" in err
    assert err.endswith("\r\x1b[K")


def test_the_package_keeps_the_name_of_the_function():
    code = "import kvplan; from kvplan.simulate import slots; kvplan.estimate; assert callable(kvplan.simulate), kvplan.simulate"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_asking_for_help_loads_no_numpy():
    code = "import sys; from kvplan.cli import run; run(['simulate', '--help']); assert 'numpy' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--size-for" in found.stdout


@pytest.mark.parametrize("option", ["--users", "--users 2 --turns", "--turns", "--requests", "--users 2 --tool-calls", "--depth"])
def test_counts_that_nothing_could_hold_are_refused(refused, option):
    question = ["--engine", "vllm", "--device", "h100", "--prompt-lengths", "9", "--output-lengths", "9"]
    assert "and at most" in refused("simulate", MODEL, *question, *option.split(), "999999999999")
