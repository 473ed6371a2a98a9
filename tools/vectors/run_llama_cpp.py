"""What llama.cpp prints of its caches: questions on standard input, answers on standard output, one JSON object a line.

    PYTHONPATH=. python tools/vectors/run_llama_cpp.py LIBRARY RELEASE < questions.jsonl > answers.jsonl

LIBRARY holds llama.cpp's C interface (`xllamacpp.abi3.so` of the xllamacpp wheel, or a `libllama.so`). A question has `id`, `arch`,
`geometry` and `settings`; each becomes a GGUF file whose weights are holes, loaded without allocating (`no_alloc`), and a context
opened on it; the sizes are those of its log. The structures are those of include/llama.h; which of two layouts a build has is told by
its defaults. The library of xllamacpp hangs after 255 contexts: more questions want another process.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from llama_cpp_files import VOCAB, tensors

from tools.header_files import F32, gguf, model

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
_P, _I, _U, _F, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_bool


class ModelParams(ctypes.Structure):
    _fields_ = [
        ("devices", _P), ("overrides", _P), ("n_gpu_layers", _I), ("split_mode", _I), ("load_mode", _I), ("lazy_mode", _I),
        ("main_gpu", _I), ("tensor_split", _P), ("progress", _P), ("progress_data", _P), ("kv_overrides", _P), ("vocab_only", _B),
        ("check_tensors", _B), ("use_extra_bufts", _B), ("no_host", _B), ("no_alloc", _B), ("load_mtp", _B),
    ]  # fmt: skip


_NUMBERS = [
    ("n_ctx", _U), ("n_batch", _U), ("n_ubatch", _U), ("n_seq_max", _U), ("n_rs_seq", _U), ("n_outputs_max", _U),
    ("n_outputs_max_per_seq", _U), ("n_threads", _I), ("n_threads_batch", _I), ("ctx_type", _I), ("rope_scaling_type", _I),
    ("pooling_type", _I), ("attention_type", _I), ("flash_attn_type", _I), ("rope_freq_base", _F), ("rope_freq_scale", _F),
    ("yarn_ext_factor", _F), ("yarn_attn_factor", _F), ("yarn_beta_fast", _F), ("yarn_beta_slow", _F), ("yarn_orig_ctx", _U),
    ("defrag_thold", _F), ("cb_eval", _P), ("cb_eval_data", _P), ("type_k", _I), ("type_v", _I), ("abort", _P), ("abort_data", _P),
]  # fmt: skip
_SWITCHES = [
    ("embeddings", _B), ("offload_kqv", _B), ("no_perf", _B), ("op_offload", _B), ("swa_full", _B), ("kv_unified", _B),
    ("samplers", _P), ("n_samplers", ctypes.c_size_t), ("ctx_other", _P),
]  # fmt: skip


class ContextParams(ctypes.Structure):
    """As in llama.h of b11312."""

    _fields_ = [*_NUMBERS, *_SWITCHES]


class WiderParams(ctypes.Structure):
    """With eight bytes more before its switches, which b11549 has: left as they come."""

    _fields_ = [*_NUMBERS, ("more", ctypes.c_uint64), *_SWITCHES]


LOGGED = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, _P)
_CACHE = re.compile(
    r"size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, +(\d+)/(\d+) seqs\), K \(\w+\): +([\d.]+) MiB, V \(\w+\): +([\d.]+) MiB"
)
_STATE = re.compile(
    r"size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, +(\d+) seqs[^)]*\), R \(\w+\): +([\d.]+) MiB, S \(\w+\): +([\d.]+)"
)
_OUTPUT = re.compile(r"output buffer size = +([\d.]+) MiB")


class Library:
    def __init__(self, path: str) -> None:
        self.c = ctypes.CDLL(path)
        self.params: Any = next((kind for kind in (ContextParams, WiderParams) if self._fits(kind)), None)
        assert self.params is not None, "llama_context_params is laid out otherwise: see include/llama.h of this build"
        self.c.llama_model_default_params.restype = ModelParams
        self.c.llama_model_load_from_file.restype = self.c.llama_init_from_model.restype = _P
        self.c.llama_model_load_from_file.argtypes = [ctypes.c_char_p, ModelParams]
        self.c.llama_init_from_model.argtypes = [_P, self.params]
        self.c.llama_free.argtypes = self.c.llama_model_free.argtypes = [_P]
        self.said: list[str] = []
        self.loaded: tuple[str, Any] = ("", None)
        self._log = LOGGED(lambda level, text, data: self.said.append(text.decode("utf-8", "replace")))
        self.c.llama_log_set.argtypes = [LOGGED, _P]
        self.c.llama_log_set(self._log, None)
        self.c.llama_backend_init()

    def _fits(self, kind: Any) -> bool:
        """Whether the defaults are what llama.cpp says they are, switch by switch."""
        self.c.llama_context_default_params.restype = kind
        p = self.c.llama_context_default_params()
        switches = [p.embeddings, p.offload_kqv, p.no_perf, p.op_offload, p.swa_full, p.kv_unified]
        numbers = (p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max, p.type_k, p.type_v, p.n_samplers)
        return switches == [False, True, True, True, True, False] and numbers == (512, 2048, 512, 1, 1, 1, 0)

    def answer(self, question: dict[str, Any], folder: Path) -> dict[str, Any]:
        s = question["settings"]
        loaded = self.model(question, folder / "x.gguf")
        if not loaded:
            return {"unbuilt": "".join(self.said)[-300:]}
        self.said.clear()
        asked = self.c.llama_context_default_params()
        for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "kv_unified", "swa_full"):
            setattr(asked, name, s[name])
        asked.type_k, asked.type_v = TYPES[s["type_k"]], TYPES[s["type_v"]]
        asked.flash_attn_type = {"off": 0, "on": 1}[s["flash_attn"]]
        context = self.c.llama_init_from_model(loaded, asked)
        text = "".join(self.said)
        if context:
            self.c.llama_free(context)
        return printed(text) if context else {"refused": [line for line in self.said if "error" in line.lower() or "requires" in line][-1:]}

    def model(self, question: dict[str, Any], path: Path) -> Any:
        """The question's model; the last one is kept for further questions about it."""
        name = question["model"]
        if name != self.loaded[0]:
            if self.loaded[1]:
                self.c.llama_model_free(self.loaded[1])
            write(path, question["arch"], question["geometry"])
            self.said.clear()
            params = self.c.llama_model_default_params()
            params.no_alloc, params.n_gpu_layers, params.load_mode = True, 0, 0  # read, not mapped
            self.loaded = (name, self.c.llama_model_load_from_file(str(path).encode(), params))
        return self.loaded[1]


