"""Presets of llama-server's router, Makefiles and justfiles: what a person reads in a minimal one."""

from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from tests.unit.manifests.as_read import found, rules


def test_presets_of_llama_servers_router() -> None:
    one, two = found(
        """
        version = 1
        [*]
        n-gpu-layers = 99
        cache-type-k = q8_0
        cache-type-v = q8_0
        jinja = true
        ; a comment
        [small]
        model = /m/Qwen3-8B-Q4_K_M.gguf
        ctx-size = 16384
        [large]
        hf = Qwen/Qwen3-32B-GGUF:Q4_K_M
        c = 32768
        n-gpu-layers = 40
        kv-offload = off
        """,
        "models.ini",
    )
    assert (one.engine, one.name, one.model) == ("llama.cpp", "small", "/m/Qwen3-8B-Q4_K_M.gguf")
    assert (one.question["max_model_len"], one.question["n_gpu_layers"], one.question["kv_dtype"]) == (16384, 99, "q8_0")
    assert (two.question["max_model_len"], two.question["n_gpu_layers"]) == (32768, 40)
    assert "Qwen3-32B" in (two.model or "")
    assert not {"unknown-option", "bad-value"} & (rules(one) | rules(two))


def test_an_ini_file_of_something_else_starts_nothing() -> None:
    assert not found("[server]\nport = 80\nroot = /srv\n", "x.ini")


MAKEFILE = """
all: one
MODEL ?= Qwen/Qwen3-8B # the model
SPEC := --speculative-config '{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}'
MORE = --max-num-seqs 4
MORE += --max-model-len 8192
define serve
\t@echo starting $(1)
\tIMG=$${VLLM_IMAGE:-vllm/vllm-openai:v0.11.0}; \\
\tdocker run -d --gpus all $${HF_TOKEN:+-e HF_TOKEN=$$HF_TOKEN} \\
\t  $$IMG --model $(1) $(2) $(MORE)
endef
one: stop
\t@docker run -d --gpus all vllm/vllm-openai:v0.11.0 \\
\t  --model "$(MODEL)" $(MORE) $(SPEC)
two:
\t$(call serve,Qwen/Qwen3-32B,--kv-cache-dtype fp8)
"""


def test_recipes_of_a_makefile_are_apart_and_variables_stand_for_their_text() -> None:
    one, two = found(MAKEFILE, "Makefile")
    assert (one.model, one.engine_version, one.span[0]) == ("Qwen/Qwen3-8B", "0.11.0", 13)
    assert (one.question["max_num_seqs"], one.question["max_model_len"], one.question["speculative"]) == (4, 8192, "ngram:2")
    assert (two.model, two.question["kv_dtype"], two.question["max_num_seqs"]) == ("Qwen/Qwen3-32B", "fp8", 4)
    assert one.host == two.host == ""  # one or the other is run: they share no GPU


def test_recipes_of_a_justfile() -> None:
    text = (
        'model := "Qwen/Qwen3-8B"\nserve len="8192" *rest:\n    @vllm serve {{model}} --max-model-len {{len}} \\\n      --block-size 16\n'
    )
    (one,) = found(text, "justfile")
    assert (one.model, one.question["max_model_len"], one.question["block_size"]) == ("Qwen/Qwen3-8B", 8192, 16)


def test_make_bounds_what_its_variables_grow_to() -> None:
    text = "A0 = xxxxxxxxxx\n" + "".join(f"A{n} = {f'$(A{n - 1})' * 10}\n" for n in range(1, 20)) + "t:\n\tvllm serve $(A19)\n"
    with pytest.raises(SpecError):
        found(text, "Makefile")


BRANCHES = 'if [[ -n "$P" ]]; then\n  {name}=({one})\nelse\n  {name}=({two})\nfi\n'


def test_what_is_added_to_an_array_of_two_branches_does_not_stand_alone() -> None:
    text = BRANCHES.format(name="ARGS", one="--gpu-memory-utilization 0.5", two="--max-num-seqs 8")
    (one,) = found(text + 'ARGS+=(--max-model-len 8192)\nvllm serve Qwen/Qwen3-8B "${ARGS[@]}"\n', "s.sh")
    assert one.question["max_model_len"] == 8192
    assert any(u.what == "options" and "$ARGS" in u.why for u in one.unresolved)


def test_a_program_of_two_branches_is_told_by_its_options() -> None:
    text = BRANCHES.format(name="run", one='"$P" -m vllm.entrypoints.cli.main', two="vllm")
    (one,) = found(text + 'run+=(serve Qwen/Qwen3-8B --max-model-len 8192 --max-num-seqs 4)\nexec "${run[@]}"\n', "s.sh")
    assert (one.engine, one.question["max_model_len"]) == ("vllm", 8192)


def test_what_is_added_to_a_variable_that_nothing_sets_is_all_there_is() -> None:
    (one,) = found('ARGS+=(--max-model-len 8192)\nvllm serve Qwen/Qwen3-8B "${ARGS[@]}"\n', "s.sh")
    assert not any(u.what == "options" for u in one.unresolved)


@pytest.mark.parametrize("args", ["--model=Qwen/Qwen3-8B,--max-model-len=8192", "^|^--model=Qwen/Qwen3-8B|--max-model-len=8192"])
def test_a_container_deployed_to_cloud_run(args: str) -> None:
    (one,) = found(
        f"gcloud run deploy llm --image=vllm/vllm-openai:v0.11.0 --gpu=1 --gpu-type=nvidia-l4 --args='{args}' \\\n"
        "  --set-env-vars=VLLM_USE_V1=1,A=b --memory 32Gi\n",
        "s.sh",
    )
    assert (one.model, one.engine_version) == ("Qwen/Qwen3-8B", "0.11.0")
    assert (one.question["device"], one.question["n_devices"], one.question["max_model_len"]) == ("l4", 1, 8192)


def test_presets_that_repeat_a_large_common_part_are_bounded() -> None:
    common = "".join(f"k{n} = 1\n" for n in range(5000))
    with pytest.raises(SpecError, match="grows beyond"):
        found("[*]\n" + common + "".join(f"[s{n}]\nmodel = /m/a.gguf\n" for n in range(5000)), "x.ini")
