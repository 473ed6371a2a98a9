"""`estimate --plot`: the plan as a picture, its bars as long as its bytes, names as text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import kvplan
from kvplan.cli import run
from tests.conftest import one_block

pytest.importorskip("matplotlib", reason="the plot extra is not installed")

MODEL = "meta-llama/llama-3.1-8b"


def test_the_bars_are_the_bytes():
    from matplotlib.figure import Figure

    from kvplan.report.bars import bar_of
    from kvplan.report.picture import _bars, _curve

    plan = kvplan.estimate(MODEL, device="80GiB", engine="ideal", context="8k", batch=8)
    panel, curve = Figure().subplots(2, 1)
    _bars(panel, plan, [bar_of(plan, ledger) for ledger in plan.ledgers])
    # 8,030,261,248 parameters of 2 B; 8 x 8,192 tokens of 131,072 B; the rest of 80 GiB is free
    weights, cache = 2 * 8_030_261_248 / 2**30, 8.0
    assert [patch.get_width() for patch in panel.patches] == pytest.approx([weights, cache, 80 - weights - cache])
    _curve(curve, plan)
    tokens, gib = (list(values) for values in curve.lines[0].get_data())
    assert gib[-1] == pytest.approx(8 * tokens[-1] * 131_072 / 2**30)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_file_is_written_and_a_name_is_text(ending, tmp_path, capsys):
    from kvplan.report.picture import draw

    path = tmp_path / f"plan.{ending}"
    spec = one_block({"kind": "gqa", "heads": 2, "kv_heads": 2, "head_dim": 32}, name=r"a $x^{2$ <script> \u001b[31m")
    draw(kvplan.estimate(spec, device="24GiB", engine="ideal", context=64), str(path))
    assert path.stat().st_size > 5_000
    if ending == "svg":
        ElementTree.parse(path)
        assert "<script" not in path.read_text()
    assert run(["estimate", MODEL, "--kv-memory", "1GiB", "--context", "8k", "--plot", str(tmp_path / f"two.{ending}")]) in (0, 1)
    assert (tmp_path / f"two.{ending}").exists()
    capsys.readouterr()


def test_what_can_not_be_drawn_is_said_first(tmp_path, refused):
    path = str(tmp_path / "plan.png")
    for arguments, says in ((["--plot", "plan.txt"], "ends in .png"), (["--context", "8k,16k", "--plot", path], "one question")):
        assert says in refused("estimate", MODEL, *arguments)
