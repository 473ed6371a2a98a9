"""Ollama by release: defaults, flash attention, layers on cards. Numbers: hand arithmetic of the release's source, beside each."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import kvplan
from kvplan.catalogue import find_device, find_model
from kvplan.deployment import Deployment
from kvplan.devices import Device, sized
from kvplan.engines import settle
from kvplan.engines.common.protocol import Outcome, Settled
from kvplan.engines.llama_cpp.ollama import estimate as go
from kvplan.engines.llama_cpp.ollama.flash import attention
from kvplan.engines.llama_cpp.ollama.graph import Load
from kvplan.engines.llama_cpp.ollama.layout import layout
from kvplan.engines.llama_cpp.ollama.metadata import Metadata
from kvplan.engines.llama_cpp.ollama.rules import NEWEST, RULES, find
from kvplan.engines.llama_cpp.placement import HOST, place
from kvplan.errors import SpecError
from tests.conftest import one_block, planned

MIB, GIB = 1 << 20, 1 << 30
#: Kept free on every card but Apple's (gpu/gpu.go cudaMinimumMemory).
LEAST = 457 * MIB
LLAMA_8B = find_model("meta-llama/llama-3.1-8b")
#: Ten layers of 100 MiB and an output of 200; K and V of 1,024 tokens are 4 MiB a layer: 1,024 x (128 + 128) x 8 heads x 2 bytes.
PLAIN = Metadata(
    arch="some", embedding=4096, vocab=1000, heads=32, kv_heads=8, k_dim=128, v_dim=128, kv_heads_of=(8,) * 10, states=(0,) * 10,
    cross=frozenset(), window=0, gate_experts=0, feed_forward=0, gate_apart=0,
    layers=(100 * MIB,) * 10, output=200 * MIB, tower=0, projector=0,
)  # fmt: skip


#: The newest release with an engine of its own.
NEWEST_OWN = find("0.24.0")[1]


def ask(version: str | None = None, model: Any = LLAMA_8B, gib: float = 24, **more: Any) -> tuple[Settled, Outcome]:
    options = tuple((key, str(value)) for key, value in more.pop("options", {}).items())
    question = {"device": sized(int(gib * GIB)), "weight_dtype": "q8_0", **more}
    found, settled = settle(Deployment(model=model, engine="ollama", engine_version=version, engine_option=options, **question))
    return settled, found.plan(settled)


@pytest.mark.parametrize(
    ("version", "num_ctx", "slots"),
    [
        ("0.1.48", 2048, 1), ("0.2.0", 2048, 4), ("0.6.6", 2048, 4), ("0.6.7", 4096, 2), ("0.9.6", 4096, 2), ("0.10.0", 4096, 1),
        ("0.15.4", 4096, 1), ("0.15.5", 32_768, 1), ("0.24.0", 32_768, 1), ("0.32.15", 32_768, 1),
    ],
)  # fmt: skip
def test_context_and_slots_by_release(version: str, num_ctx: int, slots: int) -> None:
    question = ask(version)[0].question
    assert (question.context, question.max_num_seqs, question.max_model_len) == (num_ctx, slots, num_ctx * slots)


@pytest.mark.parametrize(
    ("version", "tokens", "batch"), [("0.24.0", 32_768, 512), ("0.30.0", 4096, 512), ("0.30.0", 8192, 1024), (None, 65_536, 2048)]
)
def test_batch_by_context_from_0_30_on(version: str | None, tokens: int, batch: int) -> None:
    assert ask(version, gib=80, max_model_len=tokens)[0].question.max_num_batched_tokens == batch


def test_the_batch_is_smaller_where_memory_is_tight() -> None:
    """8,192 tokens: 1,024 while the model takes 75 % at most. Here: 8.03e9 weights at 8.5 bits and 1 GiB of cache, 8.9 GiB."""
    assert ask(None, gib=16, max_model_len=8192)[0].question.max_num_batched_tokens == 1024
    assert ask(None, gib=10, max_model_len=8192)[0].question.max_num_batched_tokens == 512


def test_four_slots_only_where_all_layers_fit() -> None:
    """Four slots of 8,192 tokens: 7.4 GiB of weights, 4 of cache, 4 x 512 x (1 + 4 x 4,096 + 32,768 x 33) of graph: 14.3. One: 9.7."""
    assert ask("0.3.0", gib=24, max_model_len=8192)[0].question.max_num_seqs == 4
    assert ask("0.3.0", gib=11, max_model_len=8192)[0].question.max_num_seqs == 1
    assert ask("0.3.0", gib=11, max_model_len=8192, max_num_seqs=4)[0].question.max_num_seqs == 4


@pytest.mark.parametrize(
    ("version", "free_mib", "layers"),
    [
        # 457 + graph of 4 x 40 / 6 = 26.7 + 10 x 104 + 200 = 1,723.7
        ("0.1.33", 1724, 11), ("0.1.33", 1723, 10),
        # one layer's 100 kept free: 1,823.7
        ("0.1.34", 1824, 11), ("0.1.34", 1823, 10), ("0.1.44", 1823, 10),
        # a layer with its cache kept free, 104: 1,827.7
        ("0.1.45", 1828, 11), ("0.1.45", 1827, 10), ("0.6.8", 1828, 11),
        # 0.7.0 alone keeps the largest, the output, free: 200 + 4, 1,927.7
        ("0.7.0", 1927, 10), ("0.7.0", 1928, 11), ("0.12.10", 1828, 11),
        # too little for two layers beside minimum, graph and buffer: 457 + 26.7 + 2 x 104 = 691.7
        ("0.3.0", 691, 0), ("0.3.0", 800, 2),
    ],
)  # fmt: skip
def test_layers_on_one_card(version: str, free_mib: int, layers: int) -> None:
    rules = find(version)[1]
    rules = rules._replace(least=0)
    found = go.estimate(rules, go.sizes(rules, PLAIN, Load(1024, 512, 1, flash=False), "f16", metal=False), [free_mib * MIB], None)
    assert found.offloaded == layers


def test_layers_go_round_two_cards() -> None:
    """Each card of 1,000 MiB has 1000 - 457 - 104 - 26.7 for layers of 104: three. Four layers and the output are left: 616 MiB."""
    rules = find("0.3.0")[1]
    found = go.estimate(rules, go.sizes(rules, PLAIN, Load(1024, 512, 1, flash=False), "f16", metal=False), [1000 * MIB] * 2, None)
    assert (found.cards, found.lacking) == ((3, 3), 616 * MIB)


@pytest.mark.parametrize(
    ("free", "cards"),
    [
        ([1300], (11,)),  # 1,300 - 100 of graph takes 1,000 + 200
        ([1299], (10,)),  # not all: then without the output, ten of 100
        ([1000], (9,)),
        ([1000, 500], (8, 3)),  # 900 and 400: the output and two layers on the second, the rest on the first
        ([500, 1000], (3, 8)),  # the larger card first
        ([3000, 3000], (11, 0)),  # as few cards as hold all
        ([50], (0,)),
    ],
)
def test_layouts(free: list[int], cards: tuple[int, ...]) -> None:
    layers = [100 * MIB] * 10 + [200 * MIB]
    assert layout(layers, [(457 + n) * MIB for n in free], 100 * MIB, None, spread=False, minimum=LEAST) == cards


def test_layouts_asked_for() -> None:
    layers = [100 * MIB] * 10 + [200 * MIB]
    assert layout(layers, [(457 + 3000) * MIB] * 2, 100 * MIB, None, spread=True, minimum=LEAST) == (
        6,
        5,
    )  # 600 each: six; four and the output
    assert sum(layout(layers, [(457 + 3000) * MIB], 100 * MIB, 4, spread=False, minimum=LEAST)) == 4


@pytest.mark.parametrize(
    ("arch", "before", "since"),
    [
        ("gptoss", "0.11.7", "0.11.8"), ("qwen3", "0.12.3", "0.12.4"), ("gemma3", "0.12.5", "0.12.6"), ("qwen3vl", "0.12.7", "0.12.8"),
        ("mistral3", "0.13.1", "0.13.2"), ("gemma4", "0.20.3", "0.20.4"),
    ],
)  # fmt: skip
def test_flash_attention_by_model(arch: str, before: str, since: str) -> None:
    m = PLAIN._replace(arch=arch)
    question = Deployment(model=LLAMA_8B)
    assert [attention(find(version)[1], m, question, None).flash for version in (before, since)] == ["off", "on"]
    stays = "on" if since == "0.11.8" else "off"  # before 0.12.4 llm/server.go turns it on whatever the variable says
    assert attention(find(since)[1], m, question, "off").flash == stays
    assert attention(NEWEST_OWN, m, question, "off").flash == "off"


def test_flash_attention_by_maker() -> None:
    """0.4.7 llm/server.go: cuda and metal alone; 0.5.0 gpu/types.go: rocm too; no flag before 0.1.39."""
    cards = {name: Deployment(model=LLAMA_8B, device=find_device(name)) for name in ("rtx-3090", "rx-7900-xtx", "apple-m1-max-64gb")}
    for version, has in (("0.1.38", (0, 0, 0)), ("0.4.7", (1, 0, 1)), ("0.5.0", (1, 1, 1))):
        found = [attention(find(version)[1], PLAIN, card, "on").flash for card in cards.values()]
        assert found == ["on" if one else "off" for one in has], version


def test_flash_attention_that_can_not_be() -> None:
    question = Deployment(model=LLAMA_8B)
    assert attention(find("0.11.10")[1], PLAIN._replace(arch="gemma2"), question, "on").flash == "on"
    assert attention(find("0.11.11")[1], PLAIN._replace(arch="gemma2"), question, "on").flash == "off"
    assert attention(find("0.9.0")[1], PLAIN._replace(k_dim=192), question, "on").flash == "off"
    assert attention(find("0.13.3")[1], PLAIN, question, None).flash == "off"
    assert attention(find("0.13.4")[1], PLAIN, question, None).flash == "auto"
    pascal = Device(id="p", name="p", vendor="nvidia", memory_gb=24, compute_capability="6.1")
    old = Deployment(model=LLAMA_8B, device=pascal)
    assert [attention(find(version)[1], PLAIN, old, None).flash for version in ("0.30.0", "0.31.1", "0.31.2")] == ["off", "off", "auto"]


@pytest.mark.parametrize(
    ("version", "options", "kv"),
    [("0.4.7", {"flash_attn": "on"}, "f16"), ("0.5.0", {"flash_attn": "on"}, "q8_0"), ("0.5.0", {}, "f16"), ("0.30.0", {}, "q8_0")],
)
def test_a_quantised_cache_needs_flash_attention(version: str, options: dict[str, str], kv: str) -> None:
    settled, _ = ask(version, kv_dtype="q8_0", options=options)
    assert settled.question.kv_dtype == kv
    assert any("in f16" in note for note in settled.notes) == (kv == "f16")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        # llm/server.go of the tags v0.2.2 to v0.24.0 asks how much is free; v0.1.33 to v0.2.1 and v0.30.0 on do not
        ("0.1.40", "llama runner process has terminated"),
        ("0.2.1", "llama runner process has terminated"),
        ("0.2.2", "model requires more system memory"),
        ("0.5.7", "model requires more system memory"),
        ("0.9.0", "model requires more system memory"),
        ("0.12.11", "model requires more system memory"),
        ("0.24.0", "model requires more system memory"),
        ("0.30.0", "llama-server reported out-of-memory during startup"),
        (NEWEST, "llama-server reported out-of-memory during startup"),
    ],
)
def test_layers_in_host_memory_start_only_where_that_is_given(version: str, words: str) -> None:
    """32 layers of 223 MB at 8.5 bits do not go on a card of 4 GiB."""
    settled, alone = ask(version, gib=4, max_model_len=4096)
    on_card = settled.question.n_gpu_layers or 0
    assert 0 < on_card < 33
    assert (alone.starts, alone.fits) == (False, False)
    assert f"{on_card} of 33 layers" in (alone.reason or "")
    assert (alone.margin_bytes or 0) < -GIB
    assert ask(version, gib=4, max_model_len=4096, host_memory=16 * GIB)[1].starts
    small = ask(version, gib=4, max_model_len=4096, host_memory=GIB)[1]
    assert not small.starts
    assert (small.reason or "").startswith(words)
    assert "1.000 GiB" in (small.reason or "")
    assert ask(version, gib=4, max_model_len=4096, n_gpu_layers=8)[1].starts


def test_what_fits_is_on_the_card() -> None:
    for version in RULES:
        settled, outcome = ask(version, max_model_len=4096)
        assert outcome.fits, version
        assert settled.question.n_gpu_layers == 33, version


def test_llama_server_leaves_a_gibibyte_free() -> None:
    """--fit: from 0.30 on a model is wholly on the card only where 1 GiB is left beside it."""
    left = ask(None, gib=16, max_model_len=4096)[1].margin_bytes or 0
    used = 16 - left / GIB
    assert ask(None, gib=used + 1.01, max_model_len=4096)[1].starts
    assert not ask(None, gib=used + 0.99, max_model_len=4096)[1].starts


def test_releases_that_are_not_known() -> None:
    assert find("0.12.9")[2] == ()
    assert find("0.12.9")[1].release == (0, 12, 9)
    assert "older than the scheduler" in find("0.1.20")[2][0]
    assert "newer than" in find("1.0.0")[2][0]
    assert "names no release" in find("main")[2][0]


def test_the_output_layer_came_last_before_18148() -> None:
    equal: list[Fraction] = []
    assert place(4, 0, 1, 2, equal, output_first=True)[:2] == ((HOST, HOST, HOST, 0), 0)
    assert place(4, 0, 1, 2, equal, output_first=False)[:2] == ((HOST, HOST, 0, 0), HOST)
    assert place(4, 0, 1, 5, equal, output_first=False)[:2] == ((0, 0, 0, 0), 0)


def test_cards_that_differ() -> None:
    """llama.cpp deals 33 layers out by memory, 2 to 1; Ollama fills the larger card first."""
    question: dict[str, Any] = {"model": LLAMA_8B, "device": sized(24 * GIB), "weight_dtype": "q8_0", "max_model_len": 4096}
    engine, settled = settle(Deployment(engine="llama.cpp", engine_option=(("device_memory", "24GiB/12GiB"),), **question))
    first, second, _ = engine.plan(settled).ledgers
    assert (first.limit_bytes, second.limit_bytes) == (24 * GIB, 12 * GIB)
    assert (first.cache_bytes, second.cache_bytes) == (22 * 4096 * 4096, 10 * 4096 * 4096)  # the output is the second's eleventh
    _, outcome = ask("0.13.0", max_model_len=4096, options={"device_memory": "4GiB/24GiB"})
    assert {ledger.ranks[0]: ledger.cache_bytes for ledger in outcome.ledgers if ledger.cache_bytes} == {1: 32 * 4096 * 4096}
    with pytest.raises(SpecError, match="2 sizes for 3 devices"):
        ask("0.13.0", n_devices=3, options={"device_memory": "4GiB/24GiB"})
    with pytest.raises(SpecError, match="name the device"):
        settle(Deployment(model=LLAMA_8B, engine="llama.cpp", engine_option=(("device_memory", "4GiB"),)))


def test_windows_of_its_own_engine_keep_4096_tokens() -> None:
    """ollama/ollama#15634, gemma4:26b at 32,768 tokens with 0.20: `kv cache` 1.5 GiB is 5 layers of 32,768 tokens and 25 of 4,096 + 512."""
    window = {"kind": "sliding", "heads": 16, "kv_heads": 8, "head_dim": 256, "window": 1024}
    model = one_block(window, n_layers=25).changed(architecture="Gemma4ForConditionalGeneration")
    for version, cells in (("0.20.7", 4608), ("0.32.15", 1024 + 1024)):
        _, outcome = ask(version, model=model, max_model_len=32_768)
        assert outcome.capacity is not None
        assert next(g.cells for g in outcome.capacity.groups if g.role == "kv_swa") == cells


