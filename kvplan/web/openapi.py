"""`/openapi.json`: the addresses, with the JSON Schemas that `kvplan schema` prints and the names of the contract."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kvplan import __version__, api, engines
from kvplan.deployment import NAMES, Kind, Name
from kvplan.manifests import TARGETS
from kvplan.planner.speed import RANKINGS
from kvplan.web.answers import LISTED, MAX_TRIED, POSTED
from kvplan.web.bounds import MAX_ITEMS, MAX_TEXT

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string", "maxLength": MAX_TEXT}
_SIZE: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, _TEXT]}
_COUNT: Schema = {"anyOf": [{"type": "integer", "minimum": -1}, _TEXT]}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_PAIRS: Schema = {"type": "object", "maxProperties": MAX_ITEMS // 2, "additionalProperties": _SCALAR}
_LIST: Schema = {"type": "array", "maxItems": MAX_ITEMS, "items": _TEXT}
_KINDS: dict[Kind, Schema] = {
    "text": _TEXT,
    "device": _TEXT,
    "tokens": _SIZE,
    "bytes": _SIZE,
    "count": _COUNT,
    "fraction": {"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, _TEXT]},
    "flag": {"type": "boolean"},
    "options": {"anyOf": [_PAIRS, _LIST]},
}
#: What is posted beside the question -> its schema; what has to be there.
_MODEL: dict[str, Schema] = {
    "model": {**_TEXT, "description": "a catalogue id, a release's name, a short name"},
    "config": {"type": "object", "description": "what a config.json holds, instead of model"},
}
_BESIDE: dict[str, dict[str, Schema]] = {
    "/api/estimate": _MODEL | {"advise": {"type": "boolean", "default": True}},
    "/api/fit": _MODEL
    | {
        "devices": _LIST,
        "prices": {"type": "object", "maxProperties": MAX_ITEMS, "additionalProperties": {"type": "number", "minimum": 0}},
        "most": {"type": "integer", "minimum": 1, "maximum": MAX_TRIED},
        "rank_by": {"enum": list(RANKINGS)},
        "every_layout": {"type": "boolean"},
    },
    "/api/check": {
        "files": {
            "type": "array", "minItems": 1, "maxItems": MAX_ITEMS,
            "items": {"type": "object", "required": ["name", "text"], "additionalProperties": False,
                      "properties": {"name": _TEXT, "text": {"type": "string"}}},
        },
        "models": _LIST,
        "strict": {"type": "boolean"},
    },
    "/api/emit": _MODEL | {"target": {"enum": list(TARGETS)}, "serve": _TEXT, "fixed_pool": {"type": "boolean"}},
}  # fmt: skip
_REQUIRED = {"/api/check": ["files"], "/api/emit": ["target"]}
_SCHEMA_OF = {"/api/estimate": "plan", "/api/fit": "fit", "/api/check": "check", "/api/models": "models", "/api/devices": "devices",
              "/api/engines": "engines"}  # fmt: skip
_ERROR: Schema = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_EMITTED: Schema = {
    "type": "object",
    "required": ["text", "warnings", "fits"],
    "properties": {
        "text": {"type": "string"},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "fits": {"type": ["boolean", "null"]},
    },
}
_REFUSALS = {
    400: "what was asked is wrong or not known: one line that says what to write instead",
    413: "larger than a request may be",
    415: "not application/json",
    421: "the server is not called that",
    422: "more work than one request may ask for",
    429: "more requests than are worked on; ask again",
}


@lru_cache(maxsize=1)
def openapi() -> Schema:
    """The document (OpenAPI 3.1)."""
    schemas: Schema = {"Error": _ERROR, "emitted": _EMITTED}
    for name in _SCHEMA_OF.values():
        _add(schemas, name, api.schema(name))
    paths: Schema = {path: {"post": _posted(path, _first_line(work))} for path, work in POSTED.items()}
    paths |= {path: {"get": _listed(path, _first_line(work))} for path, work in LISTED.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kvplan", "version": __version__, "description": "Cache and weight bytes of a language model on its hardware."},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _add(schemas: Schema, name: str, schema: Schema) -> None:
    """A schema and its definitions as components."""
    own = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    for each, definition in schema.get("$defs", {}).items():
        schemas[each] = _moved(definition)
    schemas[name] = _moved(own)


def _moved(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: value.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(value) for key, value in part.items()}
    return [_moved(one) for one in part] if isinstance(part, list) else part


def _posted(path: str, summary: str) -> Schema:
    question = {name: _named(one) for name, one in NAMES.items()}
    question["engine"]["examples"] = list(engines.ENGINES)
    body = {
        "type": "object",
        "properties": _BESIDE[path] | question,
        "required": _REQUIRED.get(path, []),
        "additionalProperties": False,
        "examples": _EXAMPLES[path],
    }
    return {
        "summary": summary,
        "operationId": path.rpartition("/")[2],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _responses(_SCHEMA_OF.get(path, "emitted"), _REFUSALS),
    }


def _named(one: Name) -> Schema:
    """A name of the question; null is "not chosen"."""
    schema: Schema = {"anyOf": [_SIZE, _PAIRS, _LIST]} if one.parts else _KINDS[one.kind]
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}], "description": one.help}


def _listed(path: str, summary: str) -> Schema:
    text = {"name": "text", "in": "query", "required": False, "schema": _TEXT, "description": "only what contains it"}
    return {
        "summary": summary,
        "operationId": path.rpartition("/")[2],
        "parameters": [text],
        "responses": _responses(_SCHEMA_OF[path], {code: _REFUSALS[code] for code in (400, 421, 429)}),
    }


def _responses(schema: str, refusals: dict[int, str]) -> Schema:
    def answer(name: str, says: str) -> Schema:
        return {"description": says, "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}

    return {"200": answer(schema, "the answer"), **{str(code): answer("Error", says) for code, says in refusals.items()}}


def _first_line(work: Any) -> str:
    return str(work.__doc__).partition("\n")[0]


_QUESTION = {"model": "meta-llama/llama-3.1-8b", "context": "8k", "batch": 16}
_EXAMPLES: dict[str, list[Schema]] = {
    "/api/estimate": [_QUESTION | {"device": "h100", "engine": engines.DEFAULT}],
    "/api/fit": [_QUESTION | {"devices": ["h100", "l4"], "engine": engines.DEFAULT}],
    "/api/check": [{"files": [{"name": "serve.sh", "text": "vllm serve meta-llama/Llama-3.1-8B-Instruct"}], "device": "h100"}],
    "/api/emit": [_QUESTION | {"device": "h100", "engine": engines.DEFAULT, "target": engines.DEFAULT}],
}
