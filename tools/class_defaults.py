"""Writes kvplan/importers/hf/class_defaults.json: class defaults of transformers configurations, for the keys that the importer reads.

Run in an environment that has transformers: python tools/class_defaults.py
"""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path

HF = Path(__file__).parents[1] / "kvplan" / "importers" / "hf"
_PLAIN = (int, str, list, tuple, type(None))
NEVER = {"model_type", "name", "path", "dtype", "architectures", "source", "kind", "id2label"}


def literals() -> set[str]:
    """Every text literal of the importer: the keys it can ask for are among them."""
    found: set[str] = set()
    for file in HF.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found - NEVER


def main() -> None:
    from transformers import __version__
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    keys, made = literals(), {}
    known = keys  # a model type is read only where a row or a part names it
    for model_type in sorted(CONFIG_MAPPING_NAMES):
        if model_type not in known:
            continue
        declared = {field.name: field.default for field in dataclasses.fields(CONFIG_MAPPING[model_type])}
        made[model_type] = {key: v for key, v in sorted(declared.items()) if key in keys and isinstance(v, _PLAIN)}
    lines = [f"{json.dumps(model_type)}: {json.dumps(defaults, separators=(',', ':'))}" for model_type, defaults in made.items()]
    (HF / "class_defaults.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(made)} model types from transformers {__version__}")


if __name__ == "__main__":
    main()
