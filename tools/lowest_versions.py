"""The lowest versions that pyproject.toml allows of what kvplan itself needs, as pip constraints: for `make test-lowest`.

    python tools/lowest_versions.py [EXTRA ...]

What these need in turn is pip's choice.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def constraints(extras: list[str]) -> list[str]:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *(need for extra in extras for need in project["optional-dependencies"][extra])]
    return [need.replace(">=", "==") + ".*" for need in dict.fromkeys(needs) if ">=" in need]


if __name__ == "__main__":
    print(*constraints(sys.argv[1:]), sep="\n")
