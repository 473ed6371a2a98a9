"""llama-quantize's types: whole files against published bits per weight, single tensors by hand from the rule."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.dtypes import GGUF_TYPES, canonical_weight
from kvplan.llama_quantize import FILE_TYPES, with_types
from kvplan.spec import ModelSpec, lower
from kvplan.tensors import CacheFormats, Lowered
from tests.conftest import planned, rows_of, shared

FORMATS = CacheFormats("bf16", "bf16", "bf16", "bf16")

#: Bits per weight of Llama 3.1 8B's files: llama.cpp tools/quantize/README.md at 311c2c9f.
BITS_PER_WEIGHT = {
    "IQ1_S": 2.0042, "IQ1_M": 2.1460, "IQ2_XXS": 2.3824, "IQ2_XS": 2.5882, "IQ2_S": 2.7403, "IQ2_M": 2.9294, "IQ3_XXS": 3.2548,
    "IQ3_XS": 3.4977, "IQ3_S": 3.6606, "IQ3_M": 3.7628, "IQ4_XS": 4.4597, "IQ4_NL": 4.6818, "Q2_K_S": 2.9697, "Q2_K": 3.1593,
    "Q3_K_S": 3.6429, "Q3_K_L": 4.2979, "Q4_K_S": 4.6672, "Q4_K_M": 4.8944, "Q5_K_S": 5.5704, "Q5_K_M": 5.7036, "Q6_K": 6.5633,
    "Q8_0": 8.5008,
}  # fmt: skip
#: GiB of Llama 3 8B's files: llama.cpp tools/quantize/quantize.cpp, `QUANT_OPTIONS`.
GIB = {"Q4_0": 4.34, "Q4_1": 4.78, "Q5_0": 5.21, "Q5_1": 5.65, "Q3_K_M": 3.74}


def file_bytes(model: str, name: str) -> int:
    return planned(model, engine="ideal", context=1, weight_dtype=name).model.weight_bytes


@pytest.mark.parametrize(("name", "bits"), BITS_PER_WEIGHT.items())
def test_bits_per_weight_to_four_digits(name: str, bits: float) -> None:
    assert file_bytes("meta-llama/llama-3.1-8b", name) * 8 / 8_030_261_248 == pytest.approx(bits, abs=0.0002)


@pytest.mark.parametrize(("name", "gib"), GIB.items())
def test_file_sizes(name: str, gib: float) -> None:
    assert file_bytes("meta-llama/llama-3-8b", name) / 2**30 == pytest.approx(gib, abs=0.011)


def stored(model: Lowered, layer: int, name: str) -> int | None:
    return next(w.stored for w in model.layers[layer].weights if w.name == name)


def typed(model: str, name: str) -> Lowered:
    spec: ModelSpec = kvplan.model(model)
    return with_types(lower(spec, FORMATS), name, spec.architecture)


def test_each_tensor_of_q4_k_m() -> None:
    """Untied: output Q6_K, embedding Q4_K. V and down of the first and last eighth and every third between: Q6_K; the rest Q4_K."""
    model = typed("meta-llama/llama-3.1-8b", "q4_k_m")
    assert model.embedding is not None
    assert model.embedding.stored == 128256 * 4096 // 256 * 144
    assert next(w.stored for w in model.last if w.role == "head") == 128256 * 4096 // 256 * 210
    for layer, bytes_ in ((0, 210), (4, 144), (5, 144), (6, 210), (27, 210), (28, 210), (31, 210)):  # 32 layers: eighths of 4
        assert stored(model, layer, "v") == 1024 * 4096 // 256 * bytes_, layer
        assert stored(model, layer, "mlp_down") == 4096 * 14336 // 256 * bytes_, layer
        assert stored(model, layer, "q") == 4096 * 4096 // 256 * 144


def test_a_tied_embedding_takes_the_outputs_type() -> None:
    model = typed("meta-llama/llama-3.2-3b", "q4_k_m")
    assert model.embedding is not None
    assert model.embedding.stored == 128256 * 3072 // 256 * 210


@pytest.mark.parametrize(
    ("model", "name", "megabytes"),
    [("qwen/qwen3-0.6b", "Q4_K_M", 523), ("qwen/qwen1.5-0.5b", "Q4_0", 395), ("llama-guard3:1b", None, 1600)],
)
def test_the_interval_holds_files_with_an_output_of_their_own(model: str, name: str | None, megabytes: int) -> None:
    """Sizes that ollama.com/library lists for qwen3:0.6b, qwen:0.5b and llama-guard3:1b, to their digits; metadata take under 10 MB."""
    plan = planned(model, engine="ideal", context=1, weight_dtype=name)
    lines = [entry for entry in plan.ledgers[0].entries if entry.name.startswith("weights")]
    half = 50 if megabytes % 100 == 0 else 0.5
    assert sum(entry.low for entry in lines) / 1e6 < megabytes < sum(entry.high for entry in lines) / 1e6 + half + 10
    assert any("hold the output apart" in entry.source or "published files" in entry.source for entry in lines)


def test_an_embedding_that_no_file_doubles() -> None:
    plan = planned("google/gemma-3-1b", engine="ideal", context=1, weight_dtype="q4_k_m")
    assert not any("hold the output apart" in entry.source for entry in plan.ledgers[0].entries)


def test_rows_that_no_block_divides_fall_back() -> None:
    """Qwen2.5-0.5B: 896 columns are 3.5 blocks of 256: Q4_K becomes Q5_0 (blocks of 32), the output's Q6_K Q8_0."""
    model = typed("qwen/qwen2.5-0.5b", "q4_k_m")
    assert stored(model, 4, "q") == 896 * 896 // 32 * 22
    assert model.embedding is not None
    assert model.embedding.stored == 151936 * 896 // 32 * 34


