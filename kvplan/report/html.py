"""One self-contained page: opens offline, prints, follows the reader's dark or light. Foreign text is text; it can ask for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.ledger import Entry, Ledger
from kvplan.planner.plan import Plan
from kvplan.report import answer, assumed
from kvplan.report.drawn import cache_curve, device_bars, text
from kvplan.report.first import model_line
from kvplan.report.words import engine, printed, shown
from kvplan.units import size

#: Nothing is fetched, run, sent or framed; styles are the page's own.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--faint:#6a737d;--rule:#d8dee4;--weights:#3b6fb6;--cache:#2e8b57;
--cache-to-spare:#8fd0a8;--overhead:#d9902f;--lacking:#c93c37;--free:#e6eaee}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--paper:#14171a;--faint:#98a2ac;--rule:#343a40;--weights:#6c9fe0;--cache:#54b97f;
--cache-to-spare:#2f6b48;--overhead:#e0a550;--lacking:#ee6a64;--free:#2a2f35}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.45rem;line-height:1.35;border-left:.4rem solid var(--faint);padding-left:.8rem}
h1.yes{border-color:var(--cache)}h1.no{border-color:var(--lacking)}h1.close{border-color:var(--overhead)}
h2{font-size:1.05rem;margin:2rem 0 .4rem}figure{margin:1rem 0}figcaption{font-weight:600}svg{width:100%;height:auto;display:block}
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
.legend{list-style:none;padding:0;margin:.3rem 0;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;print-color-adjust:exact}
.weights{fill:var(--weights);background:var(--weights)}.cache{fill:var(--cache);background:var(--cache)}
.cache-to-spare{fill:var(--cache-to-spare);background:var(--cache-to-spare)}.overhead{fill:var(--overhead);background:var(--overhead)}
.lacking{fill:var(--lacking);background:var(--lacking)}.free{fill:var(--free);background:var(--free)}
line.limit{stroke:var(--ink);stroke-width:2;stroke-dasharray:5 3}i.limit{background:var(--ink);width:.2em}line.asked{stroke:var(--faint)}
.bound{fill:none;stroke:var(--faint);stroke-width:1.5;stroke-dasharray:4 3;background:var(--faint)}i.curve{background:var(--cache)}
.axis{fill:none;stroke:var(--faint)}.curve{fill:none;stroke:var(--cache);stroke-width:2.5}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;vertical-align:top;
padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--rule)}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
blockquote{margin:.5rem 0;padding-left:.8rem;border-left:3px solid var(--rule);font-family:ui-monospace,monospace;font-size:.9rem}
footer{margin-top:2rem;color:var(--faint);font-size:.85rem}
@media print{body{margin:0;max-width:none;font-size:11pt}figure,tr{break-inside:avoid}svg{print-color-adjust:exact}.wide{overflow:visible}}
"""
NOTHING = "<p>nothing was found</p>"
Rows = Sequence[Sequence[object]]


def plans_text(plans: Sequence[Plan], fmt: str) -> str:
    """One plan in full; several are a row each."""
    if len(plans) != 1:
        from kvplan.report.table import summary

        return rows_text([summary(plan) for plan in plans], fmt)
    plan = plans[0]
    body = [f'<h1 class="{verdict(plan)}">{text(answer.sentence(plan))}</h1>', f"<p>{text(model_line(plan))}</p>", device_bars(plan)]
    body += [section(title, content) for title, content in _sections(plan) if content]
    return page(f"{plan.model.name}: {engine(plan)}", "".join(body))


def verdict(plan: Plan) -> str:
    """The class of its sentence: yes, no, close (too close to call, or in two places) or open."""
    return "close" if plan.certainty == "too close to call" or plan.outcome.split else {True: "yes", False: "no", None: "open"}[plan.fits]


def rows_text(rows: Sequence[dict[str, Any]], fmt: str) -> str:
    """Rows of equal keys as a page with one table."""
    return page("kvplan", rows_table(rows) or NOTHING)


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of equal keys as a table of a page."""
    return table(list(rows[0]), [[_shown(value) for value in row.values()] for row in rows]) if rows else ""


def facts(values: Mapping[str, Any]) -> str:
    """Names and values as a table within a page; what has no value is left out."""
    return table(("name", "value"), [(name, _shown(value)) for name, value in values.items() if value not in (None, (), [], {})])


def question(plan: Plan) -> str:
    """Every name of a plan's question, its value and who chose it, as a section of a page."""
    return section(*_asked(plan))


