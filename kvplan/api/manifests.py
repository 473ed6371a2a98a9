"""Manifests and serve commands, in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvplan.api.plans import estimate
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.manifests.diff import Change
    from kvplan.manifests.values import Verdict


def check(
    files: Sequence[str], *, models: Sequence[str] = (), env: Mapping[str, str] | None = None, strict: bool = False, **given: Any
) -> tuple[Verdict, ...]:
    """A verdict on every engine that files start: serve commands, scripts, compose, Kubernetes, Helm values. Nothing is executed.

    models  `ID` for every engine, or `TEXT=ID` where a file says TEXT
    env     variables that may be expanded besides those the files set themselves
    given   names of the contract that come before what the files say (`device="h100"`)
    """
    from kvplan.manifests.check import check as verdicts

    return verdicts(files, estimate, models=models, env=env, strict=strict, **given)


def diff(old: Sequence[str], new: Sequence[str], **given: Any) -> tuple[Change, ...]:
    """What a change from the old files to the new does to memory and capacity, engine by engine."""
    from kvplan.manifests.diff import diff as changes

    return changes(check(old, **given), check(new, **given))


def emit(model: str | ModelSpec, target: str, *, serve: str | None = None, **question: Any) -> str:
    """The command or manifest that starts the plan of a question: vllm, sglang, llama.cpp, compose, k8s and the like.

    serve  the name or path that the engine is to load; by default the checkpoint that the catalogue names
    """
    from kvplan.manifests.emit import emit as text

    return text(estimate(model, **question), target, model=serve)
