"""llama.cpp and Ollama: worked examples, defaults, placement, --fit, refusals. Sizes: printed by b11312 where no formula stands beside."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvplan.catalogue import find_model
from kvplan.deployment import Deployment
from kvplan.devices import Device, sized
from kvplan.engines import find, settle
from kvplan.engines.common.protocol import Group, Outcome
from kvplan.engines.llama_cpp import rules as versions
from kvplan.engines.llama_cpp.named import HOST
from kvplan.engines.llama_cpp.placement import place
from kvplan.errors import SpecError, UnsupportedError
from kvplan.importers.gguf import read_gguf
from kvplan.ledger import Ledger
from kvplan.spec import ModelSpec, parse_spec
from tests.conftest import one_block
from tools.header_files import F16, F32, Q8_0, gguf
from tools.header_files import model as gguf_model

MIB, GIB = 1 << 20, 1 << 30
LLAMA_8B = one_block({"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}, n_layers=32)
MLA = {"kind": "mla", "heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
MAMBA2 = {"kind": "mamba2", "heads": 80, "head_dim": 64, "groups": 1, "d_state": 128, "d_conv": 4}


def gemma_3_27b() -> ModelSpec:
    window = {"kind": "sliding", "heads": 32, "kv_heads": 16, "head_dim": 128, "window": 1024}
    blocks = {"window": {"mixers": [window]}, "full": {"mixers": [{"kind": "gqa", "heads": 32, "kv_heads": 16, "head_dim": 128}]}}
    return parse_spec(
        {
            "id": "test/gemma", "name": "Gemma-3-27B geometry", "source": "released configuration", "vocab_size": 1000,
            "hidden_size": 5376, "n_layers": 62, "blocks": blocks, "max_context": 131_072,
            "layers": [{"pattern": ["5*window", "full"], "repeat": 10}, {"pattern": ["2*window"]}],
        },
        "test",
    )  # fmt: skip


def ask(model: ModelSpec, n_ctx: int | None = None, n_seq_max: int | None = None, engine: str = "llama.cpp", **more: Any) -> Outcome:
    fields = {name: more.pop(name) for name in list(more) if name in Deployment.__dataclass_fields__}
    options = tuple((key, str(value).lower()) for key, value in more.items())
    question = Deployment(model=model, engine=engine, max_model_len=n_ctx, max_num_seqs=n_seq_max, engine_option=options, **fields)
    found, settled = settle(question)
    return found.plan(settled)


def groups(outcome: Outcome) -> dict[str, Group]:
    assert outcome.capacity is not None
    return {group.role: group for group in outcome.capacity.groups}


def mib(group: Group) -> float:
    return round(((group.k_bytes or 0) + (group.v_bytes or 0)) / MIB, 2)


@pytest.mark.parametrize(("kv_dtype", "expected"), [("f16", 1024), ("q8_0", 544), ("q4_0", 288)])
def test_llama_8b_types(kv_dtype: str, expected: int) -> None:
    assert mib(groups(ask(LLAMA_8B, 8192, kv_dtype=kv_dtype))["kv"]) == expected


@pytest.mark.parametrize(
    ("n_ctx", "n_seq_max", "unified", "expected"),
    [
        (8000, 1, False, (8192, 1, 1024)),
        (10_000, 3, False, (3584, 3, 1344)),
        (8192, 4, True, (8192, 1, 1024)),
        (8192, 4, False, (2048, 4, 1024)),
    ],
)
def test_llama_8b_streams(n_ctx: int, n_seq_max: int, unified: bool, expected: tuple[int, int, int]) -> None:
    kv = groups(ask(LLAMA_8B, n_ctx, n_seq_max, kv_unified=unified))["kv"]
    assert (kv.cells, kv.streams, mib(kv)) == expected


@pytest.mark.parametrize(
    ("more", "cells", "swa_mib"),
    [
        ({}, 1536, 624),
        ({"n_ubatch": 2048}, 3072, 1248),
        ({"n_seq_max": 4, "kv_unified": True}, 4608, 1872),
        ({"swa_full": True}, 32_768, 13_312),
    ],
)
def test_gemma_3_27b_windows(more: dict[str, Any], cells: int, swa_mib: int) -> None:
    found = groups(ask(gemma_3_27b(), 32_768, more.pop("n_seq_max", 1), **more))
    assert (mib(found["kv_base"]), found["kv_swa"].cells, mib(found["kv_swa"])) == (2560, cells, swa_mib)


def test_gemma_3_27b_four_split_streams() -> None:
    found = groups(ask(gemma_3_27b(), 32_768, 4))
    assert (found["kv_swa"].cells, found["kv_swa"].streams, mib(found["kv_swa"])) == (1536, 4, 2496)


@pytest.mark.parametrize(("kv_dtype", "expected"), [("f16", 972), ("q8_0", 516.38)])
def test_deepseek_v2_lite_has_no_v(kv_dtype: str, expected: float) -> None:
    kv = groups(ask(one_block(MLA, n_layers=27), 32_768, kv_dtype=kv_dtype))["kv"]
    assert (mib(kv), kv.v_bytes) == (expected, 0)


def test_latents_had_a_v_before_19067() -> None:
    kv = groups(ask(one_block(MLA, n_layers=27), 32_768, engine_version="b7500"))["kv"]
    assert kv.v_bytes == 27 * 32_768 * 512 * 2


@pytest.mark.parametrize(("n_seq_max", "expected"), [(1, 122.95), (4, 491.81)])
def test_mamba2_states_do_not_grow(n_seq_max: int, expected: float) -> None:
    model = one_block(MAMBA2, n_layers=48)
    for n_ctx in (4096, 65_536):
        assert mib(groups(ask(model, n_ctx, n_seq_max))["rs"]) == expected


def test_deepseek_v4_caches() -> None:
    """llama-kv-cache-dsv4.cpp, by hand: 2 sequences of 8192, window 128, ratio 4 with an indexer and overlap; f16 rows, f32 states."""
    mixer = {
        "kind": "compressed", "heads": 8, "head_dim": 512, "rope_head_dim": 64, "q_lora_rank": 64, "o_groups": 1, "o_lora_rank": 64,
        "window": 128, "ratio": 4, "overlap": True, "index_heads": 4, "index_head_dim": 128,
    }  # fmt: skip
    found = groups(ask(one_block(mixer), 16_384, 2, kv_unified=True))
    raw = 2 * 768 * 512 * 2  # streams x (128 + 512 rounded up to 256)
    rows, index = 2 * 4096 * 512 * 2, 2 * 4096 * 128 * 2  # unified: each stream is as long as the pool
    states = 2 * 2 * (2 * 4) * 2 * (512 + 128) * 4  # sequences x (values, scores) x rows x width
    assert [found[role].k_bytes for role in ("kv_swa", "kv_4", "index")] == [raw, rows, index]
    assert (found["state"].k_bytes or 0) + (found["state"].v_bytes or 0) == states


def test_v_rows_are_padded_without_flash_attention() -> None:
    wide = {"kind": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 128}
    blocks = {"wide": {"mixers": [wide]}, "narrow": {"mixers": [{**wide, "kv_heads": 4}]}}
    model = parse_spec(
        {
            "id": "test/two", "name": "two", "source": "written for a test", "vocab_size": 1000, "hidden_size": 64, "n_layers": 2,
            "layers": [{"pattern": ["wide", "narrow"]}], "blocks": blocks, "max_context": 4096,
        },
        "test",
    )  # fmt: skip
    kv = groups(ask(model, 256, flash_attn="off"))["kv"]
    assert (kv.k_bytes, kv.v_bytes) == (256 * 2 * (1024 + 512), 256 * 2 * (1024 + 1024))


@pytest.mark.parametrize(
    ("model", "more", "reason"),
    [
        (LLAMA_8B, {"kv_dtype": "f16/q8_0", "flash_attn": "off"}, "quantized V cache requires flash_attn to be enabled"),
        (one_block(MLA), {"kv_dtype": "q8_0/f16"}, "model does not support different K (q8_0) and V (f16) cache types"),
        (
            one_block({"kind": "mha", "heads": 8, "head_dim": 80}), {"kv_dtype": "q8_0"},
            "K cache type q8_0 with block size 32 does not divide n_embd_head_k=80",
        ),
        (LLAMA_8B, {"kv_dtype": "fp8"}, "Unsupported cache type: fp8_e4m3"),
        (LLAMA_8B, {"n_seq_max": 257}, "n_seq_max must be <= 256"),
    ],
)  # fmt: skip
def test_refusals_are_answers(model: ModelSpec, more: dict[str, Any], reason: str) -> None:
    outcome = ask(model, 8192, **more)
    assert (outcome.starts, outcome.fits, outcome.reason) == (False, False, reason)


def test_unknown_options_and_bad_values_are_errors() -> None:
    with pytest.raises(SpecError, match="no such option"):
        ask(LLAMA_8B, 8192, n_ubatches=1)
    with pytest.raises(SpecError, match="n_ubatch"):
        ask(LLAMA_8B, 8192, n_ubatch="many")
    with pytest.raises(UnsupportedError, match="tp"):
        ask(LLAMA_8B, 8192, tp=2)


@pytest.mark.parametrize(
    ("version", "build", "noted"),
    [
        (None, 11312, False), ("b11312", 11312, False), ("b9159", 8600, True), ("6232 (ffdd983fb)", 6096, True),
        ("b999", 2000, True), ("b4000", 2000, True), ("b5130", 5130, False), ("master", 11312, True),
    ],
)  # fmt: skip
def test_an_unknown_build_takes_the_nearest_older_rules(version: str | None, build: int, noted: bool) -> None:
    rules, notes = versions.find(version)
    assert (rules.build, bool(notes)) == (build, noted)


def test_windows_had_the_whole_length_before_13194() -> None:
    assert "kv_swa" not in groups(ask(gemma_3_27b(), 32_768, engine_version="b5200"))


@pytest.mark.parametrize(("architecture", "roles"), [("phi3", {"kv"}), ("MistralForCausalLM", {"kv"}), ("gemma3", {"kv_base", "kv_swa"})])
def test_windows_that_llama_cpp_does_not_use(architecture: str, roles: set[str]) -> None:
    mixer = {"kind": "sliding", "heads": 8, "kv_heads": 8, "head_dim": 64, "window": 512}
    assert set(groups(ask(one_block(mixer, architecture=architecture), 4096))) == roles


def test_server_slots() -> None:
    """tools/server/server.cpp: -np unset is four unified slots; --kv-unified-per-slot sizes the pool."""
    found = find("llama.cpp")

    def settled(**options: str) -> Deployment:
        question = Deployment(model=LLAMA_8B, engine="llama.cpp", max_model_len=None, engine_option=tuple(options.items()))
        return found.settle(question).question

    assert settled(server="true").max_num_seqs == 4
    assert settled(server="true", kv_unified_per_slot="4096").max_model_len == 16_384
    kv = groups(ask(LLAMA_8B, 8192, server=True))["kv"]
    assert (kv.cells, kv.streams) == (8192, 1)


def test_layers_are_placed_from_the_last() -> None:
    assert place(4, 0, 1, 5, ()) == ((0, 0, 0, 0), 0, 1, 5, 5)
    assert place(4, 0, 1, 2, ()) == ((HOST, HOST, HOST, 0), 0, 1, 2, 5)
    assert place(4, 0, 1, 0, ()) == ((HOST,) * 4, HOST, 1, 0, 5)
    assert place(4, 1, 1, 2, ()) == ((HOST,) * 4, 0, 1, 2, 6)  # the draft layer and the output layer
    assert place(5, 0, 2, 6, ()) == ((0, 0, 0, 1, 1), 1, 2, 6, 6)
    assert place(5, 0, 2, 6, (Fraction(1), Fraction(2))) == ((0, 0, 1, 1, 1), 1, 2, 6, 6)


def test_the_cache_follows_its_layer() -> None:
    per_layer = 8192 * 2 * 8 * 128 * 2
    device, host = ask(LLAMA_8B, 8192, device=sized(24 * GIB), n_gpu_layers=11).ledgers
    assert (device.cache_bytes, host.cache_bytes) == (10 * per_layer, 22 * per_layer)
    device, host = ask(LLAMA_8B, 8192, device=sized(24 * GIB), no_kv_offload=True).ledgers
    assert (device.cache_bytes, host.cache_bytes) == (0, 32 * per_layer)


def test_fit_shrinks_a_context_that_was_not_set() -> None:
    found = find("llama.cpp")
    question = Deployment(model=LLAMA_8B, engine="llama.cpp", device=sized(8 * GIB))
    settled = found.settle(question)
    n_ctx = settled.question.max_model_len or 0
    outcome = found.plan(settled)
    assert n_ctx % 256 == 0
    assert outcome.fits
    assert GIB <= (outcome.margin_bytes or 0) < GIB + 2 * 256 * 131_072 + 256 * 4096  # the margin, and less than two steps over
    assert (
        found.settle(Deployment(model=LLAMA_8B, engine="llama.cpp", device=sized(8 * GIB), max_model_len=1 << 20)).question.max_model_len
        == 1 << 20
    )


@pytest.mark.parametrize(("version", "speculative", "layers"), [("b11312", None, 47), ("b11312", "mtp:1", 48), ("b9159", None, 48)])
def test_fit_does_not_count_draft_layers_that_are_not_loaded(version: str, speculative: str | None, layers: int) -> None:
    """b11312 gives -ngl 31 to a GLM-4 MoE of 30 layers, a draft layer and the output: its first layer stays in host memory."""
    question = Deployment(
        model=find_model("zai-org/glm-4.5-air"), engine="llama.cpp", engine_version=version, device=sized(24 * GIB), host_memory=1 << 40,
        max_model_len=8192, weight_dtype="q4_k_m", speculative=speculative,
    )  # fmt: skip
    found = find("llama.cpp").settle(question)
    assert found.question.n_gpu_layers == layers
    assert [device == HOST for device in found.settings.fitted.where.layers[:2]] == [layers == 47, False]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tensor_split": "1,1"}, "tensor_split"),
        ({"n_cpu_moe": "4"}, "n_cpu_moe"),
        ({"override_tensor": "exps=CPU"}, "override_tensor"),
        ({}, None),
    ],
)
def test_fit_says_what_keeps_it_from_placing(options: dict[str, str], said: str | None) -> None:
    """common_params_fit_impl gives up where these are set."""
    asked = Deployment(model=LLAMA_8B, engine="llama.cpp", device=sized(8 * GIB), n_devices=2, engine_option=tuple(options.items()))
    notes = find("llama.cpp").settle(asked).notes
    assert [note for note in notes if "--fit" in note] == ([f"--fit moves no layers where {said} is given"] if said else [])


def test_the_largest_context_fits_and_one_step_more_does_not() -> None:
    capacity = ask(LLAMA_8B, 8192, device=sized(8 * GIB)).capacity
    assert capacity is not None
    most = capacity.max_context_unbounded or 0
    assert ask(LLAMA_8B, most, device=sized(8 * GIB)).fits
    assert not ask(LLAMA_8B, most + 1, device=sized(8 * GIB)).fits


def test_a_batch_needs_slots_or_cells() -> None:
    assert ask(LLAMA_8B, 8192, 1, batch=2, context=4096, kv_memory=8 * GIB).fits is False
    assert ask(LLAMA_8B, 8192, 2, batch=2, context=4096, kv_memory=8 * GIB).fits is True
    assert ask(LLAMA_8B, None, batch=3, context=5000, kv_memory=8 * GIB).fits is True
    unlimited = ask(LLAMA_8B, 8192, 1, batch=2, context=4096)
    assert unlimited.fits is None
    assert unlimited.capacity is not None
    assert any("stay resident only" in warning for warning in unlimited.capacity.warnings)


@pytest.mark.parametrize(("gib", "num_ctx"), [(16, 4096), (24, 32_768), (48, 262_144)])
def test_ollama_context_by_memory(gib: int, num_ctx: int) -> None:
    settled = find("ollama").settle(Deployment(model=LLAMA_8B, engine="ollama", device=sized(gib * GIB)))
    assert (settled.question.max_model_len, settled.question.max_num_seqs) == (num_ctx, 1)


def test_ollama_slots_are_split_and_its_batch_follows_the_context() -> None:
    """-c is num_ctx x parallel, -np is given, so the cache is split; above 4k tokens the batch is 1024."""
    outcome = ask(LLAMA_8B, 8192, 4, engine="ollama")
    kv = groups(outcome)["kv"]
    assert (kv.cells, kv.streams) == (8192, 4)
    assert groups(ask(gemma_3_27b(), 8192, engine="ollama"))["kv_swa"].cells == 1024 + 1024
    with pytest.raises(SpecError, match="no such option"):
        ask(LLAMA_8B, 8192, engine="ollama", kv_unified=True)


def test_mtp_keeps_past_states_and_a_draft_cache() -> None:
    """Qwen3.5-27B geometry, 4 unified slots of 8192, two drafted tokens (lc-log-083): 4 x 3 rows of state, one draft layer of 32 MiB."""
    delta = {"kind": "gated_delta_net", "key_heads": 16, "value_heads": 48, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}
    full = {"kind": "gqa", "heads": 24, "kv_heads": 4, "head_dim": 256}
    model = parse_spec(
        {
            "id": "test/mtp", "name": "mtp", "source": "released configuration", "architecture": "qwen35", "vocab_size": 1000,
            "hidden_size": 5120, "n_layers": 64, "layers": [{"pattern": ["3*delta", "full"], "repeat": 16}], "max_context": 262_144,
            "blocks": {"delta": {"mixers": [delta]}, "full": {"mixers": [full]}}, "mtp": {"modules": 1, "block": "full"},
        },
        "test",
    )  # fmt: skip
    found = groups(ask(model, 8192, 4, kv_unified=True, speculative="mtp:2"))
    assert [mib(found[role]) for role in ("kv", "rs", "draft_kv")] == [512, 1795.5, 32]
    found = groups(ask(model, 8192, 4, kv_unified=True))
    assert "draft_kv" not in found
    assert mib(found["rs"]) == 598.5


def test_stored_weights_follow_their_layers(tmp_path: Path) -> None:
    """A GGUF file of two layers: the last and the output on the device, the embedding and the first beside it, as the file stores them."""
    hidden, vocab, inner = 64, 96, 128
    sizes = {"attn_q": hidden, "attn_k": hidden, "attn_v": hidden, "attn_output": hidden, "ffn_gate": inner, "ffn_up": inner}
    tensors = [("token_embd.weight", (hidden, vocab), Q8_0, vocab * 2 * 34), ("output.weight", (hidden, vocab), F16, vocab * hidden * 2)]
    tensors.append(("output_norm.weight", (hidden,), F32, hidden * 4))
    per_layer = hidden * 4 * 2 + sum(rows * 2 * 34 for rows in sizes.values()) + hidden * 4 * 34
    for i in range(2):
        tensors += [(f"blk.{i}.{name}.weight", (hidden, rows), Q8_0, rows * 2 * 34) for name, rows in sizes.items()]
        tensors += [(f"blk.{i}.{name}.weight", (hidden,), F32, hidden * 4) for name in ("attn_norm", "ffn_norm")]
        tensors.append((f"blk.{i}.ffn_down.weight", (inner, hidden), Q8_0, hidden * 4 * 34))
    geometry = {
        "block_count": 2, "embedding_length": hidden, "feed_forward_length": inner, "attention.head_count": 1, "context_length": 512,
        "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": vocab,
    }  # fmt: skip
    path = tmp_path / "two.gguf"
    path.write_bytes(gguf(gguf_model("llama", geometry), tensors))
    read = read_gguf(path)
    device, host = ask(read.spec, 256, stored=read.stored, device=sized(GIB), n_gpu_layers=2).ledgers

    def weights(ledger: Ledger) -> int:
        return sum(e.bytes for e in ledger.entries if e.name.startswith("weights"))

    assert weights(device) == per_layer + vocab * hidden * 2 + hidden * 4
    assert weights(host) == per_layer + vocab * 2 * 34


def test_unified_memory_holds_the_host_part_too() -> None:
    apart = sized(64 * GIB)
    together = Device(id="unified", name="unified", vendor="other", memory_gb=64, unified=True, size_bytes=64 * GIB)
    host = ask(LLAMA_8B, 8192, device=apart).ledgers[1].total_bytes
    margins = [ask(LLAMA_8B, 8192, device=device).margin_bytes or 0 for device in (apart, together)]
    assert margins[0] - margins[1] == host > 0


CARD = Device(id="card", name="a card", memory_gb=24, vendor="nvidia")


def test_inputs_are_copied_for_batches_that_follow_one_another() -> None:
    """Two cards with all layers: three copies more of a mask of 8192 cells x 512 tokens in 16 bits, and of 512 hidden states in 32.

    The second has four of the states that the first gives it: 32 MiB more of hidden size 4,096 (204 and 172 printed by b11312).
    """
    two = ask(LLAMA_8B, 8192, device=CARD, n_devices=2)
    found = [e for ledger in two.ledgers for e in ledger.entries if e.name == "input copies"]
    states = 512 * LLAMA_8B.hidden_size * 4
    first = 3 * (8192 * 512 * 2 + states)
    assert [e.bytes for e in found] == [first, first + 4 * states]
    for other in (ask(LLAMA_8B, 8192, device=CARD), ask(LLAMA_8B, 8192, device=CARD, n_devices=2, n_gpu_layers=10)):
        assert not any(e.name == "input copies" for ledger in other.ledgers for e in ledger.entries)


@pytest.mark.parametrize(("n_ubatch", "copied"), [(512, True), (32, True), (16, False)])
def test_weights_beside_the_card_are_copied_for_large_batches(n_ubatch: int, copied: bool) -> None:
    partly = ask(LLAMA_8B, 8192, device=CARD, n_gpu_layers=10, n_ubatch=n_ubatch)
    assert any(e.name == "copy of host weights" for e in partly.ledgers[0].entries) is copied


def test_a_latent_was_k_and_v_of_every_head() -> None:
    """Before #12801: DeepSeek-V2-Lite's 16 heads, keys of 192 and values of 128 elements in 16 bits."""
    model = one_block(MLA, n_layers=27)
    group = groups(ask(model, 2048, engine_version="b3080"))["kv"]
    assert (group.k_bytes, group.v_bytes) == (27 * 2048 * 16 * 192 * 2, 27 * 2048 * 16 * 128 * 2)
    assert groups(ask(model, 2048, engine_version="b7850"))["kv"].k_bytes == 27 * 2048 * 576 * 2
