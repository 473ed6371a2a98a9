"""What is said of media beside how many of them there are: memory kept for decoding, and sizes that no line follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.errors import SpecError
from kvplan.planner.plan import Plan
from tests.conftest import planned

MIB, GIB = 1 << 20, 1 << 30
CONTEXT = int(1.8 * 1024 * MIB)


def ask(model: str = "qwen/qwen3-vl-8b", version: str = "0.33", **options: str) -> Plan:
    question: dict[str, Any] = {"engine": "vllm", "engine_version": version, "device": "h100", "context": 8192, "memory_fraction": 0.8}
    return planned(model, **question, engine_option=options)


def test_memory_kept_for_decoding_is_taken_from_the_cache() -> None:
    """multimodal/gpu_ipc_memory.py reserve_mm_ipc_gpu_memory: int(GiB x 2^30), of multimodal models, from 0.25 on."""
    plain, kept = ask(), ask(mm_ipc_gpu_memory_gb="2.5")
    entries = {e.name: e.bytes for e in kept.ledgers[0].entries}
    assert entries["decoded media"] == 5 * GIB // 2
    block = plain.capacity.bytes_per_block if plain.capacity else None
    assert block
    held = [plan.capacity.kv_bytes for plan in (plain, kept) if plan.capacity]
    assert held[0] - held[1] == pytest.approx(5 * GIB // 2, abs=block)
    assert "decoded media" not in {e.name for e in ask("qwen/qwen3-8b", mm_ipc_gpu_memory_gb="2.5").ledgers[0].entries}
    with pytest.raises(SpecError, match="has no --mm-ipc-gpu-memory-gb: it is there"):
        ask(version="0.24", mm_ipc_gpu_memory_gb="2.5")


@pytest.mark.parametrize(
    ("version", "options", "n_bytes"),
    [
        ("0.33", {"media_io_kwargs": '{"video": {"backend": "pynvvideocodec"}}'}, 2 * 128 * MIB + CONTEXT),
        ("0.26", {"video_loader_backend": "pynvvideocodec"}, 128 * MIB + CONTEXT),
        ("0.33", {"video_loader_backend": "pynvvideocodec", "api_server_count": "3"}, 3 * (2 * 128 * MIB + CONTEXT)),
        (
            "0.33",
            {"media_io_kwargs": '{"video": {"backend": "pynvvideocodec", "hw_decoders": 1, "max_width": 7680, "max_height": 4320}}'},
            7680 * 4320 * 3 * 2 + CONTEXT,
        ),
        ("0.33", {"media_io_kwargs": '{"video": {"num_frames": -1}}'}, 0),
        ("0.33", {"video_loader_backend": "opencv"}, 0),
    ],
)
def test_videos_decoded_on_the_device(version: str, options: dict[str, str], n_bytes: int) -> None:
    """pynvvideocodec.py: 128 MiB of surfaces a decoder, two of them from 0.27 on, 1.8 GiB of context, for each API server."""
    entries = {e.name: e.bytes for e in ask(version=version, **options).ledgers[0].entries}
    assert entries.get("decoded media", 0) == n_bytes


def test_it_is_taken_from_memory_that_is_given_too() -> None:
    """gpu_worker.py determine_available_memory reserves of kv_cache_memory_bytes as well."""
    question: dict[str, Any] = {"engine": "vllm", "kv_memory": 8 * GIB, "context": 8192}
    found = [planned("qwen/qwen3-vl-8b", **question, engine_option=options).capacity for options in ({}, {"mm_ipc_gpu_memory_gb": "4"})]
    blocks = [one.blocks for one in found if one and one.blocks]
    assert blocks[1] == blocks[0] // 2


@pytest.mark.parametrize(
    ("options", "said", "certainty"),
    [
        ({"limit_mm_per_prompt": '{"image": {"count": 1, "width": 512}}'}, "limit_mm_per_prompt: width", "certain"),
        ({"mm_processor_kwargs": '{"num_crops": 4}'}, "mm_processor_kwargs: num_crops", "likely"),
        ({"mm_processor_kwargs": '{"device": "cuda"}'}, "mm_processor_kwargs: a processor on cuda", "too close to call"),
        ({"mm_processor_kwargs": '{"max_pixels": 1003520}'}, "", "certain"),
        ({"limit_mm_per_prompt": '{"image": {"count": 1}}'}, "", "certain"),
    ],
)
def test_what_does_not_enter_the_plan_is_said(options: dict[str, str], said: str, certainty: str) -> None:
    """A smaller item lowers the profile, so that what fits still does; a processor on the device takes memory of another process."""
    plan = ask(**options)
    assert plan.certainty == certainty
    assert any(note.startswith(f"not computed: {said}") for note in plan.model.notes) is bool(said)


def test_a_smaller_item_may_still_fit() -> None:
    """Nothing is refused for sure whose profile could be smaller."""
    question: dict[str, Any] = {"engine": "vllm", "device": "rtx-4090", "context": 8192, "max_num_batched_tokens": 65536}
    sizes = {"limit_mm_per_prompt": '{"image": {"count": 8, "width": 512}, "video": 0}'}
    count = {"limit_mm_per_prompt": '{"image": {"count": 8}, "video": 0}'}
    plain, sized = (planned("qwen/qwen3-vl-8b", **question, engine_option=one) for one in (count, sizes))
    assert plain.fits is False
    assert plain.certainty != "too close to call"
    assert sized.certainty == "too close to call"


def test_a_command_says_the_same(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "vllm serve Qwen/Qwen3-VL-8B-Instruct --max-model-len 8192 --mm-ipc-gpu-memory-gb 2 "
        '--media-io-kwargs \'{"video": {"video_backend": "pynvvideocodec"}}\'\n'
    )
    verdict = kvplan.check(script, device="h100")[0]
    assert verdict.status == "fits"
    assert verdict.plan
    assert {e.name: e.bytes for e in verdict.plan.ledgers[0].entries}["decoded media"] == 2 * GIB + 2 * 128 * MIB + CONTEXT
