"""`config.json` of a Hugging Face checkpoint -> model spec, by architecture. What the file does not say is never guessed.

Shapes of layers, caches and weights follow transformers 5.23.0 and 5.24.0 (models/*/modeling_*.py, configuration_*.py) for its classes,
and the code inside the released repository for the rest.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from kvplan.errors import SpecError, UnsupportedError
from kvplan.files import read_bytes
from kvplan.importers.hf.architectures import ARCHITECTURES, FAMILIES, UNMODELLED, VARIANTS, family_row
from kvplan.importers.hf.classes import class_defaults
from kvplan.importers.hf.encoder_heads import instead
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Row, lowering
from kvplan.importers.hf.stack import name_blocks, patterns
from kvplan.importers.strict_json import parse
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats, Lowered

MAX_CONFIG_BYTES = 16 << 20
_HEADLESS = re.compile(
    r"(TextModel|Model|For(SequenceClassification|TokenClassification|QuestionAnswering|RewardModel|ProcessRewardModel))$"
)
#: What a class with a language-model head is called where another of its family has none.
_WHOLE = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "MTModel")
_DTYPES = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "float64": "f64",
           "float8_e4m3fn": "bf16"}  # fmt: skip


def read_config(path: str | os.PathLike[str]) -> ModelSpec:
    """A checked spec from a `config.json`, or Mistral's `params.json`.

    Raises SpecError (unreadable, contradictory) or UnsupportedError (an architecture not known).
    """
    config = load_config(path)
    if {"dim", "n_layers"} <= config.keys():
        from kvplan.importers.hf.mistral_params import as_config, is_mistral, said

        if is_mistral(str(path), config):
            made = import_config(as_config(config, str(path)), str(path))
            return parse_spec({**made, "notes": [*made.get("notes", []), *said(config)]}, str(path))
    return parse_spec(import_config(config, str(path)), str(path))


#: Files beside a config.json in which tools wrote the quantisation before they wrote into it -> the tool's method. vLLM reads the last
#: two where --quantization names the method (layers/quantization/auto_gptq.py and awq.py, get_config_filenames).
BESIDE = {"hf_quant_config.json": "modelopt", "quantize_config.json": "gptq", "quant_config.json": "awq"}


def load_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A config.json with the quantisation that ModelOpt, AutoGPTQ or AutoAWQ wrote beside it. Raises SpecError."""
    config = load_json(path)
    if config.get("quantization_config") is not None or config.get("compression_config") is not None:
        return config
    for name, method in BESIDE.items():
        beside = os.path.join(os.path.dirname(path), name)
        stated = _written(beside, method) if os.path.isfile(beside) else None
        if isinstance(stated, dict):
            return {**config, "quantization_config": {"quant_method": method, **stated}}
    return config


def _written(path: str, method: str) -> Any:
    """What a file beside a config says of quantisation: ModelOpt's a part of it, the others' all, where it tells bits."""
    said = load_json(path)
    if method == "modelopt":
        return said.get("quantization")
    return {**said, "written_beside": os.path.basename(path)} if {"bits", "w_bit"} & said.keys() else None


def load_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """One strict JSON object from a small UTF-8 file: no duplicate keys, no NaN, bounded in size and depth. Raises SpecError."""
    return parse_json(read_bytes(path, MAX_CONFIG_BYTES, "a config is a few kilobytes of JSON"), str(path))


def parse_json(data: bytes, source: str) -> dict[str, Any]:
    """`load_json` for bytes in hand. Released Mamba-2 configs have `time_step_limit: [0.0, Infinity]`: that one word passes."""

    def fail(at: int, message: str) -> SpecError:
        line, column = data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at)
        return SpecError(source, [(f"line {line}, column {column}" if at else "", message)])

    found = parse(data, fail, infinity=True)
    if not isinstance(found, dict):
        raise SpecError(source, [("", "a config is a JSON object")])
    return found