def printed(text: str) -> dict[str, Any]:
    """MiB as printed: caches as both, cells, layers, streams, K, V; states as both, cells, layers, R, S; the output buffer."""
    found: dict[str, Any] = {"caches": [[a, int(b), int(c), int(e), k, v] for a, b, c, _, e, k, v in _CACHE.findall(text)]}
    states = [[a, int(b), int(c), k, v] for a, b, c, _, k, v in _STATE.findall(text)]
    return found | ({"states": states} if states else {}) | {"output": next(iter(_OUTPUT.findall(text)), None)}


def write(path: Path, arch: str, geometry: dict[str, Any]) -> None:
    """A GGUF file of the right length whose tensors are holes."""
    meta = model(arch, geometry) | {"tokenizer.ggml.model": "no_vocab", "general.alignment": 32}
    assert geometry["vocab_size"] == VOCAB
    infos, size = [], 0
    for name, shape in tensors(arch, geometry):
        n = 4
        for side in shape:
            n *= side
        infos.append((name, shape, F32, n))
        size += -(-n // 32) * 32
    data = gguf(meta, infos)
    with open(path, "wb") as file:
        file.write(data)
        file.truncate(len(data) + size + 64)


def main() -> None:
    library, release = Library(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps({"id": question["id"], "release": release, **library.answer(question, Path(scratch))}), flush=True)


if __name__ == "__main__":
    main()
