"""What a load may take of each card: gpu_split and draft_gpu_split, autosplit_reserve, and what is loaded before the model.

turboderp-org/exllamav3 util/memory.py (set_memory_fraction_use, set_memory_fraction_reserve), model/model.py load_gen, model_init.py;
theroyallab/tabbyAPI backends/exllamav3/model.py create, load_model_sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.exllamav3.releases import Rules
from kvplan.errors import SpecError, UnsupportedError
from kvplan.units import GIB, MIB, counted

#: TabbyAPI's autosplit_reserve: of the first card; the others have the library's (Rules.kept_free).
KEPT_FREE = 96 * MIB


class Cards(NamedTuple):
    """Those of a load, in order.

    use      bytes that its tensors may take of each; empty: what is free
    kept     bytes of each that it leaves free
    drafter  which one the drafter is loaded onto
    drafts   bytes that the drafter's tensors may take; None: what is free
    """

    use: tuple[int, ...]
    kept: tuple[int, ...]
    drafter: int = 0
    drafts: int | None = None

    def taken(self, room: int, before: Sequence[int], rules: Rules) -> list[int]:
        """Bytes by which each card has less to give than the one with most.

        room    bytes of a card that are free for tensors; before: what is there already, of the drafter and of towers
        """
        left = [room - kept - there - self.again(there, rules) for kept, there in zip(self.kept, before, strict=True)]
        if self.use:
            cap = [use - (there if rules.split_of_all else 0) for use, there in zip(self.use, before, strict=True)]
            left = list(map(min, left, cap)) if room else cap
        return [max(left) - one for one in left]

    def again(self, there: int, rules: Rules) -> int:
        """Bytes that a load which leaves some free counts a second time: of what is there already."""
        return there if rules.counts_twice and not self.use else 0


def numbers(options: Options, key: str) -> tuple[float, ...]:
    """Numbers apart by commas, in brackets or not; none where nothing is said, or `auto`."""
    text = (options.text(key) or "").strip("[]() ")
    if text in ("", "auto"):
        return ()
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(abs(one) < 1e6 for one in found):
        raise SpecError("engine_option", [(key, f"{text[:60]!r}: write a number for each card, apart by commas, such as 8,15.5")])
    return found


def named(options: Options) -> int | None:
    """How many cards gpu_split names; None where it names none."""
    split = numbers(options, "gpu_split")
    if split and not any(one > 0 for one in split):
        raise SpecError("engine_option", [("gpu_split", "no card has more than 0 GB")])
    return sum(one > 0 for one in split) or None


def asked(d: Deployment, pp: int, rules: Rules) -> tuple[Cards, tuple[str, ...]]:
    """What a question says of its `pp` cards, and what is to be said. Raises SpecError, UnsupportedError."""
    options, tp = Options(d), d.tp or 1
    split, drafts = numbers(options, "gpu_split"), numbers(options, "draft_gpu_split")
    reserve, auto = numbers(options, "autosplit_reserve"), options.flag("gpu_split_auto", True)
    if tp > 1 and (split or drafts):
        raise UnsupportedError("gpu_split: under tensor parallelism channels and heads are dealt out by it, which is not modelled")
    if split and (named(options) or 0) != pp:
        have = f"{counted(named(options) or 0, 'card')} above 0, and the question has {pp:,}"
        raise SpecError("engine_option", [("gpu_split", f"{have}; write a number for each, 0 for one that is left out")])
    used = [i for i, one in enumerate(split) if one > 0] or list(range(pp))
    use = tuple(int(split[i] * GIB) for i in used) if split else ()
    notes, alone = [], pp * tp == len(reserve) == 1
    if len(split) == 1:
        notes.append("gpu_split: TabbyAPI reads none where a machine has one card; the library's scripts do (-gs)")
    if reserve and (split or not auto or tp > 1 or alone):
        why = "gpu_split" if split else "one card" if alone else "tensor parallelism" if tp > 1 else "gpu_split_auto off"
        notes.append(f"autosplit_reserve: TabbyAPI reads none with {why}")
        reserve = ()
    kept = tuple(rules.margin for _ in use) or _kept([one for one in reserve if one >= 0], pp, tp, rules)
    drafter = int(sum(one for one in drafts if one > 0) * GIB) if drafts else None
    return Cards(use, kept, _first(drafts, used), drafter), tuple(notes)


def _kept(reserve: Sequence[float], pp: int, tp: int, rules: Rules) -> tuple[int, ...]:
    """Bytes of each card; over tp what is left of all of them is dealt out."""
    said = [int(one * MIB) for one in reserve] or [KEPT_FREE]
    each = [*said, *[rules.kept_free] * (pp * tp)][: pp * tp]
    return tuple(max(sum(each[i * tp : i * tp + tp]) // tp, rules.margin) for i in range(pp))


def _first(drafts: Sequence[float], used: Sequence[int]) -> int:
    """Which of a load's cards is the first that draft_gpu_split names; without it the first."""
    if not drafts:
        return 0
    at = next((i for i, one in enumerate(drafts) if one > 0), None)
    if at is None or at not in used:
        raise SpecError("engine_option", [("draft_gpu_split", "its first card above 0 is none of the model's, which is not modelled")])
    return list(used).index(at)
