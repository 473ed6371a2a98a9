"""Manifests and serve commands, in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

from kvplan.api.allowed import hub_asked
from kvplan.api.plans import estimate
from kvplan.errors import SpecError
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.engines.common.arguments import Arguments
    from kvplan.manifests.check import Source
    from kvplan.manifests.diff import Change
    from kvplan.manifests.values import Verdict

    Files = str | PathLike[str] | Source | Sequence[str | PathLike[str] | Source]


def _listed(files: Files) -> list[str | Source]:
    """Paths as text, whether one was given or several."""
    one = isinstance(files, str | PathLike) or hasattr(files, "_fields")  # a Source is a named tuple
    several = cast("Sequence[str | PathLike[str] | Source]", [files] if one else files)
    return [fspath(file) if isinstance(file, PathLike) else file for file in several]


def check(
    files: Files,
    *,
    models: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    strict: bool = False,
    hub: bool = False,
    **given: Any,
) -> tuple[Verdict, ...]:
    r"""A verdict on every engine that files start: serve commands, scripts, compose, Kubernetes, Helm values. Nothing is executed.

    files   a path, or several, or texts as `Source(name, text)`
    models  `ID` for every engine, or `TEXT=ID` where a file says TEXT
    env     variables that may be expanded besides those the files set themselves
    hub     whether a model that is not known here is asked of the Hub
    given   names of the contract that come before what the files say (`device="h100"`)

    A file that can not be read is a verdict too (`status` broken). `kvplan.manifests.exit_code` makes one code of all. Raises KvplanError
    for values of `given` that are wrong whatever the files say.

    >>> from kvplan.manifests import Source, exit_code
    >>> serve = Source("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n  --max-model-len 32k --max-num-seqs 64")
    >>> (verdict,) = check([serve], device="h100-80gb")
    >>> verdict.status, verdict.exit_code
    ('fits', 0)
    >>> verdict.found.question["max_model_len"], verdict.found.places["max_num_seqs"].line
    (32000, 2)
    >>> (unnamed,) = check([serve])
    >>> [(open_fact.what, open_fact.give) for open_fact in unnamed.unresolved]
    [('device', '--device NAME')]
    >>> exit_code([verdict, unnamed])
    2
    """
    from kvplan.api.asking import values_of
    from kvplan.manifests.check import check as verdicts

    if given.get("engine") is not None:
        raise SpecError("engine", [("", "the files say which; leave it out, or ask kvplan.estimate of another")])
    options = values_of(given).get("engine_option", ())
    _of_some_engine(options)
    given |= {"engine_option": dict(options)} if options else {}
    with hub_asked(hub):
        return verdicts(_listed(files), estimate, models=models, env=env, strict=strict, **given)


def _of_some_engine(options: Sequence[tuple[str, str]]) -> None:
    """Raises SpecError for an engine option that no engine has; which of them a file starts is not known yet."""
    from kvplan import engines
    from kvplan.engines.common.own_names import has

    if not options:
        return
    known = {key for name in engines.ENGINES for key in engines.facts(name).options}
    tables = [engines.arguments(name) for name in engines.served()]
    others = [key for key, _ in options if key not in known and not any(has(table, key) for table in tables)]
    if faults := [(key[:60], "no engine has such an option; `kvplan engines NAME` lists those of one") for key in others]:
        raise SpecError("engine_option", faults)


def diff(old: Files, new: Files, **given: Any) -> tuple[Change, ...]:
    """What a change from the old files to the new does to memory and capacity, engine by engine; takes what `check` takes.

    >>> from kvplan.manifests import Source
    >>> before = Source("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-memory-bytes 16G")
    >>> after = before._replace(text=before.text + " --kv-cache-dtype fp8")
    >>> (change,) = diff([before], [after], device="h100-80gb")
    >>> change.settings
    {'kv_dtype': ('auto', 'fp8')}
    >>> change.capacity["tokens"]  # 2 x 32 layers x 8 heads x 128 x 2 bytes a token, then half of that, in 16 GiB
    (131072, 262144)
    >>> change.exit_code
    0
    """
    from kvplan.manifests.diff import diff as changes

    return changes(check(old, **given), check(new, **given))


def emit(
    model: str | PathLike[str] | ModelSpec, target: str, *, serve: str | None = None, fixed_pool: bool = False, **question: Unpack[Question]
) -> str:
    r"""The command or manifest that starts the plan of a question: vllm, sglang, llama.cpp, compose, k8s and the like.

    serve       the name or path that the engine is to load; by default the release that was typed, or that the catalogue names
    fixed_pool  write the size of the cache that is safe on the device, instead of leaving it to the engine

    Only what was asked for is written, in plain integers; `check` reads it back as the same question. Raises UnsupportedError for what
    the engine can not be told.

    >>> print(emit("meta-llama/llama-3.1-8b", "sglang", engine="sglang", device="h100", max_model_len="32k", tp=2))
    #!/bin/sh
    # kvplan: device=h100-80gb
    exec python3 -m sglang.launch_server \
      --model-path meta-llama/Llama-3.1-8B \
      --tensor-parallel-size 2 \
      --context-length 32768
    """
    return emitted(model, target, serve=serve, fixed_pool=fixed_pool, **question).text


class Emitted(NamedTuple):
    """What was written, the plan it starts, and what of it is not as asked."""

    text: str
    plan: Plan
    warnings: tuple[str, ...] = ()


def emitted(
    model: str | PathLike[str] | ModelSpec, target: str, *, serve: str | None = None, fixed_pool: bool = False, **question: Unpack[Question]
) -> Emitted:
    """What `emit` writes, with its plan.

    >>> emitted("meta-llama/llama-3.1-70b", "vllm", engine="vllm", device="l4").plan.fits
    False
    """
    from kvplan import engines
    from kvplan.manifests.emit import emit as text
    from kvplan.manifests.pool import fixed
    from kvplan.manifests.served import typed

    if target in engines.served() and question.get("engine") is None:
        question["engine"] = target
    plan = estimate(model, **question)
    engine = str(plan.asked("engine"))
    table = engines.arguments(engine) if engine in engines.served() else None
    if fixed_pool and table:
        more = fixed(plan, table, question.get("engine_version"))
        options = {**dict(plan.asked("engine_option") or {}), **more.pop("engine_option", {})}
        fuller: dict[str, Any] = {**question, **more} | ({"engine_option": options} if options else {})
        plan = estimate(model, **fuller)
    if serve is not None and not serve.strip():
        raise SpecError("serve", [("", "'' names nothing to load; write a name or a path, or leave it out")])
    name = serve or (typed(model, table) if table and isinstance(model, str) else None)
    written = text(plan, target, model=name)
    return Emitted(written, plan, tuple(_warnings(plan, None if serve else table)))


def _warnings(plan: Plan, table: Arguments | None) -> Iterator[str]:
    """What keeps the plan from being served as it was asked. `table`: of the engine, where it was left to it what is loaded."""
    from kvplan.manifests.served import means, tag

    id_ = str(plan.asked("model"))
    if (plan.starts is False or plan.fits is False) and not plan.outcome.split:
        yield plan.verdict
    if table and table.config == "modelfile" and ":" not in id_ and (name := tag(id_)) and not means(name, id_):
        yield f"{name} is not in the format of the plan; ask for {name}, or name what is served with --serve"