def test_the_graph_of_a_tower_that_is_not_described_is_not_known() -> None:
    """gemma4:e2b in 6 GiB; of 4 GiB, Ollama 0.23.1 left a layer out (vasyl.blog, 12 May 2026): the output, which holds the tables."""
    asked: dict[str, Any] = {"engine": "ollama", "engine_version": "0.23.1", "device": "6GiB", "weight_dtype": "q4_k_m"}
    small = planned("google/gemma-4-e2b", reserve=0, **{**asked, "device": "4GiB"})
    assert small.capacity is not None
    assert (small.capacity.offloaded, small.outcome.certainty) == ((35, 36), "certain")
    with_images, without = (planned("google/gemma-4-e2b", multimodal=on, reserve=0, **asked) for on in (None, "off"))
    assert (with_images.outcome.certainty, without.outcome.certainty) == ("too close to call", "certain")


@pytest.mark.parametrize(
    ("device", "reserve", "sure"),
    [
        ("8GiB", None, "too close to call"),
        ("8GiB", 0, "certain"),
        ("16GiB", None, "likely"),
        ("l4", None, "certain"),
    ],
)
def test_a_desktop_that_nobody_speaks_of(device: str, reserve: int | None, sure: str) -> None:
    """ollama#5670: a laptop's 4060 of 8 GB leaves 10 % of this model in RAM; without a desktop its 8 GiB hold it."""
    question: dict[str, Any] = {"engine": "ollama", "engine_version": "0.2.3", "weight_dtype": "q6_k", "context": 5120}
    found = planned("meta-llama/Meta-Llama-3-8B", device=device, reserve=reserve, **question)
    assert found.starts
    assert found.outcome.start_certainty == sure


