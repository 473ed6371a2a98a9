"""`check --env` reads the environment and never prints what is in it."""

from __future__ import annotations

import json
from itertools import product

import pytest

from kvplan import api
from kvplan.api import check
from kvplan.cli import run
from kvplan.cli.manifests import CHECK_FORMATS
from kvplan.manifests.private import Private
from tests.conftest import planned

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
LONG = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = [TOKEN, LONG, 'it\'s "a" pass word\\n', "s3cr3t!", "Pässwörter-überall"]
PLACES = {
    "model": "vllm serve {}",
    "option's value": "vllm serve Qwen/Qwen3-8B --max-model-len {}",
    "option's name": "vllm serve Qwen/Qwen3-8B --{}",
    "attached": "vllm serve Qwen/Qwen3-8B --kv-cache-dtype={}",
    "extra word": "vllm serve Qwen/Qwen3-8B {}",
    "json": "vllm serve Qwen/Qwen3-8B --speculative-config '{{\"method\": \"'{}'\"}}'",
    "dotted": "vllm serve Qwen/Qwen3-8B --compilation-config.mode {}",
    "wrapped": "bash -c 'vllm serve '{}",
    "config": "vllm serve Qwen/Qwen3-8B --config {}.yaml",
    "engine": "docker run vllm/vllm-openai:{} --model Qwen/Qwen3-8B",
    "comment": "# kvplan: device={}\nvllm serve Qwen/Qwen3-8B --dtype {}",
    "gpus": "docker run --gpus {} vllm/vllm-openai:v0.19.0 --model {}",
    "ollama": "OLLAMA_CONTEXT_LENGTH={} ollama run {}",
    "sglang": "python3 -m sglang.launch_server --model-path {} --page-size {}",
}


def once(work):
    """What it answers the first time, every time."""
    kept = []

    def answer(*asked, **given):
        if not kept:
            kept.append(work(*asked, **given))
        return kept[0]

    return answer


@pytest.mark.parametrize("secret", SECRETS)
def test_no_format_prints_a_value_of_the_environment(secret, tmp_path, capsys, monkeypatch):
    """Each file is checked once, and what was found is printed in every format."""
    monkeypatch.setenv("HF_TOKEN", secret)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("kvplan.api.manifests.estimate", planned)
    for n, (text, quote) in enumerate(product(PLACES.values(), ("$HF_TOKEN", '"${HF_TOKEN}"'))):
        if (n + SECRETS.index(secret)) % 2:  # each place quoted and not, by one secret or the next
            continue
        path = tmp_path / f"{n}.sh"
        path.write_text(text.replace("{}", quote).replace("{{", "{").replace("}}", "}") + "\n")
        monkeypatch.setattr(api, "check", once(check), raising=False)
        for fmt in CHECK_FORMATS:
            run(["check", "--env", "--device", "h100", "--format", fmt, str(path)])
            out = "".join(capsys.readouterr())
            assert out
            pieces = [secret, secret[:12], *(part for part in secret.split() if len(part) > 7)]
            shown = [piece for piece in pieces if len(piece) > 6 and (piece in out or json.dumps(piece)[1:-1] in out)]
            assert not shown, (text, fmt, out)


def test_the_diff_of_two_files_prints_none_either(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, option in (("old", "auto"), ("new", "$HF_TOKEN")):
        (tmp_path / f"{name}.sh").write_text(f"vllm serve $HF_TOKEN --kv-cache-dtype {option}\n")
    for fmt in ("table", "json"):
        run(["check", "--env", "--diff", "--format", fmt, str(tmp_path / "old.sh"), str(tmp_path / "new.sh")])
        out = "".join(capsys.readouterr())
        assert "$HF_TOKEN" in out
        assert "hf_AbC" not in out


def test_numbers_models_and_devices_are_read_and_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("LENGTH", "32768")
    monkeypatch.setenv("MODEL", "Qwen/Qwen3-8B")
    (tmp_path / "s.sh").write_text("vllm serve $MODEL --max-model-len $LENGTH\n")
    assert run(["check", "--env", "--device", "h100", "--format", "json", str(tmp_path / "s.sh")]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)
    assert (verdict["model"], verdict["question"]["max_model_len"]) == ("Qwen/Qwen3-8B", 32768)


def test_what_the_file_says_itself_stays():
    private = Private({"secret-value-of-mine": "X"}, "vllm serve my-value-of")
    assert private.out_of("my-value-of and secret-value-of") == "my-value-of and $X"
    assert private.out_of({"a": ["SECRET-VALUE-OF-MINE!", 3, None]}) == {"a": ["$X", 3, None]}
