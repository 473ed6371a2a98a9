"""examples/capacity.ipynb: docs/python.md as a notebook, without outputs, for those who would rather try it.

`python tools/notebook.py docs/python.md examples/capacity.ipynb` writes it; a test compares the two, and runs the page's code.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_CODE = re.compile(r"^```python\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def notebook(page: str) -> str:
    """The file, in nbformat 4.5: a cell for each block of Python, one for the text before it. Links lead to the docs."""
    parts = _CODE.split(page)
    cells = [_cell(i, part.strip("\n"), code=i % 2 == 1) for i, part in enumerate(parts) if part.strip()]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def _cell(at: int, text: str, *, code: bool) -> dict[str, object]:
    if not code:
        text = re.sub(r"\]\((\w[\w-]*\.md)", r"](../docs/\1", text)
        return {"cell_type": "markdown", "id": f"text-{at}", "metadata": {}, "source": text.splitlines(keepends=True)}
    empty = {"execution_count": None, "outputs": []}
    return {"cell_type": "code", "id": f"code-{at}", "metadata": {}, **empty, "source": text.splitlines(keepends=True)}


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(notebook(source.read_text(encoding="utf-8")), encoding="utf-8")