@pytest.mark.parametrize(("release", "model", "kept"), [
    ("0.15.5", "qwen/qwen3-next-80b-a3b", 33),  # model/models/qwen3next/checkpoints.go: checkpointCountDefault 32
    ("0.24.0", "qwen/qwen3.6-27b", 25),  # kvcache/recurrent.go: DefaultCheckpointCount 24, from 0.17.1 on
    ("0.32.15", "qwen/qwen3.6-27b", 1),  # llama-server
])  # fmt: skip
def test_its_own_engine_keeps_checkpoints_of_states(release: str, model: str, kept: int) -> None:
    """All of them are reserved at the start: layers x (heads x 128 x 128 + 3 x conv channels) x 4 B each."""
    plan = planned(model, engine="ollama", engine_version=release, device="h200", context=8192)
    layers, heads = (36, 32) if "next" in model else (48, 48)
    channels = (2 * 16 + heads) * 128
    states = sum(line.bytes for ledger in plan.ledgers for line in ledger.entries if line.name == "cache: rs")
    assert states == kept * layers * (heads * 128 * 128 + 3 * channels) * 4


def test_requests_beyond_the_slots_are_said_beside_what_the_card_lacks() -> None:
    """39.6 GiB of weights on 24: not wholly on the card, and one slot for four requests."""
    asked: dict[str, Any] = {"engine": "ollama", "device": "rtx-4090", "context": 8192, "batch": 4}
    plan = planned("llama3.3:70b", **asked)
    assert plan.starts is False
    assert plan.capacity is not None
    assert any("n_seq_max is 1, a slot has 8192 cells" in warning for warning in plan.capacity.warnings)


