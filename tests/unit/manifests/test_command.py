"""Command lines and shell scripts: what each spelling of an option means, as the engine reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import SpecError
from kvplan.manifests import Found, read

DEVICE = "# kvplan: device=h100-80gb\n"


def one(text: str, name: str = "serve.sh") -> Found:
    (found,) = read(text, name)
    return found


def question(text: str) -> dict[str, Any]:
    return {k: v for k, v in one(text).question.items() if k != "device"}


@pytest.mark.parametrize(
    ("written", "tokens"),
    [("32768", 32_768), ("32k", 32_000), ("32K", 32_768), ("25.6k", 25_600), ("1m", 1_000_000), ("1M", 1_048_576)],
)
def test_vllm_reads_sizes_its_own_way(written: str, tokens: int) -> None:
    """vllm/utils/argparse_utils.py human_readable_int, whose own examples are 1k = 1,000, 1K = 1,024, 25.6k = 25,600."""
    assert question(f"vllm serve m/x --max-model-len {written}") == {"max_model_len": tokens}


@pytest.mark.parametrize("written", ["1.5K", "lots", "3.5", "0x10"])
def test_vllm_refuses_other_sizes(written: str) -> None:
    found = one(f"vllm serve m/x --max-model-len {written}")
    assert [(f.rule, f.severity) for f in found.findings] == [("bad-value", "error")]


@pytest.mark.parametrize("written", ["-1", "auto"])
def test_vllm_fits_the_length_itself(written: str) -> None:
    assert question(f"vllm serve m/x --max-model-len {written}") == {"engine_option": {"auto_fit": True}}
    assert question(f"vllm serve m/x --max-model-len={written}") == {"engine_option": {"auto_fit": True}}


@pytest.mark.parametrize(
    "words",
    [
        "vllm serve m/x --tensor-parallel-size 4",
        "vllm serve m/x --tensor_parallel_size=4",
        "vllm serve m/x -tp 4",
        "vllm serve m/x -tp=4",
        "vllm serve --model m/x --tensor-par 4",
        "python -m vllm.entrypoints.openai.api_server --model m/x -tp 4",
        "/opt/venv/bin/python3.12 -m vllm.entrypoints.openai.api_server --model=m/x -tp 4",
        "env FOO=1 nohup numactl -N 0 vllm serve m/x -tp 4 &",
        "exec vllm serve m/x -tp 4 2>&1 | tee log",
        "sudo docker run --rm --gpus all vllm/vllm-openai:v0.11.0 --model m/x -tp 4",
        "docker run --entrypoint vllm vllm/vllm-openai:v0.11.0 serve m/x -tp 4",
        "bash -c 'vllm serve m/x -tp 4'",
        'cd /srv && source .venv/bin/activate && vllm serve "m/x" -tp "4"',
        "if true; then vllm serve m/x -tp 4; fi",
        "start() {\n  vllm serve m/x \\\n    -tp 4\n}\nstart",
        "uv run vllm serve m/x -tp 4",
        "uvx --with flashinfer vllm serve m/x -tp 4",
        "python3 -u -X faulthandler -m vllm.entrypoints.openai.api_server --model m/x -tp 4",
        "/opt/venv/bin/python /opt/venv/bin/vllm serve m/x -tp 4",
        "bash -c 'exec vllm serve \"$@\"' -- m/x -tp 4",
        "bash -eu -o pipefail -c 'vllm serve m/x -tp 4'",
        "sh -c 'vllm serve $1 -tp $2' run m/x 4",
        "C='vllm serve m/x -tp 4'; eval \"$C\"",
        "C='vllm serve m/x -tp 4'; $C",
        'C=(vllm serve m/x); C+=(-tp 4); "${C[@]}"',
        'set -- m/x -tp 4\nvllm serve "$@"',
        "ssh gpu01 'cd /srv && vllm serve m/x -tp 4'",
        "tmux new-session -d -s llm 'vllm serve m/x -tp 4'",
        "screen -dmS llm vllm serve m/x -tp 4",
        "kubectl exec -it pod/llm -- vllm serve m/x -tp 4",
        "docker container run --rm --gpus all vllm/vllm-openai --model m/x -tp 4",
        "docker exec -d llm bash -c 'vllm serve m/x -tp 4'",
        "cat > run.sh <<'EOF'\nvllm serve m/x -tp $1\nEOF\nbash ./run.sh 4",
        "vllm serve m/x -tp $((2 * 2))",
        "N=8; vllm serve m/x -tp $(( N / 2 ))",
    ],
)
def test_ways_to_say_it(words: str) -> None:
    found = one(words)
    assert (found.engine, found.model, found.question) == ("vllm", "m/x", {"tp": 4})


@pytest.mark.parametrize(
    "words", ["echo vllm serve m/x", "# vllm serve m/x", "pip install vllm", "vllm bench serve", "grep 'vllm serve' log"]
)
def test_what_starts_nothing(words: str) -> None:
    assert read(words, "serve.sh") == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("vllm serve m/x --enforce-eager", {"enforce_eager": True}),
        ("vllm serve m/x --no-enforce-eager", {"enforce_eager": False}),
        ("vllm serve m/x -O0", {"enforce_eager": True}),
        ("vllm serve m/x -O3", {}),
        ("vllm serve m/x -O 0", {"enforce_eager": True}),
        ("vllm serve m/x --compilation-config '{\"cudagraph_mode\": \"NONE\"}'", {"enforce_eager": True}),
        ("vllm serve m/x --compilation-config.cudagraph_mode NONE", {"enforce_eager": True}),
        ("vllm serve m/x --compilation-config '{\"level\": 3}'", {}),
        ("vllm serve m/x --no-enable-prefix-caching", {"engine_option": {"enable_prefix_caching": False}}),
        ("vllm serve m/x -tp 4 -dp 2 --enable-expert-parallel", {"tp": 4, "dp": 2, "ep": 8}),
        ("vllm serve m/x --enable-lora --max-lora-rank 64 --max-loras 4", {"lora": "64x4"}),
        ("vllm serve m/x --enable-lora", {"lora": "16x1"}),
        ("vllm serve m/x --quantization fp8", {"weight_dtype": "fp8"}),
        ("vllm serve m/x --quantization awq", {"engine_option": {"quantization": "awq"}}),
        ("vllm serve m/x --quantization awq_marlin", {}),
        ("vllm serve m/x --limit-mm-per-prompt '{\"image\": 0, \"video\": 0}'", {"multimodal": "off"}),
        ("vllm serve m/x --limit-mm-per-prompt image=0,video=0", {"multimodal": "off"}),
        ("vllm serve m/x --limit-mm-per-prompt '{\"image\": 2}'", {"engine_option": {"limit_mm_per_prompt": '{"image": 2}'}}),
        ("vllm serve m/x --limit-mm-per-prompt image=0", {"engine_option": {"limit_mm_per_prompt": '{"image": "0"}'}}),
        ("vllm serve m/x --speculative-config '{\"model\": \"d/y\", \"num_speculative_tokens\": 5}'", {"speculative": "draft_model:5:d/y"}),
        ("vllm serve m/x --speculative-config.method ngram --speculative-config.num_speculative_tokens 4", {"speculative": "ngram:4"}),
        ("vllm serve m/x --speculative-config.method ngram --speculative-config.num-speculative-tokens 4", {"speculative": "ngram:4"}),
        ("vllm serve m/x --spec-method eagle3 --spec-model d/y --spec-tokens 2", {"speculative": "eagle3:2:d/y"}),
        ("vllm serve m/x --kv-cache-memory-bytes 10G", {"kv_memory": 10 * 2**30}),
        ("vllm serve m/x --kv-cache-memory-bytes 10g", {"kv_memory": 10**10}),
        ("VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve m/x", {"engine_option": {"attention_backend": "FLASHINFER"}}),
        ("CUDA_VISIBLE_DEVICES=0,3 vllm serve m/x -tp 2", {"tp": 2, "n_devices": 2}),
        ("vllm serve m/x --served-model-name a b c --max-num-seqs 8", {"max_num_seqs": 8}),
        (
            "sglang serve --model-path m/x --tp 2 --dp 2 --enable-dp-attention",
            {"tp": 2, "dp": 2, "engine_option": {"enable_dp_attention": True}},
        ),
        ("sglang serve --model m/x --disable-cuda-graph --mem-fraction-static .85", {"enforce_eager": True, "memory_fraction": 0.85}),
        (
            "sglang serve --model m/x --speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-num-draft-tokens 4",
            {"speculative": "eagle:3"},
        ),
        (
            "sglang serve --model m/x --speculative-algorithm EAGLE --speculative-num-steps 5 --speculative-num-draft-tokens 8",
            {"speculative": "eagle:5", "engine_option": {"speculative_num_draft_tokens": 8}},
        ),
        ("sglang serve --model m/x --tp 8 --moe-a2a-backend deepep", {"tp": 8, "ep": 8, "engine_option": {"moe_a2a_backend": "deepep"}}),
        (
            "sglang serve --model m/x --quantization fp8 --kv-cache-dtype auto",
            {"weight_dtype": "fp8", "engine_option": {"quantization": "fp8"}},
        ),
        ("trtllm-serve m/x --tp_size 4 --ep_size 4 --max_seq_len 8192", {"tp": 4, "ep": 4, "max_model_len": 8192}),
        ("trtllm-serve serve m/x --kv_cache_free_gpu_memory_fraction 0.8", {"memory_fraction": 0.8}),
    ],
)  # fmt: skip
def test_options(words: str, expected: dict[str, Any]) -> None:
    assert question(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("llama-server -m x.gguf -c 4096 -np 4 -ub 256", {"max_model_len": 4096, "max_num_seqs": 4, "engine_option": {"n_ubatch": 256}}),
        ("llama-server -hf ggml-org/m:Q8_0 -fa -ngl 20", {"n_gpu_layers": 20, "engine_option": {"flash_attn": "on"}}),
        ("llama-server -m x.gguf --flash-attn auto -ngl all", {"n_gpu_layers": 10_000, "engine_option": {"flash_attn": "auto"}}),
        ("llama-server -m x.gguf -fa off -ngl auto", {"engine_option": {"flash_attn": "off"}}),
        ("llama-server -m x.gguf -ctk q8_0", {"kv_dtype": "q8_0/f16"}),
        ("llama-server -m x.gguf --override-kv a.context_length=int:9", {"engine_option": {"override_kv": "a.context_length=int:9"}}),
        ("llama-server -m x.gguf --override-kv tokenizer.ggml.add_bos_token=bool:false", {}),
        (
            "llama-server -m x.gguf --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768",
            {"engine_option": {"rope_scaling": "yarn", "rope_scale": "4", "yarn_orig_ctx": 32768}},
        ),
        ("llama-server -m x.gguf --cache_type_v q4_0", {"kv_dtype": "f16/q4_0"}),
        ("llama-server -m x.gguf -nkvo --no-mmproj", {"multimodal": "off", "engine_option": {"no_kv_offload": True}}),
        ("llama-server -m x.gguf -sm none -c 0", {"n_devices": 1, "engine_option": {"split_mode": "none", "fit_ctx": 1 << 31}}),
        ("llama-server -m x.gguf -ot a=CPU -ot b=CUDA1", {"engine_option": {"override_tensor": "a=CPU,b=CUDA1"}}),
        ("llama-server -m x.gguf --no-op-offload -sm row", {"engine_option": {"op_offload": False, "split_mode": "row"}}),
        ("llama-server -m x.gguf -ngld 0 --no-mmproj-offload", {"engine_option": {"n_gpu_layers_draft": 0, "mmproj_offload": False}}),
        ("llama-server -m x.gguf --no-kv-unified -ts 3,1", {"engine_option": {"kv_unified": False, "tensor_split": "3,1"}}),
        ("LLAMA_ARG_CTX_SIZE=8192 LLAMA_ARG_N_PARALLEL=2 llama-server -m x.gguf -c 4096", {"max_model_len": 4096, "max_num_seqs": 2}),
    ],
)  # fmt: skip
def test_llama_server(words: str, expected: dict[str, Any]) -> None:
    options = {**expected.get("engine_option", {}), "server": True}
    env = "export " + words.replace(" llama-server", "\nexport X=1\nllama-server", 1) if words.startswith("LLAMA") else words
    assert question(words) == {**expected, "engine_option": options}
    assert question(env) == {**expected, "engine_option": options}


def test_the_model_of_a_file_is_open() -> None:
    (open_model, _) = one("llama-server -m /models/x.gguf").unresolved
    assert (open_model.what, open_model.give) == ("model", "--model /models/x.gguf=ID")


@pytest.mark.parametrize(
    ("words", "rule", "severity"),
    [
        ("vllm serve m/x --gpu-memory-utilisation 0.9", "unknown-option", "warning"),
        ("docker run vllm/vllm-openai:v0.11.0 --model m/x --gpu-memory-utilisation 0.9", "unknown-option", "error"),
        ("docker run vllm/vllm-openai:v0.8.5 --model m/x --kv-cache-memory-bytes 1G", "too-new-option", "error"),
        ("docker run vllm/vllm-openai:v0.10.1 --model m/x --kv-cache-memory-bytes 1G", "too-new-option", "warning"),
        ("docker run vllm/vllm-openai:v0.20.0 --model m/x --swap-space 4", "removed-option", "error"),
        ("vllm serve m/x --kv-sharing-fast-prefill", "not-modelled-less", "warning"),
        ("vllm serve m/x --enable-dbo --all2all-backend deepep_low_latency", "not-modelled-more", "warning"),
        ("vllm serve m/x --tensor-parallel-size", "bad-value", "error"),
        ("vllm serve m/x --gpu-memory-utilization 1.5", "bad-value", "error"),
        ("VLLM_MYSTERY=1 vllm serve m/x", "unknown-variable", "warning"),
        ("sglang serve --model-path m/x --enable-two-batch-overlap", "not-modelled-more", "warning"),
        ("sglang serve --model-path m/x --tensor_parallel_size 2", "unknown-option", "error"),
        ("llama-server -m x.gguf -c 8k", "number-cut", "warning"),
        ("llama-server -m x.gguf -cmoed", "not-modelled-less", "warning"),
        ("llama-server -m x.gguf --rpc 10.0.0.2:50052,10.0.0.3:50052", "not-modelled-either", "warning"),
        ("llama-server -m x.gguf -devd CUDA1", "not-modelled-either", "warning"),
        ("llama-server -m x.gguf -ngld many", "bad-value", "error"),
        ("trtllm-serve m/x --backend _autodeploy", "not-modelled-either", "warning"),
    ],
)
def test_findings(words: str, rule: str, severity: str) -> None:
    found = one(words)
    assert [(f.rule, f.severity) for f in found.findings] == [(rule, severity)]


def test_a_near_name_is_offered() -> None:
    (finding,) = one("vllm serve m/x --max-model-length 4096").findings
    assert "did you mean --max-model-len?" in finding.message


@pytest.mark.parametrize(
    ("script", "model"),
    [
        ("M=m/x; vllm serve $M", "m/x"),
        ("M=m/x\nexport M\nbash -c 'vllm serve $M'", "m/x"),
        ("vllm serve ${M:-m/x}", "m/x"),
        ("M='m/x'\nvllm serve \"${M}\"", "m/x"),
        ("O=m\nM=$O/x\nvllm serve $M", "m/x"),
        ('if [ -n "$1" ]; then M=m/y; else M=m/z; fi\nvllm serve $M', None),
        ("M=m/x\nif true; then M=m/y; fi\nvllm serve $M", "m/y"),
        ("for M in m/x m/y; do vllm serve $M; done", None),
        ("M=$(cat model.txt)\nvllm serve $M", None),
        ("vllm serve $1", None),
        ("vllm serve '$M'", "$M"),
        ("test -f x && M=m/y\nvllm serve $M", None),
        ("unset M\nM=m/x\nvllm serve $M", "m/x"),
        ("read M\nvllm serve $M", None),
        ("case $1 in a) M=m/x; vllm serve $M;; esac", "m/x"),
        (": ${M:=m/x}\nvllm serve $M", "m/x"),
        ('if [ -z "$M" ]; then M=m/x; fi\nvllm serve $M', "m/x"),
        ('[[ -z "$M" ]] && M=m/x\nvllm serve $M', "m/x"),
        ('M=m/y\n[ -z "$M" ] && M=m/x\nvllm serve $M', "m/y"),
        ('if [ -z "$M" ]; then M=m/x; else M=m/y; fi\nvllm serve $M', None),
        ("cd /srv && M=m/x && vllm serve $M", "m/x"),
        ("test -f x && { M=m/y; }\nvllm serve $M", None),
        ("M=m; M+=/x\nvllm serve $M", "m/x"),
        ("M=$((1 + 1))$(date)\nvllm serve $M", None),
        ("vllm serve m/$((2**3))", None),
    ],
)
def test_variables_of_a_script(script: str, model: str | None) -> None:
    found = one(script)
    assert found.model == model
    assert ("model" in [u.what for u in found.unresolved]) == (model is None)


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve m/x $EXTRA",
        'vllm serve m/x "$@"',
        'A=(-tp 4)\nif [ "$B" ]; then A=(-tp 8); fi\nvllm serve m/x "${A[@]}"',
        'A=(--seed 1)\nif [ "$B" ]; then A+=(-tp 8); fi\nvllm serve m/x "${A[@]}"',
    ],
)
def test_words_that_may_hold_a_size_are_open(script: str) -> None:
    assert "options" in [u.what for u in one(script).unresolved]


@pytest.mark.parametrize(
    ("script", "expected", "more"),
    [
        ('A="-tp 4"\nA+=" --max-num-seqs 8"\nvllm serve m/x $A', {"tp": 4, "max_num_seqs": 8}, False),
        ('A="-tp 4"\nA="$A --max-num-seqs 8"\nvllm serve m/x $A', {"tp": 4, "max_num_seqs": 8}, False),
        ('A="-tp 4"\nif [ "$B" ]; then A="$A --max-num-seqs 8"; fi\nvllm serve m/x $A', {"tp": 4}, True),
        ('A=(-tp 4)\n[ "$B" ] && A+=(--max-num-seqs 8)\nvllm serve m/x "${A[@]}"', {"tp": 4}, True),
        ('A=""\nvllm serve m/x $A -tp 4', {"tp": 4}, False),
    ],
)
def test_options_that_grow(script: str, expected: dict[str, Any], more: bool) -> None:
    found = one(script)
    assert found.question == expected
    assert ("open-words" in [f.rule for f in found.findings]) == more


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("vllm serve m/x '--max-num-seqs 8'", "not-split"),
        ("vllm serve serve m/x", "bad-value"),
        ("trtllm-serve m/x --max-batch-size 8", "unknown-option"),
        ("sglang serve --model-path m/x --mem_fraction_static 0.8", "unknown-option"),
        ("vllm serve m/x --max-num-seqs 512 --max-num-batched-tokens 256", "bad-value"),
    ],
)
def test_what_stops_every_release(words: str, rule: str) -> None:
    assert [(f.rule, f.severity) for f in one(words).findings] == [(rule, "error")]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("VLLM_MLA_DISABLE=1", ("not-modelled-either", "warning")),
        ("VLLM_USE_V1=0", None),
        ("VLLM_USE_V2_MODEL_RUNNER=1", None),
        ("VLLM_PP_LAYER_PARTITION=20,12", None),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", None),
        ("NVSHMEM_SYMMETRIC_SIZE=16G", ("not-modelled-either", "warning")),
        ("VLLM_NO_SUCH_THING=1", ("unknown-variable", "warning")),
        ("VLLM_LOGGING_LEVEL=DEBUG", None),
        ("VLLM_USE_V1=1", None),
        ("HF_HOME=/srv", None),
    ],
)
def test_variables_of_vllm(env: str, expected: tuple[str, str] | None) -> None:
    found = one(f"{env} vllm serve m/x")
    assert [(f.rule, f.severity) for f in found.findings] == ([expected] if expected else [])


@pytest.mark.parametrize(("env", "option"), [
    ("VLLM_USE_V1=0", {"use_v1": False}), ("VLLM_USE_V1=1", {"use_v1": True}), ("VLLM_USE_V2_MODEL_RUNNER=0", {"v2_model_runner": False}),
    ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=0", None),
])  # fmt: skip
def test_a_variable_that_is_off_says_so_where_the_engine_would_choose(env: str, option: dict[str, bool] | None) -> None:
    """0 picks V0 where a release would take V1 (vllm/envs.py of 0.8 to 0.10); lengths beyond the model's own are off anyway."""
    assert one(f"{env} vllm serve m/x").question.get("engine_option") == option