def test_eight_experts_and_70b() -> None:
    mixtral = typed("mistralai/mixtral-8x7b-v0.1", "q4_k_m")
    assert stored(mixtral, 4, "v") == 1024 * 4096 // 32 * 34  # Q8_0
    assert stored(mixtral, 4, "o") == 4096 * 4096 // 256 * 176  # Q5_K
    large = typed("meta-llama/llama-3.1-70b", "q4_k_m")
    assert stored(large, 10, "v") == 1024 * 8192 // 256 * 176  # Q5_K, where another model has Q4_K


def test_publishers_own_names() -> None:
    """bartowski's _L: embedding and output in Q8_0."""
    model = typed("meta-llama/llama-3.1-8b", "q4_k_l")
    assert model.embedding is not None
    assert model.embedding.stored == 128256 * 4096 // 32 * 34
    assert stored(model, 4, "q") == 4096 * 4096 // 256 * 144
    assert canonical_weight("UD-Q4_K_XL") == "ud_q4_k_xl"


def test_what_a_delta_net_reads_is_fused_attention_to_the_rule() -> None:
    """Converted as attn_qkv (category_is_attn_v) and attn_gate: Qwen3.6-27B's 10,240 rows in Q6_K in the first eighth and every third layer
    between, in Q4_K elsewhere; the 6,144 rows of the gate in Q4_K."""
    model = typed("qwen/qwen3.6-27b", "q4_k_m")
    assert stored(model, 0, "in_proj_qkvz") == 5120 // 256 * (10_240 * 210 + 6_144 * 144)
    assert stored(model, 8, "in_proj_qkvz") == 5120 // 256 * 16_384 * 144
    assert stored(model, 10, "in_proj_qkvz") == 5120 // 256 * (10_240 * 210 + 6_144 * 144)


@pytest.mark.parametrize(("kind", "n_bytes"), [("Q4_K_M", 16_817_244_384), ("Q5_K_M", 19_509_790_944)])
def test_files_of_a_hybrid(kind: str, n_bytes: int) -> None:
    """unsloth's, by the same manifests as below: 1.5 and 1.7 % above, where they keep the smallest matrices in 8 bits."""
    assert without_tower(f"unsloth/Qwen3.6-27B-GGUF:{kind}") == pytest.approx(n_bytes, rel=0.018)


#: Bytes of Google's files without their towers: the Hub's, in the manifests of HilbertraumAI/HilbertRaum (model-manifests/chat).
OF_GEMMA_4 = {
    "google/gemma-4-E2B-it": 3_349_516_256, "google/gemma-4-E4B-it": 5_154_941_280, "google/gemma-4-12B-it": 6_975_877_728,
    "google/gemma-4-26B-A4B-it": 14_439_363_584, "google/gemma-4-31B-it": 17_651_001_568,
}  # fmt: skip


@pytest.mark.parametrize(("of", "n_bytes"), OF_GEMMA_4.items())
def test_googles_files_of_gemma_4_hold_no_table_in_16_bits(of: str, n_bytes: int) -> None:
    assert without_tower(f"{of}-qat-q4_0-gguf") == pytest.approx(n_bytes, rel=0.007)


@pytest.mark.parametrize(
    ("of", "name", "gigabytes"),
    [
        # huggingface.co/Asystemoffields/gemma-4-E2B-it-PMRA-GGUF; /steampunque/gemma-4-E4B-it-MP-GGUF; what llama-bench printed, in GiB
        ("google/gemma-4-e2b", "q3_k_s", 3.094), ("google/gemma-4-e2b", "q4_k_m", 3.412), ("google/gemma-4-e4b", "q6_k", 6.2),
        ("google/gemma-4-e4b", "q4_k_m", 4.95 * 2**30 / 1e9), ("google/gemma-4-e2b", "q8_0", 4.61 * 2**30 / 1e9),
    ],
)  # fmt: skip
def test_the_table_of_each_layer_is_an_embedding_to_llama_quantize(of: str, name: str, gigabytes: float) -> None:
    assert without_tower(of, name) / 1e9 == pytest.approx(gigabytes, rel=0.008)