@pytest.mark.parametrize(("weights", "context"), [("q5_k_m", 37_888), ("q4_k_m", 46_080)])
def test_longest_contexts_of_exaone(weights: str, context: int) -> None:
    """ollama#14909, 24 and 12 GB: `100% GPU` and an estimate of 35 GB at both lengths, with OLLAMA_KV_CACHE_TYPE=q8_0.

    By hand, the second: 19.0 GB of weights, 46,080 x 64 layers x 2,048 B of cache, and on both cards 5/6 of that as graph: 35.1.
    """
    question = Deployment(
        model=find_model("lgai-exaone/exaone-4.0-32b"), engine="ollama", engine_version="0.18.0", weight_dtype=weights, kv_dtype="q8_0",
        device=find_device("rtx-3090"), n_devices=2, max_model_len=context,
        engine_option=(("flash_attn", "on"), ("device_memory", "24GiB/12GiB")),
    )  # fmt: skip
    scheduler = settle(question)[1].settings.placing.__self__
    sizes = go.sizes(scheduler.rules, scheduler.metadata, Load(context, 512, 1, flash=True), scheduler.kv_type, metal=False)
    assert sum(scheduler.counts(context, 1, scheduler.free())[0]) == 65
    assert (sum(sizes.layers) + sizes.output + 2 * max(sizes.graph)) / 1e9 == pytest.approx(35, abs=0.6)


