"""Bad input: one clear error with file and path, whatever is wrong, in bounded time and memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvplan.catalogue import read_spec
from kvplan.errors import SpecError
from kvplan.files import parse_yaml
from kvplan.spec import parse_spec

GOOD: dict[str, Any] = {
    "id": "test/good",
    "name": "good",
    "source": "written for a test",
    "max_context": 4096,
    "vocab_size": 1000,
    "hidden_size": 64,
    "n_layers": 4,
    "layers": [{"pattern": ["local", "global"], "repeat": 2}],
    "blocks": {
        "local": {
            "mixers": [{"kind": "sliding", "heads": 4, "kv_heads": 2, "head_dim": 16, "window": 8}],
            "mlps": [{"kind": "dense", "intermediate_size": 128}],
        },
        "global": {"mixers": [{"kind": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 16}]},
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    at: Any = data
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for part in parents:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return data


def test_the_good_one_is_good():
    assert parse_spec(GOOD, "x").layer_names == ["local", "global", "local", "global"]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("hiden_size", 64, "hiden_size: unknown key"),
        ("blocks.local.mixers.0.widow", 4, "blocks.local.mixers.0.widow: unknown key"),
        ("hidden_size", "64", "hidden_size: Input should be a valid integer (is '64')"),
        ("hidden_size", 64.0, "hidden_size: Input should be a valid integer"),
        ("hidden_size", True, "hidden_size: Input should be a valid integer"),
        ("hidden_size", float("nan"), "hidden_size: Input should be a valid integer"),
        ("hidden_size", -1, "hidden_size: Input should be greater than or equal to 1"),
        ("hidden_size", 10**30, "hidden_size: Input should be less than or equal to"),
        ("hidden_size", ..., "hidden_size: missing"),
        ("blocks.local.mixers.0.window", ..., "blocks.local.mixers.0.window: missing"),
        ("blocks.local.mixers.0.kv_heads", 3, "kv_heads (3) must divide heads (4)"),
        ("blocks.local.mixers.0.kind", "slidng", "did you mean sliding"),
        ("blocks.local.mixers.0.kind", 7, "blocks.local.mixers.0: write a mapping with `kind`"),
        ("blocks.local.mlps.0.kind", "gqa", "unknown layer kind"),
        ("n_layers", 5, "layers: the patterns make 4 layers and n_layers is 5"),
        ("layers.0.pattern", ["local", "globl"], "'globl' is not one of blocks"),
        ("layers.0.pattern", ["4*local"], "the patterns make 8 layers"),
        ("layers.0.repeat", 100_000, "layers.0.repeat"),
        ("blocks.spare", {}, "blocks.spare: no layer uses it"),
        ("blocks", [], "blocks: write a mapping"),
        ("dtype", "fp7", "unknown dtype 'fp7'"),
        ("id", "No Slash", "id: String should match pattern"),
    ],
)
def test_each_fault_names_its_path(path, value, told):
    with pytest.raises(SpecError) as caught:
        parse_spec(changed(path, value), "model.yaml")
    assert str(caught.value).startswith("model.yaml: ")
    assert told in str(caught.value)


def test_all_faults_are_reported_at_once():
    data = changed("hidden_size", "x")
    data["blocks"]["local"]["mixers"][0]["heads"] = 0
    data["blocks"]["local"]["mlps"][0]["kind"] = "thick"
    data["colour"] = "red"
    with pytest.raises(SpecError) as caught:
        parse_spec(data, "model.yaml")
    assert len(caught.value.faults) == 4


@pytest.mark.parametrize("data", [None, 3, "text", [], [GOOD]])
def test_what_is_no_mapping_is_refused(data):
    with pytest.raises(SpecError, match="mapping"):
        parse_spec(data, "model.yaml")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "aliases are not read"),
        ("[" * 5000, "nested too deep"),
        ("a:\n" * 1 + " - x\n" * 200_000, "too large"),
        ("a: 1\na: 2\n", "'a' is there twice"),
        ("{1: 2}", "keys are text"),
        ("a: [1, 2", "not YAML"),
        ("a: " + "9" * 5000, "at most 400"),
        ("a: 0x" + "f" * 5000, "at most 400"),
        ("a: 1" + ":1" * 300_000, "at most 400"),
        ("a: !!bool maybe", "line 1: 'maybe' can not be read as the YAML tag !!bool"),
        ("a: !!int ''", "line 1: '' can not be read as the YAML tag !!int"),
        ("a: !!float ''", "line 1: '' can not be read as the YAML tag !!float"),
        ("a: !!timestamp foo", "line 1: 'foo' can not be read as the YAML tag !!timestamp"),
        ("a: 2024-99-99", "month must be in"),
        ("a: !mine x", "can not be read as the YAML tag"),
        ("a: !!python/object:os.system x", "can not be read as the YAML tag"),
        ("--- 1\n--- 2\n", "not YAML"),
        ("? [a]\n: 1", "keys are text"),
    ],
    ids=[
        "bomb",
        "deep",
        "large",
        "twice",
        "intkey",
        "open",
        "digits",
        "hex",
        "sexagesimal",
        "bool",
        "int",
        "float",
        "timestamp",
        "date",
        "mine",
        "tag",
        "documents",
        "listkey",
    ],
)
def test_hostile_yaml_is_refused_quickly(text, told):
    with pytest.raises(SpecError, match=told):
        parse_yaml(text, "model.yaml")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        ("größe: 1".encode("latin-1"), "not UTF-8"),
        (b"x" * (5 << 20), "larger than 4 MiB"),
        (b"", "mapping"),
    ],
)
def test_files_that_are_no_specs(tmp_path, content, told):
    path = tmp_path / "model.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=told) as caught:
        read_spec(path)
    assert str(path) in str(caught.value)


def test_directories_and_missing_files(tmp_path):
    with pytest.raises(SpecError, match="directory"):
        read_spec(tmp_path)
    with pytest.raises(SpecError, match="no such file"):
        read_spec(tmp_path / "none.yaml")


def test_a_wrong_kind_of_value_is_told_in_words_of_yaml() -> None:
    """Pydantic's own words name Python's types."""
    with pytest.raises(SpecError) as error:
        parse_spec({"id": "x", "layers": 3}, "x.yaml")
    said = str(error.value)
    assert "layers: write a list (is 3)" in said
    assert "blocks: missing; this key is required" in said
    assert "tuple" not in said
    assert "dictionary" not in said