def test_the_fewer_of_the_devices_there_and_those_shown() -> None:
    assert question("docker run --gpus 8 -e CUDA_VISIBLE_DEVICES=0,1 vllm/vllm-openai --model m/x")["n_devices"] == 2
    assert question("docker run --gpus 2 -e NVIDIA_VISIBLE_DEVICES=all vllm/vllm-openai --model m/x")["n_devices"] == 2


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "made"
    for text in (f"vllm serve $(touch {mark})", f"touch {mark}; vllm serve `touch {mark}`", f"eval 'touch {mark}'; sh -c 'touch {mark}'"):
        read(text, "serve.sh")
    assert not mark.exists()


def test_a_branch_knows_its_own() -> None:
    found = read(
        'if [ "$BIG" ]; then\n  TP=8\n  vllm serve m/x -tp $TP\nelse\n  TP=1\n  vllm serve m/x -tp $TP\nfi\nvllm serve m/y -tp $TP', "s.sh"
    )
    assert [(f.question.get("tp"), [u.what for u in f.unresolved]) for f in found] == [
        (8, ["device"]),
        (1, ["device"]),
        (None, ["tp", "device"]),
    ]


def test_config_in_a_here_document() -> None:
    found = one(
        "cat > c.yaml <<'EOF'\nmodel: m/x\nmax-model-len: 4096\nenforce-eager: true\nEOF\nvllm serve --config c.yaml --max-num-seqs 4"
    )
    assert (found.model, found.question) == ("m/x", {"max_model_len": 4096, "enforce_eager": True, "max_num_seqs": 4})
    assert found.places["max_model_len"].line == 3


