"""Every (engine, release, way of drafting) has lines, a note or a refusal; a release without the method never starts with it."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from kvplan import engines
from kvplan.engines.common.methods import drafts_by
from kvplan.errors import KvplanError, SpecError
from tests.conftest import planned
from tests.contract.models import DEVICES

LLAMA, HEAD, TINY = "meta-llama/llama-3.1-8b", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "meta-llama/llama-3.2-1b"
#: Three releases of each: an old one, one between, the newest known.
RELEASES = {
    "vllm": ("0.6.6", "0.10.2", None), "sglang": ("0.4.3", "0.5.2", None), "tensorrt-llm": ("0.17.0", "1.0.0", None),
    "llama.cpp": ("b3000", "b9000", None), "ollama": ("0.12.0", "0.30.0", None), "lmdeploy": ("0.10.2", "0.12.0", None),
    "mlx-lm": ("0.19.3", "0.21.0", None), "exllamav3": ("0.0.12", "1.0.0", None), "transformers": ("4.28.0", "4.36.0", None),
}  # fmt: skip
MODELS = {"draft_model": TINY, "standalone": TINY, "draft_target": TINY, "eagle": HEAD, "eagle3": HEAD, "medusa": "X/m", "dflash": "X/d"}
ALL = sorted({method for name in RELEASES for method in getattr(engines.facts(name).drafting, "methods", ())})


def asked(engine: str, method: str, version: str | None, **more: Any) -> Any:
    model = f":{MODELS[method]}" if method in MODELS else ""
    return planned(
        LLAMA, engine=engine, engine_version=version, device=DEVICES[engine][0], context=4096,
        **({"speculative": f"{method}:3{model}"} | more),
    )  # fmt: skip


@cache
def without(engine: str, version: str | None) -> Any:
    return asked(engine, "", version, speculative=None)


def test_every_engine_that_runs_a_model_is_here() -> None:
    assert set(RELEASES) == set(engines.ENGINES) - {"ideal"}


@pytest.mark.parametrize("engine", RELEASES)
def test_every_method_of_every_release_is_answered(engine: str) -> None:
    drafting = engines.facts(engine).drafting
    assert drafting is not None
    for version, method in product(RELEASES[engine], ALL):
        plain = without(engine, version)
        try:
            plan = asked(engine, method, version)
        except SpecError as error:
            assert method not in drafting.methods, error  # noqa: PT017
            assert f"{method!r} of" in str(error)  # noqa: PT017
            continue
        if not drafts_by(drafting, method, version):
            assert plan.starts is False, (engine, version, method)
            assert f"does not draft by {method}: it is there" in plan.verdict
        lines = [(e.name, e.bytes) for e in plan.ledgers[0].entries] != [(e.name, e.bytes) for e in plain.ledgers[0].entries]
        said = set(plan.model.notes) - set(plain.model.notes)
        assert lines or said or plan.outcome.unknown or plan.outcome.reason, (engine, version, method)


@pytest.mark.parametrize("engine", RELEASES)
def test_a_method_that_nobody_has_is_an_error(engine: str) -> None:
    with pytest.raises(KvplanError, match="no method 'banana' of"):
        asked(engine, "banana", None)


#: Engine, release, METHOD, options, what it says; None: it starts. By the engines' own files, as their ways.py says.
CASES: list[tuple[str, str, str, dict[str, str], str | None]] = [
    ("vllm", "0.6.6", "eagle3", {}, "vLLM 0.6.6 (V0) does not draft by eagle3: it is there from 0.8.5 on (V1)"),
    ("vllm", "0.8.5", "eagle3", {"use_v1": "true"}, None),  # V1's model runner: use_eagle, Eagle3LlamaForCausalLM
    (
        "vllm",
        "0.8.5",
        "eagle3",
        {},
        "vLLM 0.8.5 (V0) does not draft by eagle3",
    ),  # _warn_or_fallback("Eagle")
    ("vllm", "0.9.2", "draft_model", {}, None),  # V0's last spec_decode folder
    ("vllm", "0.10.0", "draft_model", {}, "Speculative decoding with draft model is not supported yet."),
    ("vllm", "0.14.1", "draft_model", {}, "Draft model speculative decoding is not supported yet."),
    ("vllm", "0.15.0", "draft_model", {}, None),
    ("vllm", "0.11.0", "suffix", {}, "method Input should be ... [type=literal_error, input_value='suffix'"),
    ("vllm", "0.12.0", "suffix", {}, None),
    ("vllm", "0.10.2", "mlp_speculator", {}, "Unknown speculative decoding method: mlp_speculator"),
    ("vllm", "0.33.0", "medusa", {}, "it is there from 0.5.2 on, before 0.10 (V0); from 0.9 on, before 0.33 (V1)"),
    ("sglang", "0.5.2", "ngram", {}, "argument --speculative-algorithm: invalid choice: 'NGRAM'"),
    ("sglang", "0.5.3", "ngram", {}, None),
    ("sglang", "0.4.3.post4", "eagle3", {}, "argument --speculative-algorithm: invalid choice: 'EAGLE3'"),
    ("tensorrt-llm", "0.17.0", "suffix", {}, "does not draft by suffix: it is there from 1.3 on (pytorch)"),
    ("tensorrt-llm", "0.19.0", "ngram", {"backend": "pytorch"}, "Invalid decoding type: NGram"),
    ("tensorrt-llm", "0.15.0", "ngram", {}, None),  # examples/prompt_lookup
    ("tensorrt-llm", "1.0.0", "lookahead", {}, "(pytorch) does not draft by lookahead"),  # LookaheadDecodingConfig.supports_backend
    ("tensorrt-llm", "1.0.0", "lookahead", {"backend": "tensorrt"}, None),
    ("llama.cpp", "b5000", "eagle3", {}, "error: invalid argument: --spec-type"),
    ("llama.cpp", "b9538", "eagle3", {}, "unknown model architecture: 'eagle3'"),
    ("llama.cpp", "b9713", "eagle3", {}, None),
    ("llama.cpp", "b4000", "draft_model", {"server": "true"}, "error: invalid argument: --model-draft"),
    ("llama.cpp", "b4000", "draft_model", {}, None),  # examples/speculative
    ("llama.cpp", "b8000", "lookahead", {"server": "true"}, "it is there in every release (its other programs)"),
    ("llama.cpp", "v0.5.0", "ngram", {}, None),  # a name that is no build is the newest
    ("ollama", "0.24.0", "mtp", {}, "does not draft by mtp: it is there from 0.30 on"),
    ("lmdeploy", "0.10.2", "eagle3", {}, "unrecognized arguments: --speculative-algorithm"),
    ("lmdeploy", "0.11.0", "eagle3", {"backend": "pytorch"}, None),
    ("lmdeploy", "0.17.0", "dflash", {"backend": "pytorch"}, "argument --speculative-algorithm: invalid choice: 'dflash'"),
    ("mlx-lm", "0.20.6", "draft_model", {}, "unrecognized arguments: --draft-model"),
    ("exllamav3", "0.0.12", "ngram", {}, "does not draft by ngram"),
    ("transformers", "4.36.0", "prompt_lookup", {}, "are not used by the model: ['prompt_lookup_num_tokens']"),
]


@pytest.mark.parametrize(("engine", "version", "method", "options", "said"), CASES)
def test_what_a_release_says(engine: str, version: str, method: str, options: dict[str, str], said: str | None) -> None:
    plan = asked(engine, method, version, engine_option=options)
    if said is None:
        assert plan.starts, plan.verdict
    else:
        assert plan.starts is False
        assert said in plan.verdict


def test_a_build_of_a_branch_may_have_it() -> None:
    """vLLM 0.21.1rc1 is before DSpark's 0.25, and starts with it are public: builds of a branch."""
    plan = asked("vllm", "suffix", "0.11.1.dev3+g1a2b3c4")
    assert plan.starts
    assert asked("vllm", "suffix", "0.11.0rc2").certainty == "too close to call"
    assert asked("vllm", "suffix", "0.11.0").starts is False


