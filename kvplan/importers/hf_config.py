"""`config.json` of a Hugging Face checkpoint -> model spec, by architecture. What the file does not say is never guessed.

Shapes of layers, caches and weights follow transformers 5.23.0 (models/*/modeling_*.py, configuration_*.py) for the classes it has, and the
code inside the released repository for the rest.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from kvplan.errors import SpecError, UnsupportedError
from kvplan.importers.hf.architectures import ARCHITECTURES, VARIANTS, family_row
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.quantization import read_quantization
from kvplan.importers.hf.rows import Row
from kvplan.importers.hf.stack import name_blocks, patterns
from kvplan.spec import ModelSpec, parse_spec

MAX_CONFIG_BYTES = 16 << 20
MAX_DEPTH = 32
_HEADLESS = re.compile(r"(Model|ForSequenceClassification|ForTokenClassification|ForQuestionAnswering|ForRewardModel)$")
_DTYPES = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "float64": "f64",
           "float8_e4m3fn": "bf16"}  # fmt: skip


def read_config(path: str | os.PathLike[str]) -> ModelSpec:
    """A checked spec from a `config.json`. Raises SpecError (unreadable, contradictory) or UnsupportedError (an architecture not known)."""
    config = load_json(path)
    beside = os.path.join(os.path.dirname(path), "hf_quant_config.json")
    if "quantization_config" not in config and os.path.isfile(beside):
        stated = load_json(beside).get("quantization")  # ModelOpt's file before it wrote into config.json
        if isinstance(stated, dict):
            config["quantization_config"] = {"quant_method": "modelopt", **stated}
    return parse_spec(import_config(config, str(path)), str(path))


def load_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """One strict JSON object from a small UTF-8 file: no duplicate keys, no NaN, bounded in size and depth. Raises SpecError."""
    source = str(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SpecError(source, [("", f"can not be read: {getattr(error, 'strerror', None) or error}")]) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise SpecError(source, [("", f"larger than {MAX_CONFIG_BYTES >> 20} MiB; a config is a few kilobytes of JSON")])
    return parse_json(data, source)


def parse_json(data: bytes, source: str) -> dict[str, Any]:
    """`load_json` for bytes in hand."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            twice = next(key for i, (key, _) in enumerate(items) if key in dict(items[:i]))
            raise SpecError(source, [(str(twice)[:80], "is there twice; keep one")])
        return made

    def constant(name: str) -> float:
        if name == "NaN":
            raise SpecError(source, [("", "NaN is no number")])
        return float(name.replace("Infinity", "inf"))  # released Mamba-2 configs have time_step_limit: [0.0, Infinity]

    try:
        text = data.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise SpecError(source, [("", f"not UTF-8 at byte {error.start}")]) from None
    except json.JSONDecodeError as error:
        raise SpecError(source, [(f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}")]) from None
    except (RecursionError, ValueError) as error:
        raise SpecError(source, [("", f"not JSON: {type(error).__name__}")]) from None
    if not isinstance(found, dict):
        raise SpecError(source, [("", "a config is a JSON object")])
    if _depth(found) > MAX_DEPTH:
        raise SpecError(source, [("", f"nested deeper than {MAX_DEPTH}")])
    return found


def _depth(value: Any) -> int:
    level, deep = [value], 0
    while level and deep <= MAX_DEPTH:
        deep += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())]
    return deep


def import_config(config: dict[str, Any], source: str) -> dict[str, Any]:
    """The data of a model spec, as its YAML would hold it; `parse_spec` checks it.

    Raises SpecError (a key missing, contradictory or of the wrong type: file and dotted path) or UnsupportedError (unknown architecture).
    """
    architecture, model_type = identify(config, source)
    row = family_row(model_type, architecture, source)
    f = Fields(config, source, model_type=row.model_type or model_type).named(row.names, row.defaults)
    stack = lowering(row)(f, row.traits)
    if architecture in ARCHITECTURES or architecture is None:
        return assemble(f, stack, architecture, source)
    headless = {"lm_head": False, "tied_embeddings": False, "weights": [w for w in stack.get("weights", []) if w.get("role") != "head"]}
    note = "a model without a language-model head; what it has in its place is not counted"
    return assemble(f, {**stack, **headless, "notes": [*stack.get("notes", []), note]}, architecture, source)


def lowering(row: Row) -> Callable[[Fields, Any], dict[str, Any]]:
    """The function a row names; its module is read only now."""
    module, name = row.lower.split(":")
    found: Callable[[Fields, Any], dict[str, Any]] = getattr(import_module(f"kvplan.importers.hf.{module}"), name)
    return found


