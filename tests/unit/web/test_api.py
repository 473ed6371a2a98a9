"""`kvplan serve`: the API's answers are the library's, its errors are one line, what a client may make it do is bounded."""

from __future__ import annotations

import asyncio
import json
import re
from importlib.util import find_spec

import pytest

import kvplan

pytest.importorskip("starlette", reason="the `web` extra is not installed")
if not (find_spec("httpx2") or find_spec("httpx")):
    pytest.skip("starlette's test client needs httpx2, older ones httpx", allow_module_level=True)
jsonschema = pytest.importorskip("jsonschema")

from starlette.testclient import TestClient  # noqa: E402

from kvplan.web import answers, bounds  # noqa: E402
from kvplan.web.app import HEADERS, Kept, application  # noqa: E402
from kvplan.web.bounds import Settings  # noqa: E402
from kvplan.web.running import is_loopback  # noqa: E402

MODEL = "meta-llama/llama-3.1-8b"
QUESTION = {"engine": "vllm", "device": "h100", "context": "8k", "batch": 16}
HOSTILE = "</p><script>alert(1)</script><img src=//x.example onerror=alert(2)>\u202e\"'&"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 4096,
}  # fmt: skip


@pytest.fixture(scope="module")
def client():
    return TestClient(application())


def plain(value):
    """As JSON carries it."""
    return json.loads(json.dumps(value))


