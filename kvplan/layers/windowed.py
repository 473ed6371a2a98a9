"""Softmax attention that keeps part of the past: sliding windows (with sink tokens) and local chunks."""

from __future__ import annotations

from typing import ClassVar, Literal

from kvplan.forms import Form
from kvplan.layers.attention import Grouped
from kvplan.layers.base import Tokens, TokensOrNone
from kvplan.tensors import CacheFormats, CacheTensor, Keep, TokenWork


class Sliding(Grouped):
    """Keeps the last `window` tokens, and the first `sink_tokens` where the model was made to keep them."""

    source: ClassVar[str] = "Longformer, arXiv 2004.05150; Mistral 7B, arXiv 2310.06825; StreamingLLM sinks, arXiv 2309.17453"
    kind: Literal["sliding"]
    window: Tokens
    sink_tokens: TokensOrNone = 0

    def cache_form(self) -> Form:
        return "kv+sinks" if self.sink_tokens else "kv"

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return self.kv_tensors(formats, Keep("window", self.window, self.sink_tokens))

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        return self.scores(Keep("window", self.window, self.sink_tokens))


class Chunked(Grouped):
    """Attends inside the current chunk only; the fullest moment is a whole chunk."""

    source: ClassVar[str] = "Llama 4: transformers modeling_llama4.py, attention_chunk_size"
    form: ClassVar[Form] = "kv"
    kind: Literal["chunked"]
    chunk: Tokens

    def cache(self, hidden: int, formats: CacheFormats) -> tuple[CacheTensor, ...]:
        return self.kv_tensors(formats, Keep("chunk", self.chunk))

    def work(self, hidden: int) -> tuple[TokenWork, ...]:
        return self.scores(Keep("chunk", self.chunk))
