"""Parts that are installed apart: what to type where one is missing, for how this copy was installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kvplan.errors import KvplanError

#: A module that is not everywhere -> the extra that brings it.
EXTRAS = {"numpy": "simulate", "pyarrow": "sweep", "matplotlib": "plot", "distributed": "dask", "huggingface_hub": "hub", "torch": "gpu",
          "starlette": "web", "uvicorn": "web"}  # fmt: skip


def missing_module(error: ImportError) -> KvplanError | None:
    """What an import failed for, where an extra brings it."""
    module = (error.name or "").partition(".")[0]
    return missing(f"this needs {module}", EXTRAS[module]) if module in EXTRAS else None


def missing(what: str, extra: str, instead: str = "") -> KvplanError:
    """The error for something that needs an extra, with the line that installs it; `instead`: what does without."""
    otherwise = f", or {instead}" if instead else ""
    return KvplanError(f"{what}, which is not installed: {command(extra)}{otherwise}")


def command(extra: str, prefix: str = sys.prefix, package: Path = Path(__file__).parent) -> str:
    """Installs an extra into a copy made by pipx, by `uv tool`, from a clone, or by pip."""
    parts, wanted = Path(prefix).parts, f"kvplan-llm[{extra}]"
    clone = package.parent if os.path.isfile(package.parent / "pyproject.toml") else None
    source = f"{clone}[{extra}]" if clone else wanted
    if "pipx" in parts:
        return f"pipx install --force '{source}'"
    if "uv" in parts and "tools" in parts:
        return f"uv tool install --force '{source}'"
    return f"{Path(prefix, 'bin', 'python')} -m pip install {'-e ' if clone else ''}'{source}'"