def error(response, status=400) -> str:
    """The one line of a refusal."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.json().keys() == {"error"}
    assert "Traceback" not in response.text
    return response.json()["error"]


@pytest.mark.parametrize("more", [{}, {"batch": 500}, {"engine": "llama.cpp", "device": "rtx-4090", "batch": 1}, {"tp": 3}])
def test_estimate_is_the_librarys(client, more):
    answer = client.post("/api/estimate", json={"model": MODEL, **QUESTION, **more}).json()
    assert answer == plain(kvplan.estimate(MODEL, **QUESTION | more).as_dict())
    jsonschema.validate(answer, kvplan.schema("plan"))


def test_a_dropped_config_is_the_file_s(client, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    answer = client.post("/api/estimate", json={"config": CONFIG, "context": 100, "engine": "ideal"}).json()
    # 2 (K and V) x 2 layers x 2 KV heads x (64 / 4) x 2 B
    assert answer["cache"]["bytes_per_token"] == 256
    assert answer["cache"] == plain(kvplan.estimate(str(path), context=100, engine="ideal").as_dict()["cache"])


def test_fit_is_the_librarys(client):
    question = {"engine": "ideal", "context": "8k", "batch": 16}
    answer = client.post("/api/fit", json={"model": MODEL, "devices": ["h100", "l4"], "prices": {"l4": 0.5, "h100": 3}, **question}).json()
    assert answer == plain(
        [row.as_dict() for row in kvplan.fit(MODEL, devices=["h100", "l4"], prices={"l4": 0.5, "h100": 3.0}, **question)]
    )
    jsonschema.validate(answer, kvplan.schema("fit"))


def test_check_is_the_librarys(client):
    from kvplan.manifests import Source

    text = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --speculative-config '{'"
    answer = client.post("/api/check", json={"files": [{"name": "a.sh", "text": text}, {"name": "b", "text": ""}], "device": "h100"}).json()
    expected = kvplan.check([Source("a.sh", text), Source("b", "")], device="h100")
    assert answer == plain([verdict.as_dict() for verdict in expected])
    jsonschema.validate(answer, kvplan.schema("check"))


def test_emit_and_the_lists_are_the_librarys(client):
    answer = client.post("/api/emit", json={"model": MODEL, **QUESTION, "target": "vllm"}).json()
    assert answer == {"text": kvplan.emit(MODEL, "vllm", **QUESTION), "warnings": [], "fits": True}
    assert client.get("/api/engines").json() == plain(kvplan.engines())
    assert client.get("/api/devices", params={"text": "rtx-40"}).json() == plain(
        [d.as_dict() for d in kvplan.devices() if "rtx-40" in d.id or "rtx-40" in d.name.lower()]
    )
    found = [row["id"] for row in client.get("/api/models", params={"text": "Llama-3.1-8B"}).json()]
    assert found[0].rpartition("/")[2].startswith("llama-3.1-8b")
    assert "meta-llama/Llama-3.1-8B-Instruct" in found


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/api/estimate", {}, "write a model id"),
        ("/api/estimate", {"model": "meta-lama/llama-3.1-8b"}, "did you mean meta-llama/llama-3.1-8b"),
        ("/api/estimate", {"model": MODEL, "contxt": 1}, "did you mean context"),
        ("/api/estimate", {"model": MODEL, "context": [1, 2]}, "is not a size"),
        ("/api/estimate", {"model": MODEL, "advise": 1}, "advise: write true or false"),
        ("/api/estimate", {"model": MODEL, "config": CONFIG}, "leave model out, or config"),
        ("/api/estimate", {"config": []}, "a config is a JSON object"),
        ("/api/estimate", {"config": {}}, "does not say which model class"),
        ("/api/estimate", {"model": MODEL, "dp": "1,048,576"}, "more than the 4,096"),
        ("/api/estimate", {"model": MODEL, "tp": 64, "pp": 64, "dp": 64}, "more than the 4,096"),
        ("/api/estimate", {"model": MODEL, "kv_dtype": "x" * 501}, "longer than 500 characters"),
        ("/api/estimate", {"model": MODEL, "engine_option": {str(i): i for i in range(500)}}, "more than 256 entries"),
        ("/api/estimate", {"model": MODEL, "engine_option": {"a": [1]}}, "a value, or a list or an object of values"),
        ("/api/check", {"files": [{"name": "a", "text": "x"}], "engine_option": {"a": None}}, "a value, or a list"),
        ("/api/fit", {"model": MODEL, "most": 10**9}, "from 1 to 64"),
        ("/api/fit", {"model": MODEL, "device": "h100"}, "name candidates with devices"),
        ("/api/check", {"files": "a"}, "objects of name and text"),
        ("/api/check", {"files": [{"name": "x" * 501, "text": ""}]}, "objects of name and text"),
        ("/api/check", {"files": [{"name": "a", "text": "x"}], "modell": "y"}, "unknown question 'modell'"),
        ("/api/emit", {"model": MODEL, "engine": "ideal"}, "target: write"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_clear_line(client, path, body, says):
    assert says in error(client.post(path, json=body))


def test_what_is_no_json_object_is_said(client):
    json_type = {"content-type": "application/json"}
    for data, says in ((b"{", "not JSON"), (b"[1]", "JSON object"), (b'{"model": 1, "model": 2}', "there twice"), (b"\xff", "UTF-8"),
                       (b'{"a":' * 5000, "JSON"), (b'{"model": NaN}', "NaN")):  # fmt: skip
        assert says in error(client.post("/api/estimate", content=data, headers=json_type))
    assert error(client.post("/api/estimate", content=b"{}"), 415)  # a page of another site may send text without asking
    assert "1 MiB" in error(client.post("/api/estimate", content=b" " * (bounds.MAX_BODY + 1), headers=json_type), 413)
    assert "/openapi.json" in error(client.get("/nothing"), 404)
    assert error(client.get("/api/estimate"), 405)
    assert "takes text" in error(client.get("/api/models", params={"q": "x"}))
    assert error(client.get("/static/../bounds.py"), 404)


@pytest.mark.parametrize("path", ["./model.yaml", "/etc/hostname", "~/x.gguf", "../config.json", "weights.safetensors"])
def test_no_path_of_a_client_is_opened(client, path, monkeypatch):
    from kvplan import files

    def opened(*_):
        raise AssertionError("opened")

    monkeypatch.setattr(files, "opened", opened)
    monkeypatch.setattr("kvplan.importers.read", opened)
    assert "--allow-files" in error(client.post("/api/estimate", json={"model": path}))
    client.post("/api/estimate", json={"model": MODEL, "engine": "vllm", "speculative": f"eagle3:3:{path}"})
    answer = client.post("/api/check", json={"files": [{"name": "a.sh", "text": f"vllm serve {path}"}], "models": [path], "device": "h100"})
    assert answer.json()[0]["status"] in ("unknown", "refuses")


def test_this_machine_is_read_where_its_owner_allows(client, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    open_ = TestClient(application(Settings(files=True)))
    assert open_.post("/api/estimate", json={"model": str(path), "context": 1}).status_code == 200
    assert "--allow-files" in error(client.post("/api/estimate", json={"model": str(path)}))
    assert "--allow-files" in error(client.post("/api/estimate", json={"model": MODEL, "device": "auto"}))
    assert "--allow-files" in error(client.post("/api/estimate", json={"model": MODEL, "device": "h100", "calibration": "user"}))


def test_the_hub_is_asked_only_where_its_owner_allows(client, monkeypatch):
    def asked(*_):
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr("kvplan.importers.from_hub", asked)
    assert "--hub" in error(client.post("/api/estimate", json={"model": "nobody/never-heard-of"}))
    with pytest.raises(AssertionError, match="the Hub was asked"):
        TestClient(application(Settings(hub=True))).post("/api/estimate", json={"model": "nobody/never-heard-of"})


def test_a_search_ends_in_time(client, monkeypatch):
    monkeypatch.setattr(answers, "MAX_SECONDS", -1.0)
    assert "name fewer devices" in error(client.post("/api/fit", json={"model": MODEL, "batch": 3}), 422)
    serve = {"name": "a.sh", "text": "vllm serve meta-llama/Llama-3.1-8B"}
    assert "fewer files" in error(client.post("/api/check", json={"files": [serve], "device": "h100"}), 422)


def test_requests_beyond_what_waits_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr("kvplan.web.app.MAX_WAITING", 0)
    response = TestClient(application()).post("/api/estimate", json={"model": MODEL, "context": 8})
    assert error(response, 429)
    assert response.headers["retry-after"] == "1"


def test_a_fault_of_ours_is_told_without_its_traceback(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a secret of the process")

    monkeypatch.setattr("kvplan.api.estimate", broken, raising=False)
    response = TestClient(application(), raise_server_exceptions=False).post("/api/estimate", json={"model": MODEL})
    assert "internal error: RuntimeError" in error(response, 500)
    assert "secret" not in response.text


def test_who_hangs_up_leaves_no_traceback():
    """What the application raises, a server writes to its log with where it was raised."""
    arriving = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(arriving)

    async def send(message):
        """Nobody is there."""

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/estimate",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    asyncio.run(application()(scope, receive, send))


@pytest.mark.parametrize("path", ["/", "/static/page.js", "/openapi.json", "/api/models", "/nothing"])
def test_every_answer_asks_for_nothing_elsewhere(client, path):
    response = client.get(path)
    for name, value in HEADERS.items():
        assert response.headers[name] == value
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not re.search(r"unsafe|https?:|\*|data:", policy)


def test_the_page_has_no_script_of_its_own_and_no_address_of_others(client):
    page = client.get("/").text
    assert not re.search(r"<script(?! src=\"static/)|<style|\son\w+=|style=|https?://", page)
    for name in re.findall(r'(?:src|href)="(static/[^"]+)"', page):
        assert client.get(f"/{name}").status_code == 200
    assert not re.search(r"https?://", client.get("/static/page.js").text)


def test_only_its_own_names_are_answered():
    loopback = TestClient(application(Settings(hosts=("localhost", "[::1]"))), base_url="http://localhost:8642")
    assert loopback.get("/").status_code == 200
    assert loopback.get("/", headers={"host": "[::1]:8642"}).status_code == 200
    assert "not called that" in error(loopback.get("/", headers={"host": "evil.example"}), 421)
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.0.3")] == [True, True, True, False, False]


def test_names_of_strangers_are_text(client):
    named = {"config": CONFIG | {"_name_or_path": HOSTILE}, "device": "h100", "context": 100}
    for body in (named, {"model": MODEL, **QUESTION, "calibration": HOSTILE},
                 {"model": MODEL, **QUESTION, "speculative": f"ngram:3:{HOSTILE}"}, {"model": HOSTILE}):  # fmt: skip
        answer = client.post("/page/answer", json=body).json()
        assert not re.search(r"<script|<img", answer.get("html", ""))
        assert "\u202e" not in "".join(map(str, answer.values()))
    assert "onerror=alert(2)&gt;" in client.post("/page/answer", json=named).json()["html"]


def test_the_page_s_answer_is_the_report_s(client):
    from kvplan.report import answer as report

    body = {"model": "meta-llama/llama-3.1-70b", **QUESTION}
    plan = kvplan.estimate(body["model"], **QUESTION)
    shown = client.post("/page/answer", json=body).json()
    assert shown["sentence"] == report.sentence(plan)
    assert [{one.option: one.value, **one.also} for one in report.changes(plan)] == shown["advice"]
    assert shown["html"].count("<button") == len(plan.advice) > 0
    assert shown["command"] == "kvplan estimate meta-llama/llama-3.1-70b --engine vllm --device h100 --context 8k --batch 16"
    assert all(f"{ledger.total_bytes:,} B" in shown["html"] for ledger in plan.ledgers)
    changed = client.post("/page/answer", json={**body, **shown["advice"][0]}).json()
    assert changed["fits"] is True


def test_answers_are_kept_up_to_a_size():
    kept = Kept(most=20)
    for i in range(5):
        kept.put(("/", b"%d" % i), b"12345")
    assert [kept.get(("/", b"%d" % i)) for i in range(5)] == [None, None, b"12345", b"12345", b"12345"]
    kept.put(("/", b"large"), b"x" * 100)
    assert kept.get(("/", b"large")) is None


def test_the_document_names_every_address_and_its_schemas_are_whole(client):
    document = client.get("/openapi.json").json()
    assert document["paths"].keys() == {*answers.POSTED, *answers.LISTED}
    for ref in re.findall(r'"\$ref": ?"([^"]+)"', json.dumps(document)):
        assert ref.removeprefix("#/components/schemas/") in document["components"]["schemas"], ref
    for path, methods in document["paths"].items():
        for body in methods.get("post", {}).get("requestBody", {"content": {}})["content"].values():
            for example in body["schema"]["examples"]:
                assert client.post(path, json=example).status_code == 200
                jsonschema.validate(example, {**body["schema"], "components": document["components"]})


def test_no_answer_is_as_long_as_a_number_in_its_question(client):
    for more in ({"dp": 4096}, {"tp": 64, "pp": 64}, {"context": 1 << 40, "batch": 1 << 40}, {"lora": "512x1000000000"},
                 {"speculative": "ngram:1000000000"}, {"max_num_seqs": 1 << 40, "block_size": 1}):  # fmt: skip
        response = client.post("/api/estimate", json={"model": MODEL, "device": "h100", **more})
        assert response.status_code in (200, 400)
        assert len(response.content) < 200_000
