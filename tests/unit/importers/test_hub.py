"""The Hub importer against a server on this machine that speaks the Hub's endpoints: config, index, ranges, refusals, the cache."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvplan.errors import FormatError, KvplanError, SpecError
from kvplan.importers import hub
from kvplan.importers.hf_config import load_config
from tests.fake_hub import COMMIT, Hub, serving
from tools.header_files import layout, safetensors

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")

TOKEN = "hf_thisTokenMustNeverBeShown"
SHARDS = {
    "model-00001-of-00002.safetensors": layout([("model.layers.0.self_attn.q_proj.weight", "BF16", [4, 4], 32)]),
    "model-00002-of-00002.safetensors": layout([("model.embed_tokens.weight", "F32", [2, 2], 16)]),
}
INDEX = {"metadata": {"total_size": 48}, "weight_map": {name: file for file, t in SHARDS.items() for name in t}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Two repositories, and a token in the environment."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    made = Hub()
    made.files["org/sharded"] = {
        "config.json": b'{"model_type": "llama"}',
        "model.safetensors.index.json": json.dumps(INDEX).encode(),
        **{name: safetensors(header) for name, header in SHARDS.items()},
    }
    made.files["org/single"] = {"config.json": b"{}", "model.safetensors": safetensors(SHARDS["model-00001-of-00002.safetensors"])}
    with serving(made.answer) as made.endpoint:
        yield made


@pytest.fixture
def get(server: Hub, tmp_path: Path):  # type: ignore[no-untyped-def]
    def fetch(model: str, revision: str | None = None, **options: object) -> hub.LocalFiles:
        folders = {"endpoint": server.endpoint, "cache_dir": tmp_path / "cache", "assets_dir": tmp_path / "assets"}
        return hub.fetch(model, revision, **{**folders, **options})  # type: ignore[arg-type]

    return fetch


def test_sharded_model(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    files = get("org/sharded")
    assert files.revision == COMMIT
    assert json.loads(files.config.read_text()) == {"model_type": "llama"}
    stored = files.stored()
    assert stored is not None
    assert stored.total_bytes == 32 + 16  # 4 x 4 bf16, 2 x 2 f32
    assert stored.parameters == 16 + 4


def test_single_file_and_only_its_header_is_read(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    rows = 1 << 20  # 8 MiB of weights behind a small header
    server.files["org/single"]["model.safetensors"] = safetensors(layout([("lm_head.weight", "BF16", [rows, 4], rows * 8)]))
    server.sent_bytes = 0
    files = get("org/single")
    assert files.stored().total_bytes == rows * 8
    assert server.sent_bytes < 1 << 18
    assert [r for _, path, r in server.requests if path.endswith(".safetensors")] == [f"bytes=0-{hub.FIRST_BYTES - 1}"]


def test_header_longer_than_the_first_request(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    header = layout([(f"model.layers.{i}.mlp.up_proj.weight.{'x' * 900}", "U8", [1], 1) for i in range(200)])
    server.files["org/single"]["model.safetensors"] = safetensors(header)
    assert len(json.dumps(header)) > hub.FIRST_BYTES
    assert get("org/single").stored().total_bytes == 200


def test_second_time_and_offline_ask_nothing(server: Hub, get, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    for model in ("org/sharded", "org/single"):
        first = get(model)
        server.requests.clear()
        assert get(model).stored() == first.stored()
        assert get(model, offline=True).stored() == first.stored()
        assert get(model, COMMIT, offline=True).stored() == first.stored()
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert get(model).stored() == first.stored()
        monkeypatch.delenv("HF_HUB_OFFLINE")
        assert server.requests == []


def test_offline_without_a_cache(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(hub.HubError, match="not in the local cache, and offline mode is on"):
        get("org/sharded", offline=True)
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (401, "GatedRepo", r"is gated: accept its licence at http.*/org/refused, then log in with `hf auth login` or set HF_TOKEN"),
        (403, "GatedRepo", r"is gated: accept its licence"),
        (401, "RepoNotFound", r"no such model on the Hub, or it is private"),
        (404, "RepoNotFound", r"no such model on the Hub, or it is private"),
        (403, "", r"refused access \(403\)"),
        (500, "", r"the Hub answered 500"),
    ],
)
def test_refusals(
    server: Hub, get, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int, code: str, says: str
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library waits between its tries
    server.refuse["org/refused"] = (status, code)
    with pytest.raises(hub.HubError, match=says) as caught:
        get("org/refused")
    shown = capfd.readouterr()
    assert TOKEN not in str(caught.value) + shown.out + shown.err
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_gated_weights_behind_an_open_config(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    files = get("org/sharded", weights=False)
    assert files.stored() is None
    server.refuse["org/sharded"] = (403, "GatedRepo")
    with pytest.raises(hub.HubError, match="is gated"):
        get("org/sharded")


def test_quantisation_that_modelopt_wrote_beside_the_config(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    server.files["org/fp8"] = {
        "config.json": b'{"model_type": "llama"}',
        "hf_quant_config.json": b'{"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}',
        "model.safetensors": safetensors(layout([("model.layers.0.mlp.up_proj.weight", "F8_E4M3", [4, 4], 16)])),
    }
    config = load_config(get("org/fp8").config)
    assert config["quantization_config"] == {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    get("org/single")
    assert not any("hf_quant_config" in path for _, path, _ in server.requests if "org/single" in path)  # nothing is packed there


def test_missing_pieces(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(hub.HubError, match="no revision 'v9'"):
        get("org/sharded", "v9")
    del server.files["org/sharded"]["model-00002-of-00002.safetensors"]
    with pytest.raises(hub.HubError, match="1 of 2 files"):
        get("org/sharded")
    server.files["org/bin"] = {"config.json": b"{}", "pytorch_model.bin": b"x"}
    assert get("org/bin").stored() is None
    server.files["org/gguf"] = {"x.gguf": b"GGUF"}
    with pytest.raises(hub.HubError, match=r"no config\.json"):
        get("org/gguf")


def test_hostile_answers(server: Hub, get) -> None:  # type: ignore[no-untyped-def]
    server.files["org/single"]["model.safetensors"] = b"\xff" * 8 + b"{}"
    with pytest.raises(FormatError, match="header length"):
        get("org/single")
    server.files["org/sharded"]["model.safetensors.index.json"] = b'{"weight_map": {"a": "../../../etc/passwd"}}'
    with pytest.raises(SpecError, match="not a plain file name"):
        get("org/sharded")
    server.ranges = False
    header = layout([(f"{i}{'x' * 1000}", "U8", [1], 1) for i in range(200)])
    server.files["org/whole"] = {"config.json": b"{}", "model.safetensors": safetensors(header)}
    with pytest.raises(hub.HubError, match="does not send parts"):
        get("org/whole")


@pytest.mark.parametrize("name", ["", "../etc", "a/b/c", "org/..", "org/na me", "https://x/y", "org/\0"])
def test_names_that_are_no_ids(get, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SpecError, match="not a Hub id"):
        get(name)


def test_unreachable_is_said_at_the_first_try(get, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)  # huggingface_hub alone waits 1 + 2 + 4 + 8 + 8 seconds
    connections: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(listener.accept()[0].close())

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(hub.HubError, match=r"can not be reached at http://127\.0\.0\.1:\d+/org/sharded"):
            get("org/sharded", endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
    assert waits == []
    assert len(connections) == 1
    assert capfd.readouterr().err == ""


def test_a_busy_hub_is_asked_again(server: Hub, get, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def served(seconds: float) -> None:
        server.refuse.clear()  # free again after the first wait

    monkeypatch.setattr("time.sleep", served)
    server.refuse["org/sharded"] = (503, "")
    assert get("org/sharded").stored().total_bytes == 48


def test_slow_shards_are_shown_on_stderr(server: Hub, get, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    get("org/sharded")
    assert capsys.readouterr().err == ""
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(hub.time, "monotonic", lambda: next(clock))
    get("org/sharded")
    assert "headers of 1 of 2 files" in capsys.readouterr().err


def test_missing_library_is_one_clear_error() -> None:
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from kvplan.importers import hub\n"
        "try: hub.fetch('org/name')\n"
        "except hub.KvplanError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[hub]'" in done.stdout
    assert issubclass(hub.HubError, KvplanError)


def test_a_cache_that_can_not_be_written_is_no_fault(server: Hub, get, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert json.loads(get("org/sharded", weights=False).config.read_text()) == {"model_type": "llama"}
