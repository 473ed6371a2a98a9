"""The page tables of one request's sequences, forked and copied on write.

The PagedAttention paper's manager (arXiv 2309.06180, section 4.4; vLLM 0.6 `vllm/core/block_manager.py`, fork and append_slots): the
sequences of a request enter, leave and are preempted together; prompt pages are stored once; who writes to a page that others hold too
gets a copy of it. When a beam dies and another takes its place, the pages that only the dead one held are free.

Which beams die is the model's doing, and nobody publishes statistics of it. Assumed here: with t tokens generated, one beam drawn at
random is replaced by a fork of another with probability `TURNOVER` / t a step. The tokens since the last common ancestor are then a fixed
share of the answer, whatever its length, as beams of long answers do differ by more. docs/simulate.md has what other values give.
"""

from __future__ import annotations

from random import Random

from kvplan.units import cdiv

TURNOVER = 16.0


class Fork:
    """The page tables of one request's sequences; pages are numbered within the request. `tokens`: stored in each sequence."""

    __slots__ = ("beam", "block", "holders", "made", "prompt", "random", "tables", "tokens")

    def __init__(self, width: int, beam: bool, prompt: int, block: int, seed: int) -> None:
        pages = cdiv(prompt, block)
        self.beam, self.block, self.prompt, self.tokens = beam, block, prompt, prompt
        self.random = Random(seed)
        self.tables = [list(range(pages)) for _ in range(width)]
        self.holders = dict.fromkeys(range(pages), width)
        self.made = pages

    def reshuffle(self) -> int:
        """Perhaps a beam dies and another forks in its place: the pages that are free then."""
        generated = self.tokens - self.prompt
        if not self.beam or generated < 1 or self.random.random() >= TURNOVER / generated:
            return 0
        dead, parent = self.random.sample(range(len(self.tables)), 2)
        before = len(self.holders)
        for page in self.tables[dead]:
            self._drop(page)
        self.tables[dead] = list(self.tables[parent])
        for page in self.tables[dead]:
            self.holders[page] += 1
        return before - len(self.holders)

    def _drop(self, page: int) -> None:
        self.holders[page] -= 1
        if not self.holders[page]:
            del self.holders[page]

    def needed(self) -> int:
        """New pages that one more token of every sequence takes: of its own at a page's end, a copy where the last page is shared."""
        if self.tokens % self.block == 0:
            return len(self.tables)
        return len(self.tables) - len({table[-1] for table in self.tables})

    def write(self) -> None:
        """One more token for every sequence."""
        fresh = self.tokens % self.block == 0
        for table in self.tables:
            if not fresh:
                if self.holders[table[-1]] == 1:
                    continue
                self._drop(table.pop())
            table.append(self.made)
            self.holders[self.made] = 1
            self.made += 1
        self.tokens += 1
