"""SGLang's options that looked as if no memory hung on them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan

SERVE = "python -m sglang.launch_server --model-path {} {}\n"


def check(words: str, tmp_path: Path, before: str = "", model: str = "Qwen/Qwen3-8B", device: str = "b200") -> kvplan.Verdict:
    script = tmp_path / "run.sh"
    script.write_text(before + SERVE.format(model, words))
    return kvplan.check(script, device=device)[0]


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("--decode-attention-backend trtllm_mha", 64),
        ("--prefill-attention-backend trtllm_mha", 64),
        ("--prefill-attention-backend fa3 --decode-attention-backend trtllm_mha --page-size 32", 32),
        ("--attention-backend triton --decode-attention-backend flashinfer", 1),
        ("", 64),  # what Blackwell picks by itself
        ("--attention-backend triton --prefill-attention-backend flashmla", 1),  # only a decoder's pages are changed for it
    ],
)
def test_a_backend_of_one_phase_sets_the_page_size(words: str, page: int, tmp_path: Path) -> None:
    """0.5.23 arg_groups/overrides.py _mla_backend_page_constraints."""
    plan = check(words, tmp_path).plan
    assert plan is not None
    assert plan.question["block_size"][0] == page


@pytest.mark.parametrize(
    ("words", "before", "rule"),
    [
        ("--disable-cuda-graph-padding", "", "not-modelled-more"),  # a graph of every batch size (cuda_graph_hook.py)
        ("--mm-enable-dp-encoder", "", "not-modelled-more"),
        ("--enable-memory-saver --enable-weights-cpu-backup", "", "not-modelled-either"),
        ("--model-impl transformers", "", "not-modelled-either"),
        ("", "SGLANG_USE_CUDA_IPC_TRANSPORT=1 ", "not-modelled-either"),
        ("--tp 2", "NCCL_BUFFSIZE=33554432 ", "not-modelled-either"),
    ],
)
def test_what_moves_memory_is_said(words: str, before: str, rule: str, tmp_path: Path) -> None:
    assert rule in {finding.rule for finding in check(words, tmp_path, before).findings}
    assert rule not in {
        finding.rule for finding in check("--model-impl auto", tmp_path, "PYTORCH_ALLOC_CONF=expandable_segments:True ").findings
    }
