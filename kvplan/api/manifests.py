"""Manifests and serve commands, in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Unpack, cast

from kvplan import names
from kvplan.api.asking import hub_asked
from kvplan.api.plans import estimate
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.api.names import Question
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

    A file that can not be read is a verdict too (`status` broken). `kvplan.manifests.exit_code` makes one code of all.

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
    from kvplan.manifests.check import check as verdicts

    with hub_asked(hub):
        return verdicts(_listed(files), estimate, models=models, env=env, strict=strict, **given)


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


def emit(model: str | ModelSpec, target: str, *, serve: str | None = None, **question: Unpack[Question]) -> str:
    r"""The command or manifest that starts the plan of a question: vllm, sglang, llama.cpp, compose, k8s and the like.

    serve  the name or path that the engine is to load; by default the checkpoint that the catalogue names

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
    from kvplan import engines
    from kvplan.manifests.emit import emit as text

    plan = estimate(model, **question)
    engine = plan.question["engine"][0]
    loads_file = engine in engines.served() and engines.arguments(engine).placeholder
    typed = None if loads_file else _typed(model)
    return text(plan, target, model=serve or typed)


def _typed(model: str | ModelSpec) -> str | None:
    """The hub id that was typed, in its own case, where it is one that shares another's entry: that is what is to be served."""
    if not isinstance(model, str) or ":" in model or "/" not in model:
        return None
    line = names.exact(model.strip().lower())
    return line.name if line is not None and line.name != line.base else None
