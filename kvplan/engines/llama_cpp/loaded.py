"""A settled question as llama.cpp sees it: the model as rows and weights, the rules, the options. Nothing here changes with the length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvplan.constants import Constants, Record
from kvplan.deployment import Deployment
from kvplan.engines.common.lines import Span
from kvplan.engines.common.measured import find_record
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.llama_cpp import caches, compute, context, named, options
from kvplan.engines.llama_cpp.caches import Rows
from kvplan.engines.llama_cpp.compute import NO_SPAN
from kvplan.engines.llama_cpp.facts import FACTS
from kvplan.engines.llama_cpp.named import Named
from kvplan.engines.llama_cpp.options import LlamaOptions
from kvplan.engines.llama_cpp.placement import Placed
from kvplan.engines.llama_cpp.rules import LlamaRules
from kvplan.tensors import Layer, Lowered
from kvplan.weights import WeightFormats


class Loaded(NamedTuple):
    """What does not change with the length: the model as rows and weights, the rules, the options.

    tensors       those of each layer, by the names that a GGUF file has for them
    images        the graph of the largest image, which shares a compute buffer with that of the text, beside the output layer
    deals         the placements made so far: searches ask for the same ones at many lengths
    image_batch   tokens of the batch that takes that image; 0: no more than others
    reserve_said  the question says what others hold of the cards; else a desktop may
    images_said   the question says whether it takes images, or the engine loads a projector by itself; else --mmproj may be left out
    """

    question: Deployment
    options: LlamaOptions
    rules: LlamaRules
    model: Lowered
    formats: WeightFormats
    rows: tuple[Rows, ...]
    draft_rows: tuple[Rows, ...]
    widths: compute.Widths
    tensors: tuple[tuple[Named, ...], ...]
    constants: Constants | None
    record: Record | None
    deals: dict[object, Placed]
    drafter: Loaded | None = None
    images: Span = NO_SPAN
    image_batch: int = 0
    reserve_said: bool = False
    images_said: bool = True

    @property
    def vendor(self) -> str:
        """The cards' maker; nothing where none is given."""
        return self.question.device.vendor if self.question.device else ""

    @property
    def may_show_desktops(self) -> bool:
        """A desktop may be on the first card, and nobody says so."""
        device = self.question.device
        shows = device is not None and device.shows_desktops and not device.is_what_was_free
        return shows and not self.reserve_said

    @property
    def shares_with_the_system(self) -> bool:
        """The card's memory is the host's, all of it, and nobody says what others hold. Apple's limit leaves the system its part."""
        device = self.question.device
        return device is not None and device.unified and device.vendor != "apple" and not self.reserve_said

    def memory(self, device: int) -> int:
        """Bytes of a device; 0 where none is given."""
        if self.options.device_memory:
            return self.options.device_memory[device if self.options.split_mode != "none" else self.options.main_gpu]
        return self.question.device.memory_bytes if self.question.device else 0

    @property
    def is_mla(self) -> bool:
        return any(row.latent or row.raw for row in self.rows)


def load(d: Deployment, rules: LlamaRules, model: Lowered, drafter: Loaded | None = None) -> Loaded:
    """Read the rows of a model as llama.cpp keeps it, and the options. The tensors' formats are not used: rows are counted in elements.

    drafter  a draft model of its own (-md), which gets a context like the target's
    """
    known: dict[int, Rows] = {}
    formats = weight_formats(d)

    def read(layers: Iterable[Layer]) -> tuple[Rows, ...]:
        for layer in layers:
            if id(layer) not in known:
                known[id(layer)] = caches.rows(layer)
        return tuple(known[id(layer)] for layer in layers)

    return Loaded(
        question=d,
        options=options.read(d),
        rules=rules,
        model=model,
        formats=formats,
        rows=read(model.layers),
        draft_rows=read(model.draft) if context.draft_method(d) == "mtp" else (),
        widths=compute.widths(model, d.model.hidden_size, d.model.vocab_size or 0),
        tensors=named.layers_of(model, formats, d.stored),
        constants=d.constants if d.constants is not None and d.constants.engine == "llama.cpp" else None,
        record=find_record(d, FACTS, f"b{rules.build}") if d.max_num_seqs else None,
        deals={},
        drafter=drafter,
    )