def test_names_of_one_classs_modules_are_its_own() -> None:
    """config/speculative.py: `deepseek_mtp` and `mtp` are one from 0.11 on; 0.9 knows qwen3_next_mtp not yet."""
    plans = [
        planned("deepseek-ai/deepseek-v3", engine="vllm", device="8xh200", tp=8, context=4096, speculative=f"{name}:1")
        for name in ("mtp", "deepseek_mtp")
    ]
    assert [(e.name, e.bytes) for e in plans[0].ledgers[0].entries] == [(e.name, e.bytes) for e in plans[1].ledgers[0].entries]
    assert asked("vllm", "qwen3_next_mtp", "0.9.2").starts is False


@pytest.mark.parametrize(
    ("model", "version", "said"),
    [
        ("qwen/qwen3-8b", "0.10.0", "Eagle3 is only supported for"),  # llama alone
        ("qwen/qwen3-8b", "0.10.1", None),  # SupportsEagle3 of models/qwen3.py
        ("qwen/qwen3-30b-a3b", "0.10.2", "no attribute 'set_aux_hidden_state_layers'"),  # models/qwen3_moe.py has it from 0.11.1 on
        ("qwen/qwen3-30b-a3b", "0.12.0", None),
        ("qwen/qwen3-next-80b-a3b", "0.23.0", "Model does not support EAGLE3 interface (Qwen3NextForCausalLM does from 0.24 on)"),
        ("qwen/qwen3-next-80b-a3b", "0.24.0", None),
        ("allenai/olmoe-1b-7b-0125", "0.33.0", "OlmoeForCausalLM does in no release that was read"),
    ],
)
def test_classes_that_eagle3_goes_with(model: str, version: str, said: str | None) -> None:
    plan = planned(
        model, engine="vllm", engine_version=version, device="h200", tp=2, context=1024, max_model_len=1024, speculative=f"eagle3:2:{HEAD}",
    )  # fmt: skip
    reason = plan.outcome.reason or ""
    assert said in reason if said else not any(word in reason.lower() for word in ("eagle3", "aux_hidden")), plan.verdict


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.5.0", "SGLang 0.5.0 knows no draft modules of Qwen3NextForCausalLM: it does from 0.5.2 on"),
        ("0.5.1.post3", None),
        ("0.5.2", None),
    ],
)
def test_models_whose_own_modules_sglang_knows(version: str, said: str | None) -> None:
    """configs/model_config.py of the wheels: Qwen3NextForCausalLMMTP is in 0.5.2 and not in 0.5.0rc2."""
    plan = planned(
        "qwen/qwen3-next-80b-a3b",
        engine="sglang",
        engine_version=version,
        device="h200",
        tp=4,
        context=4096,
        speculative="mtp:1",
    )
    assert (said in plan.verdict) if said else "knows no draft modules" not in plan.verdict


@pytest.mark.parametrize(
    ("model", "build", "said"),
    [
        ("deepseek-ai/deepseek-v3", "b10000", "model doesn't contain MTP layers (llama.cpp has no graph of the MTP modules of"),
        ("deepseek-ai/deepseek-v3", "b10231", None),  # the packages of b10069 and before lack deepseek2's graph_mtp
        ("qwen/qwen3.5-27b", "b9300", None),
    ],
)
def test_models_whose_modules_llama_cpp_has_a_graph_of(model: str, build: str, said: str | None) -> None:
    plan = planned(model, engine="llama.cpp", engine_version=build, device="h200", n_devices=8, context=4096, speculative="mtp:1")
    assert plan.starts if said is None else (plan.starts is False and said in plan.verdict)
