"""The laws on deliberately wrong engines: each must be caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pytest

from kvplan import engines, forms
from kvplan.engines import ENGINES
from kvplan.engines.common.protocol import Engine, Facts, Outcome, Settled
from kvplan.engines.common.settling import remade
from kvplan.forms import FORMS, Form
from kvplan.layers import MIXERS as KINDS
from kvplan.layers import latent
from kvplan.layers.latent import Mla
from kvplan.tensors import Cache, CacheFormats, CacheTensor
from tests.contract import laws
from tests.contract.models import DEVICES, GQA, MIXERS, model

PLAIN = model("kv")


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts an engine with other facts or another plan in a known one's place."""

    def put(name: str, *, facts: Facts | None = None, plan: Callable[[Settled], Outcome] | None = None) -> None:
        good = engines.find(name)
        wrong = Engine(facts or good.facts, good.settle, plan or good.plan, None)
        monkeypatch.setattr(engines, "find", lambda _: wrong)
        monkeypatch.setattr(engines, "facts", lambda _: wrong.facts)

    return put


def fattened(settled: Settled) -> Settled:
    """The same with seven times the elements in every tensor that keeps tokens."""

    def fat(cache: Cache) -> Cache:
        tensors = (t if t.tokens_per_state is None else replace(t, elems_per_state=7 * t.elems_per_state) for t in cache.tensors)
        return replace(cache, tensors=tuple(tensors))

    wrong = remade(settled.model, lambda _, cache: fat(cache))
    served = settled.settings._replace(served=wrong) if hasattr(settled.settings, "served") else settled.settings
    return settled._replace(model=wrong, settings=served)


@pytest.mark.parametrize("name", ["ideal", "vllm", "transformers", "mlx-lm", "exllamav3"])
def test_token_bytes_times_seven(name: str, instead: Callable[..., None]) -> None:
    good = engines.find(name)
    laws.form_is_held_or_refused(name, "kv", PLAIN)
    instead(name, plan=lambda settled: good.plan(fattened(settled)))
    with pytest.raises(AssertionError):
        laws.form_is_held_or_refused(name, "kv", PLAIN)


@pytest.mark.parametrize("name", ["ideal", "vllm", "transformers", "mlx-lm", "exllamav3", "sglang", "tensorrt-llm"])
def test_a_margin_that_ignores_the_batch(name: str, instead: Callable[..., None]) -> None:
    good, device = engines.find(name), DEVICES[name][0]
    laws.sequences_cost_what_they_hold(name, PLAIN, device=device)
    ignored = {"batch": 1, "max_num_seqs": 1, "max_model_len": 8192} if name == "exllamav3" else {"batch": 1}
    instead(name, plan=lambda settled: good.plan(settled._replace(question=replace(settled.question, **ignored))))
    with pytest.raises(AssertionError):
        laws.sequences_cost_what_they_hold(name, PLAIN, device=device)


@pytest.mark.parametrize("name", ENGINES)
def test_an_option_that_is_listed_and_not_read(name: str, instead: Callable[..., None]) -> None:
    known = engines.facts(name)
    instead(name, facts=known._replace(options={**known.options, "turbo": "faster"}))
    with pytest.raises(AssertionError):
        laws.options_are_read(name, PLAIN, ["turbo"], device=DEVICES[name][0])


@pytest.mark.parametrize(
    ("name", "form"), [("exllamav3", "encoder-kv"), ("exllamav3", "compressed"), ("vllm", "latent+window"), ("tensorrt-llm", "compressed")]
)
def test_a_form_that_is_declared_and_not_modelled(name: str, form: Form, instead: Callable[..., None]) -> None:
    laws.form_is_held_or_refused(name, form, model(form))
    instead(name, facts=engines.facts(name)._replace(forms=frozenset(FORMS)))
    with pytest.raises((AssertionError, KeyError)):
        laws.form_is_held_or_refused(name, form, model(form))


class HalfLatent(Mla):
    """A made-up kind: one latent for two tokens."""

    source: ClassVar[str] = "made up"
    kind: Literal["half_latent"]  # type: ignore[assignment]

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return tuple(replace(t, tokens_per_state=2) for t in super().cache(hidden, formats))


@pytest.mark.parametrize("name", ENGINES)
def test_a_kind_that_lowers_to_something_new_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "half_latent", ("latent", "HalfLatent"))
    monkeypatch.setattr(latent, "HalfLatent", HalfLatent, raising=False)
    (mla,) = MIXERS["latent"]
    assert mla is not None
    half: dict[str, Any] = {**mla, "kind": "half_latent"}
    blocks = {"b0": {"mixers": [half]}, "b1": {"mixers": [GQA]}}
    with pytest.raises(TypeError, match="form latent: a row of latent is for one token, not tokens"):
        laws.ask(model("none", blocks=blocks), engine=name, context=1000)


def test_misfits() -> None:
    row = CacheTensor(name="latent", heads=1, elems_per_state=8, dtype="bf16")
    assert forms.misfit("latent", [row]) is None
    assert forms.misfit("latent", [replace(row, tokens_per_state=2)]) == "form latent: a row of latent is for one token, not tokens"
    assert forms.misfit("kv", [replace(row, name="k")]) == "form kv lacks v"
    assert forms.misfit("kv", [row]) == "form kv has no tensor latent"