def identify(config: dict[str, Any], source: str) -> tuple[str | None, str]:
    """The architecture's name and its family. The name decides; where it is absent, model_type does."""
    names = config.get("architectures")
    if names is None and isinstance(config.get("ssm_cfg"), dict):
        return None, "state_spaces"
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise SpecError(source, [("architectures", "must be a list of class names")])
    if names:
        if names[0] not in ARCHITECTURES:
            base = _HEADLESS.sub("ForCausalLM", names[0])
            if base == names[0] or base not in ARCHITECTURES:
                raise unknown(names[0], source)
            return names[0], ARCHITECTURES[base]
        return names[0], VARIANTS.get((names[0], str(config.get("model_type"))), ARCHITECTURES[names[0]])
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise SpecError(
            source, [("architectures", "missing, and so is model_type: this JSON does not say which model class it configures")]
        )
    return None, model_type


def unknown(name: str, source: str) -> UnsupportedError:
    near = difflib.get_close_matches(name, list(ARCHITECTURES), n=3, cutoff=0.6)
    hint = f" Nearest known: {', '.join(near)}." if near else ""
    return UnsupportedError(
        f"{source}: architectures.0: {name[:80]!r} is not an architecture that kvplan knows.{hint}"
        " Declare the model as a spec file: its layers, what each keeps (heads, head dim, window, state) and its weights."
    )


def assemble(f: Fields, stack: dict[str, Any], architecture: str | None, source: str) -> dict[str, Any]:
    """Blocks named, patterns found, formats read, assumptions noted."""
    stack = dict(stack)
    notes: list[str] = list(stack.pop("notes", []))
    blocks: dict[str, Any] = {}
    names = name_blocks(stack.pop("layers"), blocks)
    encoder = stack.pop("encoder", None)
    if encoder:
        inner = name_blocks(encoder.pop("layers"), blocks)
        encoder = {"n_layers": len(inner), "layers": patterns(inner), **encoder}
    mtp = stack.pop("mtp", None)
    if mtp:
        mtp = {**mtp, "block": name_blocks([mtp["block"]], blocks)[0]}
    if f.assumed:
        notes.insert(0, _assumptions(f.assumed))
    formats, more = read_quantization(f)
    compute = dtype(f)
    if compute is None:
        notes.append("the config states no dtype: bf16 assumed")
    made: dict[str, Any] = {
        "id": spec_id(source),
        "name": _name(f, source),
        "source": source[-2000:],
        "notes": notes + more,
        "architecture": architecture,
        "dtype": compute or "bf16",
        **formats,
        "max_context": stack.pop("max_context", None),
        "vocab_size": stack.pop("vocab_size"),
        "hidden_size": stack.pop("hidden_size"),
        "n_layers": len(names),
        "layers": patterns(names),
        "blocks": blocks,
        "encoder": encoder,
        "mtp": mtp,
        **stack,
    }
    empty: tuple[Any, ...] = (None, [], {})
    usual = {"tied_embeddings": False, "norm": "rms"}
    return {key: v for key, v in made.items() if (key == "vocab_size" or v not in empty) and not (key in usual and usual[key] == v)}


def _assumptions(assumed: dict[str, Any]) -> str:
    said = ", ".join(f"{key} = {json.dumps(value)}" for key, value in assumed.items())
    return f"not in the config, class defaults taken: {said}"[:1990]


def spec_id(source: str) -> str:
    """An id for a spec made from a file: its folder and name, reduced to the letters that ids have."""
    parts = [part for part in re.split(r"[/\\]+", source.lower()) if part not in ("", ".", "..")]
    stem = re.sub(r"\.json$", "", parts[-1]) if parts else "config"
    name = parts[-2] if stem == "config" and len(parts) > 1 else stem
    return "local/" + (re.sub(r"[^a-z0-9._-]+", "-", name).strip("-")[:100] or "model")


def _name(f: Fields, source: str) -> str:
    """What the config calls its model, else what its file is called."""
    stated = f.data.get("_name_or_path")
    called = re.split(r"[/\\]", stated)[-1] if isinstance(stated, str) else ""
    return called[:200] or spec_id(source).partition("/")[2]


def dtype(f: Fields) -> str | None:
    """The compute type that the config states, None where it states none. Raises SpecError for one that is no compute type."""
    for part in (
        f.data,
        *(v for key in ("text_config", "llm_config", "language_config", "thinker_config") if isinstance(v := f.data.get(key), dict)),
    ):
        for key in ("dtype", "torch_dtype"):
            value = part.get(key)
            if isinstance(value, str) and value != "auto":
                name = value.removeprefix("torch.")
                if name not in _DTYPES:
                    raise f.fault(key, f"{name[:40]!r} is no compute type; one of: {', '.join(_DTYPES)}")
                return _DTYPES[name]
    return None