def import_config(config: dict[str, Any], source: str) -> dict[str, Any]:
    """The data of a model spec, as its YAML would hold it; `parse_spec` checks it.

    Raises SpecError (a key missing, contradictory or of the wrong type: file and dotted path) or UnsupportedError (unknown architecture).
    """
    architecture, model_type = identify(config, source)
    row = family_row(model_type, source)
    f = Fields(config, source, model_type=row.model_type or model_type).named(row.names, row.defaults)
    inner = f
    if isinstance(config.get("text_config"), dict) and not f.shaped and not row.lower.startswith(_NESTING):
        inner = f.part("text_config", f.model_type).named(row.names, row.defaults)  # a wrapper's file read for its text model alone
    alone = {} if inner is f else {"dtype": dtype(inner) or dtype(f)}
    stack = alone | _both_ways(inner, lowering(row)(inner, row.traits), architecture)
    stack["notes"] = [*stack.get("notes", []), *_contradicted(config, architecture, row)]
    if architecture in ARCHITECTURES or (architecture and encoder_family(architecture)):
        return assemble(f, stack, architecture, source)
    if architecture is None:
        named = _of_type(model_type)
        stack["notes"] += [f"the config names no class (architectures): {named} is taken, by model_type {model_type}"] if named else []
        return assemble(f, stack, named, source)
    weights = [w for w in stack.get("weights", []) if w.get("role") != "head"] + instead(f, str(architecture), stack["hidden_size"])
    headless = {"lm_head": False, "tied_embeddings": False, "weights": weights}
    note = "a model without a language-model head"
    return assemble(f, {**stack, **headless, "notes": [*stack.get("notes", []), note]}, architecture, source)


def _of_type(model_type: str) -> str | None:
    """The class of a model type: of several that are read alike, the one that is called as the type is."""
    classes = [name for name, known in ARCHITECTURES.items() if known == model_type]
    camel = "".join(part.capitalize() for part in model_type.split("_"))
    alike = [name for name in classes if name.lower().startswith(f"{camel.lower()}for")]
    return next((name for name in (*alike, *classes) if name.startswith(camel)), next(iter(alike or classes), None))


def _contradicted(config: dict[str, Any], architecture: str | None, row: Row) -> list[str]:
    """A decoder's class over the model type of another decoder: engines build the class, transformers what the model type means."""
    stated = config.get("model_type")
    other = FAMILIES[stated] if architecture and isinstance(stated, str) and stated in FAMILIES else row
    if other.lower != row.lower or row.lower != Row().lower or other.traits == row.traits or stated not in class_defaults():
        return []
    return [f"model_type {stated} is not that of {architecture}, as which it is read; transformers would build a {stated}"]


#: Modules whose rows read nested parts themselves.
_NESTING = ("wrappers", "small_multimodal", "image_seq2seq", "drafters:gemma4")
#: Classes that are decoders by shape and read both ways: embedding models.
_BOTH_WAYS = ("LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification", "Lfm2BidirectionalModel")
_ATTENTION = ("mha", "gqa", "mqa", "sliding")


def _both_ways(f: Fields, stack: dict[str, Any], architecture: str | None) -> dict[str, Any]:
    """An embedder that attends in both directions reads everything at once, like an encoder: it keeps no cache.

    Gemma3ForCausalLM with the same flag still generates, in half its window (as_read.py).
    """
    flagged = f.data.get("use_bidirectional_attention") is True and architecture not in ARCHITECTURES and architecture is not None
    if not flagged and architecture not in _BOTH_WAYS:
        return stack
    others = {str(mixer["kind"]) for layer in stack["layers"] for mixer in layer.get("mixers", ())} - {*_ATTENTION, "encoder"}
    if others:
        raise UnsupportedError(f"{architecture} reads everything at once; kvplan has no layers of {', '.join(sorted(others))} that do")

    def reader(mixer: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in mixer.items() if key != "window"}
        return {"kv_heads": mixer["heads"] if mixer["kind"] == "mha" else 1, **kept, "kind": "encoder"}

    layers = [{**layer, "mixers": [reader(mixer) for mixer in layer.get("mixers", ())]} for layer in stack["layers"]]
    return {**stack, "layers": layers, "notes": [*stack.get("notes", []), "attends in both directions: it keeps no cache"]}


def identify(config: dict[str, Any], source: str) -> tuple[str | None, str]:
    """The architecture's name and its family. The name decides; where it is absent, model_type does."""
    names = config.get("architectures")
    if not isinstance(config.get("model_type") or "", str):
        raise SpecError(source, [("model_type", "must be the name of a model type")])
    if names is None and isinstance(config.get("ssm_cfg"), dict):
        return None, "state_spaces"
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise SpecError(source, [("architectures", "must be a list of class names")])
    if names:
        if names[0] not in ARCHITECTURES:
            family = encoder_family(names[0])
            if family:
                return names[0], family
            front = _HEADLESS.sub("", names[0].replace("Bidirectional", ""))
            base = next((known for end in _WHOLE if (known := front + end) in ARCHITECTURES), None)
            if base is None or front == names[0]:
                raise unknown(names[0], source)
            stated = config.get("model_type")  # XModel of a family that also has a decoder alone: the whole
            return names[0], stated if isinstance(stated, str) and stated in FAMILIES else ARCHITECTURES[base]
        stated = str(config.get("model_type"))
        family = VARIANTS.get((names[0], stated), ARCHITECTURES[names[0]])
        if stated == f"{family}_text" and stated in FAMILIES and not isinstance(config.get("text_config"), dict):
            return names[0], stated  # a wrapper's name over its text model's own file: an upload of the text model alone
        return names[0], family
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise SpecError(
            source, [("architectures", "missing, and so is model_type: this JSON does not say which model class it configures")]
        )
    return None, model_type


