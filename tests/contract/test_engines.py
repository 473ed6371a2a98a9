"""Every engine over models that hold every form of cache: what it shows, counts and answers agree. The laws are in laws.py."""

from __future__ import annotations

from itertools import product

import pytest

import kvplan
from kvplan import engines
from kvplan.engines import ENGINES
from kvplan.errors import UnsupportedError
from kvplan.forms import FORMS, STATES
from kvplan.spec import ModelSpec
from tests.contract import laws
from tests.contract.models import DEVICES, MIXERS, forms_of, model

#: Releases that keep caches differently, beside the newest of every engine.
OLDER = [("transformers", "5.0.0"), ("transformers", "4.57.6"), ("llama.cpp", "b7406"), ("vllm", "0.10")]
#: What one engine's own refusal answers for a form that its facts name.
REFUSED = {("vllm", "rwkv")}
CATALOGUE = (
    "meta-llama/llama-3.1-8b", "google/gemma-3-27b", "deepseek-ai/deepseek-v3", "deepseek-ai/deepseek-v4-flash", "state-spaces/mamba2-2.7b",
    "openai/gpt-oss-20b", "openai/whisper-large-v3", "qwen/qwen3-next-80b-a3b", "meta-llama/llama-3.2-11b-vision", "tiiuae/falcon-7b",
    "openbmb/minicpm3-4b",
)  # fmt: skip
HELD = {engine: [form for form in MIXERS if form in engines.facts(engine).forms and (engine, form) not in REFUSED] for engine in ENGINES}


def test_every_form_and_engine_is_here() -> None:
    assert {form for name in MIXERS for form in forms_of(model(name))} == set(FORMS)
    assert all(name in forms_of(model(name)) for name in MIXERS)
    assert set(DEVICES) == set(ENGINES)


@pytest.mark.parametrize(("engine", "version"), [*((engine, None) for engine in ENGINES), *OLDER])
def test_every_form_is_held_or_refused(engine: str, version: str | None) -> None:
    for form in MIXERS:
        in_v1 = {"use_v1": "true"} if engine == "vllm" and version and form in STATES else {}  # V0's: test_vllm_v0_states.py
        with laws.of(form):
            laws.form_is_held_or_refused(engine, form, model(form), engine_version=version, engine_option=in_v1)


@pytest.mark.parametrize("limit", ["device", "kv_memory"])
@pytest.mark.parametrize("engine", ENGINES)
def test_sequences_cost_what_they_hold(engine: str, limit: str) -> None:
    for form in HELD[engine]:
        with laws.of(form):
            laws.sequences_cost_what_they_hold(engine, model(form), **{limit: DEVICES[engine][0] if limit == "device" else laws.ROOM})


@pytest.mark.parametrize("engine", ENGINES)
def test_more_memory_never_hurts(engine: str) -> None:
    for form in HELD[engine]:
        with laws.of(form):
            laws.memory_never_hurts(engine, model(form))


#: Kernels that were not read: the form is refused by name on such a device.
NOT_MODELLED = {("vllm", "latent+pooled-index", "mi300x"), ("sglang", "compressed+shared", "mi300x")}


@pytest.mark.parametrize(("engine", "form", "device"), sorted(NOT_MODELLED))
def test_what_is_not_modelled_on_a_device_says_so(engine: str, form: str, device: str) -> None:
    with pytest.raises(UnsupportedError, match="are not modelled"):
        laws.ask(model(form), engine=engine, context=3000, device=device)


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_add_up_and_the_verdict_agrees(engine: str) -> None:
    rooms: list[dict[str, str]] = [*({"device": device} for device in DEVICES[engine]), {"kv_memory": "8MiB"}, {}]
    for form, question, batch in product(HELD[engine], rooms, (3, 300)):
        if (engine, form, question.get("device")) not in NOT_MODELLED:
            with laws.of(form, question, batch):
                plan = laws.ask(model(form), engine=engine, context=3000, batch=batch, **question)
                laws.adds_up(plan)
                laws.verdict_agrees(plan)


@pytest.mark.parametrize("engine", ENGINES)
def test_models_of_the_catalogue(engine: str) -> None:
    specs = [spec for spec in map(kvplan.model, CATALOGUE) if forms_of(spec) <= engines.facts(engine).forms]
    for spec in specs:
        with laws.of(spec.id):
            is_answered(engine, spec)


def is_answered(engine: str, spec: ModelSpec) -> None:
    try:
        loads = laws.ask(spec, engine=engine, context=1000).starts is not False
    except UnsupportedError:
        return  # a class of this model that the engine keeps in its own way, refused by name
    for device in DEVICES[engine]:
        plan = laws.ask(spec, engine=engine, context=4000, batch=7, device=device, max_model_len=8192)
        laws.adds_up(plan)
        laws.verdict_agrees(plan)
    if loads and engines.facts(engine).pool == "grows":
        laws.holds_what_it_shows(engine, spec)
