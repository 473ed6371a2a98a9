"""What releases of Ollama do differently, as data. A release takes the newest row that is not younger than it.

Read in ollama/ollama at the tags 0.1.33 to 0.33.0-rc2: llm/memory.go, llm/server.go, llm/llama_server.go, llm/ggml.go and fs/ggml/ggml.go,
server/sched.go, server/routes.go, envconfig/config.go, ml/device.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from kvplan.engines.common.releases import cumulative, release, three_parts
from kvplan.units import GIB

Placing = Literal["sum", "spread", "layout", "server"]


class OllamaRules(NamedTuple):
    """The rules from a release on, until the next row. Architectures by their GGUF names.

    release   the one asked about, for formulas that changed without a row
    build     the llama.cpp inside, as a row of llama_cpp/rules.py
    placing   who decides how many layers of a model that llama.cpp runs go on the cards. sum: one sum over all cards; spread: the
              scheduler's estimate, dealt out card by card; layout: sizes packed into what is free; server: llama-server's own --fit
    own       architectures that Ollama's own engine runs; own_placing: who places those
    flash     architectures for which flash attention is on unless said otherwise; flash_auto: llama.cpp decides for those it runs
    flash_no  architectures for which it is off even where asked for
    context   tokens of a slot where nobody says, from so many bytes over all cards
    parallel  slots tried where nobody says, until the model is wholly on the cards
    alone     architectures with one slot always; "projector": every model with images
    batch     tokens of one batch above so many tokens of context
    buffer    the layer whose size is kept free on every card
    backwards layers are dealt out from the last one
    copies    checkpoints of recurrent states that its own engine keeps of each slot (qwen3next/checkpoints.go, kvcache/recurrent.go)
    windows   caches of window layers are estimated as such
    kv_types  the cache may be quantised
    vision    where the estimate puts the tower: on the first card, or with the output layer
    least     tokens that the estimate counts at least
    subsets   cards are added one by one until the model fits, rather than one or all
    """

    release: tuple[int, ...]
    source: str
    build: int = 5130
    placing: Placing = "sum"
    own: frozenset[str] = frozenset()
    own_placing: Placing = "spread"
    flash: frozenset[str] = frozenset()
    flash_auto: bool = False
    flash_no: frozenset[str] = frozenset()
    context: tuple[tuple[int, int], ...] = ((0, 2048),)
    parallel: tuple[int, ...] = (1,)
    alone: frozenset[str] = frozenset()
    batch: tuple[tuple[int, int], ...] = ((0, 512),)
    buffer: Literal["none", "first", "largest"] = "none"
    backwards: bool = False
    copies: int = 0
    windows: bool = False
    kv_types: bool = False
    vision: Literal["card", "output"] = "card"
    least: int = 0
    subsets: bool = False


_BOTH = ("own", "flash")
#: From a release on: fields replaced, or (+name) architectures added to a set, (-name) taken out of it.
_CHANGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("0.1.33", "llm/memory.go", {}),
    ("0.1.34", "4736391b: one layer's size kept free", {"buffer": "first"}),
    ("0.1.45", "6fd04ca9, 359b15a5: layers dealt out card by card", {"placing": "spread"}),
    ("0.2.0", "17b7186c, 3518aaef: four slots where they fit", {"parallel": (4, 1), "+alone": ("projector",)}),
    ("0.3.10", "2003d601: the graph of llama", {}),
    ("0.4.1", "6cd56687: slots for models with images", {"alone": frozenset({"mllama"})}),
    ("0.5.0", "1bdab9fd: OLLAMA_KV_CACHE_TYPE", {"kv_types": True}),
    ("0.6.0", "Ollama's own engine", {"+own": ("gemma3",)}),
    ("0.6.1", "033cec23, a422ba39: gemma 3's images", {}),
    ("0.6.3", "f66216e3: caches layer by layer", {"windows": True}),
    ("0.6.5", "6bd0a983", {"+own": ("mistral3",)}),
    ("0.6.7", "44b466ee, fe5b9bb2", {"context": ((0, 4096),), "parallel": (2, 1), "+own": ("llama4",)}),
    ("0.7.0", "0478d440", {"buffer": "largest", "backwards": True, "+own": ("mllama", "qwen25vl")}),
    ("0.7.1", "3fe74fba, d7555774", {"buffer": "first", "vision": "output", "least": 2048}),
    ("0.9.3", "73b642e6", {"+own": ("gemma3n",)}),
    ("0.10.0", "20c3266e: one slot", {"parallel": (1,)}),
    ("0.11.0", "fa7776fd", {"+own": ("gptoss",)}),
    ("0.11.3", "fcec04bf: the graph of gpt-oss", {}),
    ("0.11.5", "d5a0d8d9, ea7657b5, 1a19df1f", {"build": 5912, "subsets": True, "least": 0}),
    ("0.11.8", "85ccf735", {"+flash": ("gptoss",)}),
    ("0.11.11", "eb10390d: own models by layout; 7b91c9ce; 29ddfc2c", {"own_placing": "layout", "+flash_no": ("gemma2",)}),
    ("0.12.0", "a417ac97", {"+own": ("qwen3",)}),
    ("0.12.2", "2e742544", {"+own": ("qwen3moe",)}),
    ("0.12.4", "0bda7289", {"build": 6324, "+flash": ("qwen3", "qwen3moe")}),
    ("0.12.5", "3d32249c", {"-own": ("qwen3",)}),
    ("0.12.6", "18087f2e, c3c85aa0", {"+own": ("qwen3",), "+flash": ("gemma3",)}),
    ("0.12.7", "7d25b9e1", {"+own": ("qwen3vl", "qwen3vlmoe"), "+alone": ("qwen3vl", "qwen3vlmoe")}),
    ("0.12.8", "75e75d9a", {"+flash": ("qwen3vl", "qwen3vlmoe")}),
    ("0.12.11", "f560bd07: layouts for llama.cpp's models too", {"placing": "layout"}),
    ("0.13.0", "604e43b2", {"+own": ("deepseek2", "deepseekocr")}),
    ("0.13.1", "b2af5096", {"+own": ("nomic-bert",)}),
    ("0.13.2", "9191dfaf", {"+flash": ("mistral3",)}),
    ("0.13.3", "b9569305", {"build": 6990}),
    ("0.13.4", "ffbe8e07, bd6c1d6b", {"flash_auto": True, "+own": ("olmo3",), "+flash": ("olmo3",)}),
    ("0.13.5", "903b1fc9", {"build": 7406, "+own": ("bert",), "+flash": ("bert",)}),
    ("0.14.3", "4f138a17, 01cf7445", {f"+{name}": ("glm4moelite", "lfm2") for name in _BOTH}),
    ("0.15.5", "0334ffa6: context by memory; e36f389e", {
        "context": ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4096)), "+alone": ("qwen3next", "lfm2", "lfm2moe"),
        **{f"+{name}": ("glmocr", "qwen3next") for name in _BOTH}, "copies": 32,
    }),
    ("0.17.1", "da70c322, 0ade9205", {
        f"+{name}": ("qwen35", "qwen35moe", "nemotron_h", "nemotron_h_moe", "lfm2moe") for name in (*_BOTH, "alone")
    } | {"copies": 24}),
    ("0.18.3", "ebbce136", {"+flash_no": ("grok",)}),
    ("0.20.0", "96b202d3", {"+own": ("gemma4",)}),
    ("0.20.4", "e823bff8, dde09129", {"+flash": ("gemma4",)}),
    ("0.22.0", "87288ced", {"+own": ("laguna", "nemotron_h_omni"), "+flash": ("nemotron_h_omni",), "+alone": ("nemotron_h_omni",)}),
    ("0.30.0", "9db4bdba: llama-server for every model", {
        "placing": "server", "own": frozenset(), "flash": frozenset(), "flash_no": frozenset(), "build": 9452,
        "batch": ((32_768, 2048), (4_096, 1024), (0, 512)),
    }),
    ("0.31.0", "LLAMA_CPP_VERSION", {"build": 9840}),
    ("0.31.2", "dba1e27f: flash attention on compute capability 6", {"build": 9888}),
    ("0.32.6", "LLAMA_CPP_VERSION", {"build": 10242}),
    ("0.32.15", "LLAMA_CPP_VERSION", {"build": 10488}),
    ("0.33.0", "read at v0.33.0-rc2: llama.cpp and all that takes memory are those of 0.32.15", {}),
)  # fmt: skip


def _changes() -> list[tuple[str, dict[str, Any]]]:
    """Every row as fields replaced."""
    sets: dict[str, frozenset[str]] = {name: frozenset() for name in ("own", "flash", "flash_no", "alone")}
    found = []
    for version, source, change in _CHANGES:
        fields: dict[str, Any] = {"release": release(version), "source": source}
        for name, value in change.items():
            key = name.lstrip("+-")
            if key in sets:
                was = sets[key]
                sets[key] = was | frozenset(value) if name[0] == "+" else was - frozenset(value) if name[0] == "-" else value
                fields[key] = sets[key]
            else:
                fields[name] = value
        found.append((version, fields))
    return found


RULES: Mapping[str, OllamaRules] = cumulative(OllamaRules((), ""), _changes())
VERSIONS = tuple(RULES)
NEWEST = VERSIONS[-1]


def find(asked: str | None) -> tuple[str, OllamaRules, tuple[str, ...]]:
    """The release as asked (without a question the newest), its rules, and a note where they are not known to be its own."""
    if asked is None:
        return NEWEST, RULES[NEWEST], ()
    wanted = release(asked)
    older = [version for version in VERSIONS if three_parts(version) <= three_parts(asked)]
    if not wanted:
        return asked, RULES[NEWEST], (f"ollama {asked[:40]} names no release; the rules of {NEWEST} are used",)
    if not older:
        note = f"ollama {asked[:40]} is older than the scheduler that is modelled; the rules of {VERSIONS[0]} are used"
        return asked, RULES[VERSIONS[0]], (note,)
    if wanted > RULES[NEWEST].release:
        return asked, RULES[NEWEST], (f"ollama {asked[:40]} is newer than what is known; the rules of {NEWEST} are used",)
    return asked, RULES[older[-1]]._replace(release=wanted), ()


def newest_build(rules: OllamaRules) -> int | None:
    """The newest build of llama.cpp that a release may have inside: the last before the next that is known; None where none is."""
    later = [r.build for r in RULES.values() if r.build > rules.build]
    return min(later) - 1 if later else None
