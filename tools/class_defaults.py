"""Writes what the importer knows of transformers' configuration classes, for the keys and model types that it reads.

    kvplan/importers/hf/class_defaults.json   model type -> class defaults
    kvplan/importers/hf/class_names.json      model type -> other name -> the name under which the class keeps it (attribute_map)
    kvplan/importers/hf/class_parts.json      model type -> nested key -> [model type, whether the file may choose another, whether it
                                              may be absent, what an absent part is made of]

Run in an environment that has transformers: python tools/class_defaults.py
"""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path
from typing import Any

HF = Path(__file__).parents[1] / "kvplan" / "importers" / "hf"
_PLAIN = (int, float, str, list, tuple, type(None))
NEVER = {"model_type", "name", "path", "dtype", "architectures", "source", "kind", "id2label"}


def literals() -> set[str]:
    """Every text literal of the importer: the keys it can ask for are among them."""
    found: set[str] = set()
    for file in (file for file in HF.glob("*.py") if file.stem != "mistral_params"):  # names of a format of its own
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found - NEVER


def parts(made: Any, keys: set[str]) -> dict[str, list[Any]]:
    """The nested configs of a class."""
    found = {}
    for key, spec in (made.sub_configs_defaults or {}).items():
        init = {k: v for k, v in spec.init_kwargs.items() if k in keys and isinstance(v, _PLAIN)}
        found[key] = [spec.model_type, spec.config_class.__name__ == "AutoConfig", spec.optional, init]
    return found


def write(name: str, made: dict[str, Any]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in made.items() if value]
    (HF / name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    from transformers import __version__
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    keys = literals()
    types = [name for name in sorted(CONFIG_MAPPING_NAMES) if name in keys]  # a model type is read only where a row or a part names it
    classes = {name: CONFIG_MAPPING[name] for name in types}
    declared = {
        name: {field.name: field.default for field in dataclasses.fields(made)}
        | {key: v for key, v in vars(made).items() if isinstance(v, bool)}  # Emu3's biases are no fields
        for name, made in classes.items()
    }
    plain = {
        name: {key: v for key, v in sorted(fields.items()) if key in keys and isinstance(v, _PLAIN)} for name, fields in declared.items()
    }
    write("class_defaults.json", plain)
    write("class_names.json", {
        name: {key: real for key, real in sorted(made.attribute_map.items()) if real in keys} for name, made in classes.items()
    })  # fmt: skip
    write("class_parts.json", {name: parts(made, keys) for name, made in classes.items()})
    print(f"{len(classes)} model types from transformers {__version__}")


if __name__ == "__main__":
    main()
