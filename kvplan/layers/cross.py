"""Cross-attention: K and V of the encoder's tokens, written once per sequence."""

from __future__ import annotations

from typing import ClassVar, Literal

from kvplan.forms import Form
from kvplan.layers.attention import Grouped
from kvplan.layers.base import Tokens
from kvplan.tensors import CacheFormats, CacheTensor, Keep, TokenWork


class Cross(Grouped):
    """`encoder_tokens`: how many encoder tokens each sequence has, where the model fixes it; else the question says."""

    source: ClassVar[str] = "Vaswani et al. 2017, arXiv 1706.03762, encoder-decoder attention"
    form: ClassVar[Form] = "encoder-kv"
    kind: Literal["cross"]
    encoder_tokens: Tokens | None = None

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return self.kv_tensors(formats, Keep("source", self.encoder_tokens or 0))

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        return self.scores(Keep("source", self.encoder_tokens or 0))
