"""README and docs are true: every command and snippet in them runs, what they show is printed, links and anchors lead somewhere.

`pytest tests/docs --rewrite-golden` writes the outputs that pages show, the reference and the picture anew.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import cache

import pytest

from kvplan.cli import run
from tests.docs.pages import PAGES, ROOT, anchors, blocks, links, rewritten
from tools import first_picture, hit_picture, notebook, reference

#: Commands that do not return, or that read what only a reader has.
NOT_RUN = ("serve",)


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys) -> Callable[[str], str]:
    """Runs a command of a page in a folder of its own that looks like the checkout; what it printed."""
    for path in ROOT.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVPLAN_CALIBRATION", str(tmp_path / "calibration.yaml"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("COLUMNS", raising=False)

    @cache
    def told(command: str) -> str:
        program, *words = shlex.split(command)
        assert program == "kvplan", command
        if words[0] in NOT_RUN:
            return ""
        code = run(words)
        out, err = capsys.readouterr()
        assert code in (0, 1), f"{command}: {err}"
        assert not err, command
        assert out, command
        return out

    return told


@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs_and_prints_what_is_shown(page, answer, request):
    text = PAGES[page].read_text(encoding="utf-8")
    for command in (command for block in blocks(text) for command in block.commands):
        if command.startswith("kvplan "):
            answer(command)
        else:
            assert command.split()[0] in ("git", "cd", "make", "."), command
    now = rewritten(text, answer)
    if request.config.getoption("--rewrite-golden") and now != text:
        PAGES[page].write_text(now, encoding="utf-8")
    assert now == text or request.config.getoption("--rewrite-golden")


@pytest.mark.parametrize("page", [page for page, path in PAGES.items() if "```python\n" in path.read_text(encoding="utf-8")])
def test_every_python_block_runs(page, answer, capsys):
    """The blocks of a page are one program. A block of `>>>` is a doctest (tests/unit/manifests)."""
    names: dict[str, object] = {}
    for block in blocks(PAGES[page].read_text(encoding="utf-8")):
        if block.language == "python" and not block.body.startswith(">>>"):
            exec(compile(block.body, page, "exec"), names)
            for expected in re.findall(r"# prints (.+)$", block.body, re.MULTILINE):
                assert expected in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = PAGES[page]
    for link in links(path.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        if page != "README.md":
            assert target.resolve().parent == ROOT / "docs", f"{link}: the site has docs/ alone"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


def test_every_page_is_in_the_menu_once():
    menu = re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(menu) == sorted(path.name for page, path in PAGES.items() if page != "README.md")


def test_every_target_of_make_that_is_named_exists():
    made = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page, path in PAGES.items():
        named = set(re.findall(r"(?:^|`|\$ | {4})make ([a-z][\w-]*)", path.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= made, page


#: Files that a tool makes, and what it makes of them.
MADE = {
    "docs/reference.md": reference.page,
    "docs/first-answer.svg": first_picture.picture,
    "docs/hit-curve.svg": hit_picture.picture,
    "examples/capacity.ipynb": lambda: notebook.notebook(PAGES["docs/python.md"].read_text(encoding="utf-8")),
}


@pytest.mark.parametrize("name", MADE)
def test_what_a_tool_makes_is_what_it_would_make_now(name, request):
    path, made = ROOT / name, MADE[name]()
    if request.config.getoption("--rewrite-golden"):
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made
