"""The verdicts of `check` as text for people. Verdicts come as plain data (Verdict.as_dict), as the other formats of check take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.report.printable import one_line
from kvplan.units import counted

#: Notes that say what was not read, or what is taken because the file does not say it.
SHOWN = frozenset({"not-read", "tag", "unknown-variable"})
MARKS = {"fits": "ok", "starts": "NO", "refuses": "NO", "unknown": "??", "broken": "!!", "empty": "--"}


def text(verdicts: Sequence[dict[str, Any]]) -> str:
    """A line a verdict, its findings below with their places, a count at the end."""
    lines = []
    hidden = 0
    for v in verdicts:
        name = "" if v["name"] == v["file"] else f" {one_line(v['name'])}"  # a file that starts none
        lines.append(f"{MARKS[v['status']]} {one_line(v['file'])}:{v['line']}{name}: {one_line(v['message'])}")
        for f in v["findings"]:
            more = f["message"].removeprefix(v["message"]).removeprefix("; ")  # what the line above has not said yet
            is_shown = f["severity"] != "note" or f["rule"] in SHOWN
            hidden += not is_shown
            if is_shown and more:
                place = f"{one_line(v['file'])}:{f['line']}:{f['column']}"
                lines.append(f"     {place} {f['severity']}: {one_line(more)} [{f['rule']}]")
    counts = [f"{n} {status}" for status in MARKS if (n := sum(v["status"] == status for v in verdicts))]
    more = f"; {counted(hidden, 'note')} more: --format json" if hidden else ""
    return "\n".join([*lines, "", ", ".join(counts) + more]) if lines else "nothing to check"


def change_text(changes: Sequence[dict[str, Any]]) -> str:
    """What a change does: settings, memory of the fullest rank, capacity; only what differs."""
    from kvplan.units import show_bytes

    lines = []
    for change in changes:
        status = change["status"]
        was = f"{one_line(change['was'])} -> " if change["was"] not in (None, change["name"]) else ""
        lines.append(f"{was}{one_line(change['name'])}: {status['old'] or 'not there'} -> {status['new'] or 'not there'}")
        if status["new"] not in (None, "fits"):
            lines.append(f"  {one_line(change['message'])}")
        for title in ("settings", "memory", "capacity"):
            for key, pair in change[title].items():
                old, new = pair["old"], pair["new"]
                if old == new:
                    continue
                shown = [("-" if x is None else show_bytes(x)) if title == "memory" else _shown(x) for x in (old, new)]
                more = ""
                if title == "memory" and old is not None and new is not None:
                    more = f" ({'+' if new > old else '-'}{show_bytes(abs(new - old))})"
                lines.append(f"  {one_line(key)}: {one_line(shown[0])} -> {one_line(shown[1])}{more}")
    return "\n".join(lines) if lines else "no engine in either"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