def test_values_of_a_trtllm_config() -> None:
    head = "cat > c.yaml <<'EOF'\n{}\nEOF\ntrtllm-serve m/x --tp_size 2 --config c.yaml"
    text = (
        "tensor_parallel_size: null\nmax_seq_len: many\ncuda_graph_config: null\nkv_cache_config:\n  free_gpu_memory_fraction: 0.5\nfoo: 1"
    )
    found = one(head.format(text))
    assert found.question == {"tp": 2, "enforce_eager": True, "memory_fraction": 0.5}
    assert [(f.rule, f.severity, f.place.line) for f in found.findings] == [("bad-value", "error", 3), ("unknown-option", "warning", 7)]


def test_lines_and_columns() -> None:
    found = one("#!/bin/sh\nset -e\n\nvllm serve m/x \\\n  --max-num-seqs 4 \\\n  -tp 2 > log")
    assert found.places["command"] == (4, 1)
    assert found.places["max_num_seqs"] == (5, 3)
    assert found.places["tp"] == (6, 3)
    assert found.span == (4, 6)


@pytest.mark.parametrize("text", ["vllm serve 'm/x", 'vllm serve "m/x', "vllm serve $(cat x", "cat <<EOF\nx\n", "vllm serve ${X"])
def test_unbalanced(text: str) -> None:
    with pytest.raises(SpecError, match=r"line 1|line 2"):
        read(text, "s.sh")


def test_comments_say_what_the_file_does_not() -> None:
    first, second = read(
        "# kvplan: device=h100 batch=4\nvllm serve m/x\n# kvplan: device=l4 engine_option.async_scheduling=false\nvllm serve m/y", "s.sh"
    )
    assert first.question == {"device": "h100", "batch": "4"}
    assert second.question == {"device": "l4", "engine_option": {"async_scheduling": "false"}}
    (finding,) = one("# kvplan: gpus=4\nvllm serve m/x").findings
    assert (finding.rule, finding.place.line) == ("bad-comment", 1)


def test_pythons_warnings_are_not_printed() -> None:
    """`1if` is a warning of Python's parser, in these tests an error, which nobody asked for."""
    assert read("from vllm import LLM\nLLM(model='m/x', tensor_parallel_size=1if 1else 2)\n", "serve.py")[0].model == "m/x"