def _asked(plan: Plan) -> tuple[str, str]:
    rows = [(name, _shown(value), by) for name, (value, by) in plan.question.items()]
    return "The question, and who chose what", table(("name", "value", "chosen by"), rows)


def report(heading: str, rows: Sequence[dict[str, Any]], more: Mapping[str, str]) -> str:
    """A page: a heading, rows, then sections of markup by their titles; those without any are left out."""
    sections = "".join(section(title, content) for title, content in more.items() if content)
    return page(heading, f"<h1>{text(heading)}</h1>{rows_table(rows) or NOTHING}{sections}")


def page(title: str, body: str) -> str:
    """A whole document around markup that is escaped already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n<body>{body}\n"
        f"<footer>made by kvplan</footer></body></html>"
    )


def section(title: str, content: str) -> str:
    return f"\n<h2>{text(title)}</h2>\n{content}"


def _sections(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "How far it goes", table(("what", "how much"), answer.next_numbers(plan))
    changes = [(answer.options(one), one.change, size(one.margin_bytes), one.certainty) for one in answer.changes(plan)]
    yield answer.advice_title(plan).capitalize(), table(("option", "what that is", "leaves", "certainty"), changes)
    yield "The cache against the length", cache_curve(plan)
    yield "Assumed", what_is_assumed(plan)
    yield from every_line(plan)


def what_is_assumed(plan: Plan) -> str:
    """Each assumption with who made it, then the notes."""
    return table(("what", "by whom", "changed with"), assumed.rows(plan)) + listed(assumed.notes(plan))


def every_line(plan: Plan) -> Iterator[tuple[str, str]]:
    """The tables under the answer: title and markup, empty where there is nothing to show."""
    for ledger in plan.ledgers:
        yield _title(ledger), table(("line", "size", "bytes", "basis", "90 % of cases", "source"), _lines(ledger))
    host = [_line(entry) for entry in plan.outcome.host]
    yield "RAM of one server", table(("line", "size", "bytes", "basis", "90 % of cases", "source"), host)
    yield "The cache by layers", table(("layers", "how many", "keep", "size", "bytes a sequence", "source"), [
        (g.kind, f"{g.layers:,}", g.keep, size(g.bytes_per_sequence), f"{g.bytes_per_sequence:,}", g.source) for g in plan.cache.layers
    ])  # fmt: skip
    yield (
        "What may run out later",
        table(("what", "takes", "what removes it"), [(one.name, size(one.bytes), one.removes) for one in plan.outcome.risks]),
    )
    yield _asked(plan)
    yield f"What {engine(plan)} would print", "".join(f"<blockquote>{text(line)}</blockquote>" for line in printed(plan))


def _title(ledger: Ledger) -> str:
    limit = "" if ledger.limit_bytes is None else f", limit {size(ledger.limit_bytes)} ({ledger.limit_bytes:,} B)"
    return f"{ledger.place}{', each' if len(ledger.ranks) > 1 else ''}: {size(ledger.total_bytes)} ({ledger.total_bytes:,} B){limit}"


def _lines(ledger: Ledger) -> Rows:
    return [_line(entry) for entry in ledger.entries] + [_line(entry, "beside it: ") for entry in ledger.outside]


def _line(entry: Entry, before: str = "") -> Sequence[object]:
    span = "" if entry.low == entry.high else f"{size(entry.low)} to {size(entry.high)}"
    return (before + entry.name, size(entry.bytes), f"{entry.bytes:,}", entry.basis, span, entry.source)


def _shown(value: Any) -> str:
    if not isinstance(value, tuple):
        return shown(value)
    return ", ".join("=".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value) or "-"


def table(headers: Sequence[str], rows: Rows) -> str:
    """A table, or nothing for no rows; cells that begin with a digit to the right."""
    if not rows:
        return ""
    head = "".join(f"<th>{text(name)}</th>" for name in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    kind = ' class="n"' if str(value)[:1].isdigit() else ""
    return f"<td{kind}>{text(value)}</td>"


def listed(lines: Sequence[str]) -> str:
    """Lines as a list within a page."""
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>" if lines else ""