def test_two_stages_are_two_cards() -> None:
    """num_ctx follows the memory of all cards, however their number is said."""
    asked = {"engine": "ollama", "device": "rtx-4090"}
    staged, counted = (planned("qwen3:32b", **asked, **n) for n in ({"pp": 2}, {"n_devices": 2}))
    assert staged.asked("context") == counted.asked("context") > planned("qwen3:32b", **asked).asked("context")
    assert staged.margin_bytes == counted.margin_bytes


def test_files_of_deepseek_v2_keep_every_head() -> None:
    """Of 2024, before ggml-org/llama.cpp#12801: 27 layers x 16 heads x (192 + 128) x 2 B = 276,480 B a token."""
    plan = planned("deepseek-coder-v2:16b", engine="ollama", device="rtx-4090", context=8192)
    assert plan.cache.bytes_per_token == 276_480
    assert any("K and V of every head" in note for note in plan.model.notes)


def test_its_own_engine_counts_the_tables_of_every_layer_to_the_output() -> None:
    """ollama/ollama#15749, gemma4:e4b on an RX 6600 XT with 0.21: 42 of 43 layers, 2.8 GiB on the card and 6.6 GiB off it.

    5.25 GiB of that are the table of 256 elements for each of 42 layers of each of 262,144 tokens; llama.cpp, and Ollama from 0.30 on,
    leave it in host memory.
    """
    plan = planned("gemma4:e4b", engine="ollama", engine_version="0.21.0", device="rx-6600-xt", batch=1)
    assert plan.capacity is not None
    assert (plan.starts, plan.capacity.offloaded) == (False, (42, 43))
    card, beside = plan.ledgers
    assert card.total_bytes / GIB == pytest.approx(2.8, abs=0.1)
    assert beside.total_bytes / GIB == pytest.approx(6.6, abs=0.15)
    later = planned("gemma4:e4b", engine="ollama", engine_version="0.30.0", device="rx-6600-xt", context=4096, batch=1)
    assert later.capacity is not None
    assert later.capacity.offloaded == (43, 43)


