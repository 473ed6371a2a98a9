"""Names that pages give for things of the package are those of the package: layers and paths, layer kinds and formats, a spec."""

from __future__ import annotations

import re
import tomllib

import kvplan
from kvplan.dtypes import FORMATS
from kvplan.files import parse_yaml
from kvplan.layers import MIXERS, MLPS
from kvplan.spec import parse_spec
from tests.docs.pages import PAGES, ROOT, blocks

ARCHITECTURE = PAGES["docs/architecture.md"].read_text(encoding="utf-8")
MODELS = PAGES["docs/models.md"].read_text(encoding="utf-8")


def test_the_layers_are_those_of_the_import_contract():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    (shown,) = (block.body.splitlines() for block in blocks(ARCHITECTURE) if block.language == "text")
    assert shown == contract["layers"]


def test_every_path_that_is_named_exists():
    for page, path in PAGES.items():
        named = re.findall(r"\b((?:kvplan|tests|tools|benchmarks|validation|model_specs)/[\w/.-]*\w)", path.read_text(encoding="utf-8"))
        assert [name for name in named if "…" not in name and not (ROOT / name).exists()] == [], page


def test_every_part_of_the_package_is_in_the_layers():
    (shown,) = (block.body for block in blocks(ARCHITECTURE) if block.language == "text")
    parts = {path.stem for path in (ROOT / "kvplan").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}
    assert parts == set(re.findall(r"\w+", shown))


def test_the_spec_shown_is_a_spec():
    (block,) = (block.body for block in blocks(MODELS) if block.language == "yaml")
    spec = parse_spec(parse_yaml(block, "docs/models.md"), "docs/models.md")
    assert kvplan.estimate(spec, context=4096).cache.bytes_per_token == 8 * (512 + 64) * 2


def test_every_kind_and_format_is_named():
    hidden = {"f64", "fp8_scale128", "mxfp4"}
    formats = [name for name in FORMATS if not name.startswith("turboquant") and name not in hidden]
    assert [name for name in (*MIXERS, *MLPS, *formats) if f"`{name}`" not in MODELS] == []