def encoder_family(name: str) -> str | None:
    """The family of an encoder's class; their table is read only for names that no other has."""
    from kvplan.importers.hf.families_encoders import family_of

    return family_of(name)


def unknown(name: str, source: str) -> UnsupportedError:
    import difflib

    if why := UNMODELLED.get(name):
        return UnsupportedError(f"{source}: architectures.0: {name} is not modelled: {why}")
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
    notes += _drafts(f, mtp)
    stack["uncounted"] = stack.get("uncounted") or _towers(f, stack)
    compute = stack.pop("dtype", None) or dtype(f)
    if compute is None:
        notes.append("the config states no dtype: bf16 assumed")
    made: dict[str, Any] = {
        "id": spec_id(source),
        "name": _name(f, source),
        "source": source[-2000:],
        "notes": notes,
        "architecture": architecture,
        "dtype": compute or "bf16",
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
    formats, more = quantization(f, made)
    notes += more
    made |= formats
    return {key: v for key, v in made.items() if (key == "vocab_size" or v not in empty) and not (key in usual and usual[key] == v)}


#: Keys under which configs of text classes describe towers, and count draft modules, that the class itself does not build.
_TOWERS = ("vision_config", "audio_config", "audio", "visual", "mm_vision_tower", "speech_config")
#: Nested configs that are read, or that the class is about.
_READ = ("text_config", "llm_config", "language_config", "thinker_config", "encoder", "decoder", "transformer_layer_config")
_DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")


def _sized(part: Any) -> bool:
    """Whether a nested mapping sizes a stack of layers of its own."""
    return isinstance(part, dict) and "hidden_size" in part and bool({"num_hidden_layers", "num_layers", "depth"} & part.keys())


def _towers(f: Fields, stack: dict[str, Any]) -> list[str]:
    """Towers that the config describes and the stack has no part for."""
    if stack.get("towers"):
        return []
    found = [key for key in _TOWERS if f.data.get(key)]
    found += [key for key, part in f.data.items() if key not in (*_TOWERS, *_READ) and _sized(part)]
    return [f"{key}: this class has no tower that is known, none is counted" for key in found]


def _drafts(f: Fields, mtp: Any) -> list[str]:
    """Draft modules that the config declares and the stack has no part for."""
    inner = [f.data, *(v for key in ("text_config", "llm_config", "language_config") if isinstance(v := f.data.get(key), dict))]
    found = [key for key in _DRAFTS if any(part.get(key) for part in inner)] if not mtp else []
    return [f"{key}: draft modules that the config declares are not counted" for key in found]


def quantization(f: Fields, made: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The weight formats of a spec and notes; their reader is loaded only where the config has such a block."""
    blocks = {"quantization_config", "compression_config", "quantization"}
    if not any(blocks & part.keys() for part in (f.data, *(v for v in f.data.values() if isinstance(v, dict)))):
        return {}, []
    from kvplan.importers.hf.quantization import read_quantization

    def lowered() -> Lowered:
        declared = {key: value for key, value in made.items() if value is not None}
        return lower(parse_spec(declared, f.source), CacheFormats("bf16", "bf16", "bf16", "bf16"))

    return read_quantization(f, lowered)


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


#: Parts that may state a compute type where the whole does not.
_INNER = ("text_config", "llm_config", "language_config", "thinker_config", "transformer_layer_config")


def dtype(f: Fields) -> str | None:
    """The compute type that the config states, None where it states none. Raises SpecError for one that is no compute type."""
    for part in (
        f.data,
        *(v for key in _INNER if isinstance(v := f.data.get(key), dict)),
    ):
        for key in ("dtype", "torch_dtype"):
            value = part.get(key)
            if isinstance(value, str) and value != "auto":
                name = value.removeprefix("torch.")
                if name not in _DTYPES:
                    raise f.fault(key, f"{name[:40]!r} is no compute type; one of: {', '.join(_DTYPES)}")
                return _DTYPES[name]
    return None