@pytest.mark.parametrize(("engine", "model"), [("ollama", "deepseek-r1:latest"), ("vllm", "deepseek-ai/deepseek-v3")])
def test_a_bare_name_is_the_librarys_latest(engine: str, model: str) -> None:
    """`ollama run deepseek-r1` loads a distilled model of 8 billion parameters (ollama.com/library/deepseek-r1), not the release of 671."""
    assert kvplan.model("deepseek-r1").id == "deepseek-ai/deepseek-v3"
    assert kvplan.estimate("deepseek-r1", engine=engine, device="h100", advise=False).model.id == model


@pytest.mark.parametrize(
    ("model", "release", "device", "context", "layers", "sure"),
    [
        ("qwen3-coder:30b", "0.23.4", "rtx-2060-super", "16k", (18, 49), "likely"),  # offloaded 18/49, and it answered
        ("deepseek-coder-v2:16b", "0.3.0", "rtx-3060-ti", None, (21, 28), "too close to call"),  # ollama#6139: 20/28, and it ran out
    ],
)
def test_how_little_a_split_leaves_decides_nothing(
    model: str, release: str, device: str, context: str | None, layers: tuple[int, int], sure: str
) -> None:
    """The scheduler fills a card up to its own estimate: what is left is less than a layer, whatever the model."""
    plan = planned(model, engine="ollama", engine_version=release, device=device, context=context, host_memory="64GiB")
    assert plan.capacity is not None
    assert (plan.capacity.offloaded, plan.starts, plan.certainty) == (layers, True, sure)