def test_who_keeps_the_table_in_16_bits() -> None:
    """Ollama lists 7.2 GB for gemma4:e2b and 9.6 for gemma4:e4b, towers included; unsloth's own, in lemonade's server_models.json, are
    4.09 and 5.97 with the projector, which llama-quantize's rule is up to 7.5 % above: its table is in fewer bits than the rule's."""
    for name, least, most in (
        ("gemma4:e2b", 7.05, 7.2), ("gemma4:e4b", 9.5, 9.65),
        ("unsloth/gemma-4-E2B-it-GGUF:Q4_K_M", 4.09, 4.4), ("unsloth/gemma-4-E4B-it-GGUF:Q4_K_M", 5.97, 6.4),
    ):  # fmt: skip
        assert least <= planned(name, engine="ideal", context=1).model.weight_bytes / 1e9 <= most, name


def without_tower(model: str, name: str | None = None) -> int:
    """The bytes of a file of the text model alone."""
    plan = planned(model, engine="ideal", context=1, weight_dtype=name)
    return sum(line.bytes for line in plan.ledgers[0].entries if line.name.startswith("weights") and "tower" not in line.name)


def test_files_of_those_who_keep_experts_in_mxfp4_and_of_those_who_do_not() -> None:
    """GB that unsloth's page of files and guide to DeepSeek-V4, and bartowski's and mradermacher's model cards show."""
    shown = {
        "unsloth/gpt-oss-20b-GGUF:Q4_K_M": 11.6, "unsloth/gpt-oss-20b-GGUF:Q2_K": 11.5, "unsloth/gpt-oss-20b-GGUF:Q2_K_L": 11.8,
        "unsloth/gpt-oss-20b-GGUF:F16": 13.8, "bartowski/openai_gpt-oss-20b-GGUF:Q6_K": 12.04, "unsloth/gpt-oss-120b-GGUF:Q4_K_M": 62.8,
        "mradermacher/gpt-oss-20b-GGUF:Q4_K_M": 15.9, "mradermacher/gpt-oss-20b-GGUF:Q8_0": 22.4,
    }  # fmt: skip
    for name, gigabytes in shown.items():
        made = planned(name, engine="ideal", context=1).model.weight_bytes
        assert made / 1e9 == pytest.approx(gigabytes, rel=0.008), name
    for name, gigabytes in (("UD-Q8_K_XL", 162), ("UD-Q4_K_XL", 155)):  # dynamic: what is not an expert is not by the rule
        made = planned(f"unsloth/DeepSeek-V4-Flash-GGUF:{name}", engine="ideal", context=1).model.weight_bytes
        assert made / 1e9 == pytest.approx(gigabytes, rel=0.05), name


def test_every_file_type_has_a_row_and_every_row_a_type() -> None:
    assert GGUF_TYPES == FILE_TYPES


def test_sizes_of_ollamas_files() -> None:
    """ollama_library.jsonl states sizes to two digits. Left out: tied models whose file holds the head once more, and mixed ones."""
    rows = rows_of(shared("data/ollama_library.jsonl"))
    near = checked = 0
    for row in {row["digest"]: row for row in rows if row["default_quant"] in ("Q4_0", "Q4_K_M", "Q8_0")}.values():
        try:
            plan = planned(row["tag"], engine="ideal", context=1)
        except kvplan.KvplanError:
            continue
        size = float(row["size"][:-2]) * {"MB": 1e6, "GB": 1e9}[row["size"][-2:]]
        checked += 1
        near += abs(plan.model.weight_bytes / size - 1) < 0.05
    assert checked > 200
    assert near / checked > 0.93


def test_a_type_that_is_named_of_gpt_oss_is_what_most_files_of_it_are() -> None:
    """unsloth's Q8_0 is 12.1 GB, its F16 13.8 (the Hub's pages), not the 22.4 and 42 of all matrices in those types."""
    for kind, gb in (("q8_0", 12.1), ("f16", 13.8), ("q4_k_m", 11.6)):
        plan = planned("openai/gpt-oss-20b", engine="llama.cpp", device="rtx-4090", context=8192, batch=1, weight_dtype=kind)
        assert plan.model.weight_bytes == pytest.approx(gb * 1e9, rel=0.01)
        assert any("keep its experts in MXFP4" in note for note in plan.model.notes)
