"""Every model spec that ships: it parses, says where it comes from, lowers, and is as large as its name says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from kvplan.catalogue import find_model, model_folder, read_spec
from kvplan.files import parse_yaml, read_text
from kvplan.spec import ModelSpec, lower
from kvplan.tensors import CacheFormats
from kvplan.weights import count

FOLDER = model_folder()
FILES = sorted(FOLDER.glob("*/*.yaml"))
FORMATS = CacheFormats("bf16", "bf16", "bf16", "bf16")
_SIZE = re.compile(r"(?<![\w.-])(\d+(?:\.\d+)?)([BMT])\b")


@pytest.fixture(scope="module")
def specs() -> dict[Path, ModelSpec]:
    return {path: read_spec(path) for path in FILES}


def test_the_id_is_the_path(specs: dict[Path, ModelSpec]) -> None:
    assert [path for path, spec in specs.items() if f"{path.parent.name}/{path.stem}" != spec.id] == []


def test_ids_leave_out_what_does_not_change_memory(specs: dict[Path, ModelSpec]) -> None:
    assert [spec.id for spec in specs.values() if re.search(r"-(instruct|it|hf|chat)(-|$)", spec.id)] == []


def test_no_two_specs_answer_to_one_name(specs: dict[Path, ModelSpec]) -> None:
    names = Counter(name.lower() for spec in specs.values() for name in {spec.id, *(a.lower() for a in spec.aliases)})
    assert [name for name, n in names.items() if n > 1] == []


def test_every_source_is_public(specs: dict[Path, ModelSpec]) -> None:
    assert [spec.id for spec in specs.values() if not spec.source.startswith("https://")] == []
    assert [path for path in FILES if not read_text(path).startswith("# https://")] == []


def test_every_spec_lowers_to_a_cache_and_weights(specs: dict[Path, ModelSpec]) -> None:
    for spec in specs.values():
        model = lower(spec, FORMATS)
        assert len(model.layers) == spec.n_layers
        assert count(model).total > 0, spec.id


#: Names that round more than 3 % away, and the number that holds instead: of gpt-oss what its card's table adds up to (20.91B), of the
#: others what transformers 5.23 builds from the config.
CARDS = {
    "ibm-granite/granite-4-8b-dense": 8.38e9,
    "meta-llama/llama-3.2-1b": 1.23e9,
    "microsoft/phi-1": 1.41e9,
    "nvidia/nemotron-3-nano-30b-a3b": 31.6e9,
    "openai/gpt-oss-20b": 20.9e9,
    "qwen/qwen2-vl-2b-awq": 2.21e9,
    "qwen/qwen3-asr-0.6b": 0.596e9 + 0.186e9,  # Qwen3 0.6B and its audio tower
    "wizardlmteam/wizardcoder-15b-v1.0": 15.5e9,  # StarCoder's
}


def stated_size(name: str) -> float | None:
    """The size in a spec's name, in parameters: `Llama 3.1 8B`. Names of mixtures (8x7B) state none."""
    match = _SIZE.search(name)
    return float(match[1]) * {"M": 1e6, "B": 1e9, "T": 1e12}[match[2]] if match else None


def test_parameters_are_those_of_the_name(specs: dict[Path, ModelSpec]) -> None:
    wrong = []
    for spec in specs.values():
        size = CARDS.get(spec.id) or stated_size(spec.name)
        found = count(lower(spec, FORMATS)).total
        if size and not 0.97 <= found / size <= 1.03:
            wrong.append(f"{spec.id}: {found / 1e9:.3f} B parameters, its name says {spec.name!r}")
    assert not wrong, "\n".join(wrong)


def test_yaml_is_plain(specs: dict[Path, ModelSpec]) -> None:
    for path in FILES:
        data = parse_yaml(read_text(path), str(path))
        assert list(data)[:3] == ["id", "name", "source"], path


def test_aliases_find_their_model(specs: dict[Path, ModelSpec]) -> None:
    spec = next(iter(specs.values()))
    for alias in spec.aliases[:2]:
        assert find_model(alias).id == spec.id
