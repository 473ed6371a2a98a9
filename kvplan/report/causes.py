"""What is known of an engine's error, as text: each cause with what moves it, flat rows, or the contract's object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.planner.plan import plain
from kvplan.report import STRUCTURED, render_data
from kvplan.report.printable import one_line
from kvplan.report.structured import dump

if TYPE_CHECKING:
    from kvplan.startup_logs.why import Cause, Why


def render(found: Why, fmt: str) -> str | bytes:
    """The causes in a format; nothing where rows are asked for and there are none."""
    if fmt in STRUCTURED:
        return dump(plain(found.as_dict()), fmt)
    if fmt == "table":
        return "\n\n".join(_shown(cause) for cause in found.causes) or _unknown(found)
    return render_data(_rows(found), fmt) if found.causes else ""


def _shown(cause: Cause) -> str:
    lines = [f"{cause.engine or 'any engine'}{_releases(cause)}: {one_line(cause.name)}", f"  {one_line(cause.text)}"]
    lines += [f"  means: {one_line(cause.means)}", *(f"  {word}" for word in _moves(cause)), f"  source: {cause.source}"]
    return "\n".join(lines)


def _moves(cause: Cause) -> list[str]:
    return [f"{'then' if i else 'try'}: {one_line(f'{_setting(m.setting, m.flag)}{m.how}')}" for i, m in enumerate(cause.moves)]


def _setting(name: str, flag: str) -> str:
    return f"{flag or name}: " if name else ""


def _releases(cause: Cause) -> str:
    since = f" from {cause.since} on" if cause.since else ""
    return f"{since}{' and' if since and cause.before else ''}{f' before {cause.before}' if cause.before else ''}"


def _rows(found: Why) -> list[dict[str, object]]:
    return [{**cause._asdict(), "moves": "; ".join(f"{_setting(m.setting, m.flag)}{m.how}" for m in cause.moves)} for cause in found.causes]


def _unknown(found: Why) -> str:
    if not found.nearest:
        return "nothing is known of this text; give the engine's own lines, or its whole log: kvplan why FILE"
    return "\n".join(["nothing is known of this text; nearest to it:", *(f"  {known}" for known in found.nearest)])
