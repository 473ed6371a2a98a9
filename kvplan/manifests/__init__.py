"""Serve commands, compose, Kubernetes and Helm values -> a question and a verdict; and a plan -> a command or manifest."""

from __future__ import annotations

from kvplan.engines.common.words import Finding, Place, Unresolved
from kvplan.manifests.check import Source, check, exit_code, judge
from kvplan.manifests.diff import Change, diff
from kvplan.manifests.emit import TARGETS, emit
from kvplan.manifests.read import read, read_file
from kvplan.manifests.values import Found, Verdict

__all__ = [
    "TARGETS",
    "Change",
    "Finding",
    "Found",
    "Place",
    "Source",
    "Unresolved",
    "Verdict",
    "check",
    "diff",
    "emit",
    "exit_code",
    "judge",
    "read",
    "read_file",
]
