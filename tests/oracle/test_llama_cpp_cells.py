"""Our cells beside llama.cpp's own (llama-cpp-python 0.3.36), on random streams of requests.

A model of one tiny layer is written here and really run on the CPU, so that every batch asks the cache for cells. Compared after every
call: whether it finds room (`llama_decode` gives 1 where it does not), with one stream for all slots and with a stream each.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.simulate.cells import Cells
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.sequence import Sequence
from kvplan.simulate.workload import Request

pytestmark = [pytest.mark.llama_cpp_oracle, pytest.mark.filterwarnings("ignore")]

WIDTH, WORDS, SLOTS, CELLS = 32, 8, 4, 256  # llama.cpp rounds the cells of a stream up to 256


def write_model(path: Path) -> None:
    import gguf
    import numpy as np

    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(4096)
    out.add_embedding_length(WIDTH)
    out.add_block_count(1)
    out.add_feed_forward_length(WIDTH)
    out.add_head_count(1)
    out.add_rope_dimension_count(WIDTH)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(WORDS)
    out.add_tokenizer_model("no_vocab")
    names = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    for name in ("token_embd", "output"):
        out.add_tensor(f"{name}.weight", np.zeros((WORDS, WIDTH), np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        out.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    for name in names:
        out.add_tensor(f"blk.0.{name}.weight", np.zeros((WIDTH, WIDTH), np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


class Theirs:
    """A context of llama.cpp with SLOTS slots; `unified`: one stream of CELLS cells, else a stream of CELLS cells each."""

    def __init__(self, library: Any, model: Any) -> None:
        self.library, self.model = library, model

    def open(self, unified: bool) -> Any:
        params = self.library.llama_context_default_params()
        params.n_ctx, params.n_seq_max, params.kv_unified = (CELLS if unified else CELLS * SLOTS), SLOTS, unified
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = 1
        return self.library.llama_init_from_model(self.model, params)

    def decode(self, context: Any, slot: int, start: int, n: int) -> bool:
        batch = self.library.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for i in range(n):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = 1, start + i, 1, 0
            batch.seq_id[i][0] = slot
        code = self.library.llama_decode(context, batch)
        self.library.llama_batch_free(batch)
        assert code in (0, 1), code
        return code == 0

    def clear(self, context: Any, slot: int) -> None:
        assert self.library.llama_memory_seq_rm(self.library.llama_get_memory(context), slot, -1, -1)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    library = pytest.importorskip("llama_cpp.llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    path = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    write_model(path)
    silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)
    library.llama_log_set(silent, ctypes.c_void_p(0))
    library.llama_backend_init()
    model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
    assert model, "llama.cpp does not read the model written here"
    yield Theirs(library, model)
    library.llama_model_free(model)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["admit", "admit", "grow", "grow", "grow", "end"]), st.integers(0, 1 << 20)), min_size=1, max_size=40
)


@settings(max_examples=int(os.environ.get("LLAMA_CPP_EXAMPLES", "100")), deadline=None, suppress_health_check=list(HealthCheck))
@given(unified=st.booleans(), actions=ACTIONS)
def test_room_is_found_at_the_same_moments(llama: Theirs, unified: bool, actions: list[tuple[str, int]]) -> None:
    context = llama.open(unified)
    pages, streams = (CELLS, 1) if unified else (CELLS * SLOTS, SLOTS)
    mine = Cells(Geometry((PageGroup("full", 1),), pages, CELLS, sort="cells", streams=streams))
    free, live = list(range(SLOTS)), []
    for n, (action, pick) in enumerate(actions):
        if action == "admit" and free:
            prompt = pick % 150 + 1
            s = Sequence(n, Request(0.0, prompt, 400))
            admitted = mine.admit(s, prompt) is not None
            assert admitted == llama.decode(context, free[-1], 0, prompt)
            if admitted:
                live.append(SimpleNamespace(s=s, slot=free.pop(), computed=prompt))
        elif live and action == "grow":
            one = live[pick % len(live)]
            more = pick // 8 % 60 + 1
            grown = mine.grow(one.s, one.computed, one.computed + more)
            assert grown == llama.decode(context, one.slot, one.computed, more)
            one.computed += more if grown else 0
        elif live and action == "end":
            one = live.pop(pick % len(live))
            mine.end(one.s, one.computed)
            llama.clear(context, one.slot)
            free.append(one.slot)
        mine.check([one.s for one in live])
    llama.library.llama_free(context)
