"""Inputs that are well formed and odd inside: GGUF models, commands of every engine in every kind of file, requests of the web API.

Changed bytes of a GGUF file or a manifest are refused at the door nearly always; these reach what is behind it.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import yaml

from kvplan import catalogue
from kvplan.engines import ENGINES, arguments, served
from kvplan.importers.gguf.architectures import ARCHITECTURES
from kvplan.importers.gguf.types import TYPES, tensor_bytes
from tests import header_files

BASE = {"block_count": 4, "embedding_length": 256, "feed_forward_length": 512, "attention.head_count": 8, "context_length": 8192}
#: Metadata under the architecture's name -> values that models have and values that they have not.
GEOMETRY: dict[str, tuple[Any, ...]] = {
    "attention.head_count_kv": (1, 2, 8, [0, 0, 2, 2], [2, 0, 2, 0], [1, 2], 0, -1), "vocab_size": (512, 0), "nextn_predict_layers": (1, 4),
    "attention.key_length": (32, 64, 576), "attention.value_length": (32, 64, 512), "attention.kv_lora_rank": (64, 512),
    "attention.key_length_mla": (192,), "attention.value_length_mla": (128,), "attention.sliding_window": (0, 16, 512, 2**31),
    "attention.sliding_window_pattern": (0, 1, 2, 6, [True, False, True, False], [False]), "attention.shared_kv_layers": (0, 2, 4, 9),
    "attention.key_length_swa": (32, 64), "attention.value_length_swa": (32, 64), "attention.chunk_size": (16, 8192),
    "attention.indexer.head_count": (4, 64), "attention.indexer.key_length": (32, 128), "attention.indexer.top_k": (16, 2048),
    "expert_count": (0, 4, 256), "expert_used_count": (0, 2, 9), "expert_feed_forward_length": (64, 0), "expert_shared_count": (0, 1, 9),
    "leading_dense_block_count": (0, 1, 9), "expert_shared_feed_forward_length": (64,), "full_attention_interval": (0, 1, 2, 4),
    "ssm.conv_kernel": (0, 1, 4), "ssm.inner_size": (512, 0), "ssm.state_size": (16, 128), "ssm.time_step_rank": (8, 32, 0),
    "ssm.group_count": (1, 2, 0), "wkv.head_size": (64, 7, 0), "shortconv.l_cache": (3, 0, 1), "kda.head_dim": (64, 0),
    "decoder_start_token_id": (0,), "decoder_block_count": (2, 0), "pooling_type": (0, 1), "token_shift_count": (1, 2),
    "time_mix_extra_dim": (32,), "general.file_type": (0, 1, 2, 7, 15, 32, 1024, 99), "general.name": ("x", "\u202e\x1b[0m", ""),
}  # fmt: skip
#: Tensors of a layer, by their sides: e the embedding, k the KV heads' width, f the feed-forward, x experts, s the state space.
TENSORS = {
    "attn_q": "ee", "attn_k": "ek", "attn_v": "ek", "attn_output": "ee", "attn_qkv": "ef", "attn_norm": "e", "ffn_gate": "ef", "ffn_up": "ef",
    "ffn_down": "fe", "ffn_gate_inp": "ex", "ffn_gate_exps": "efx", "ffn_up_exps": "efx", "ffn_down_exps": "fex", "ffn_gate_up_exps": "efx",
    "ffn_gate_shexp": "ef", "attn_kv_a_mqa": "ek", "attn_kv_b": "kf", "attn_q_a": "ek", "ssm_in": "ef", "ssm_conv1d": "xs", "ssm_a": "s",
    "ssm_out": "fe", "attn_sinks": "x", "shortconv.conv": "xe", "time_mix_key": "ee", "nextn.eh_proj": "fe", "indexer.attn_k": "ek",
}  # fmt: skip
SIDES = {"e": (256,), "k": (64, 256), "f": (256, 512), "x": (2, 4), "s": (256, 32)}


def gguf(rng: Random) -> bytes:
    """Metadata of some architecture and tensors of the length that they say, as JSON: `gguf_file` makes the file."""
    arch = rng.choice(list(ARCHITECTURES))
    share = rng.random() ** 2
    geometry = BASE | {"attention.head_count_kv": 2} | {key: rng.choice(values) for key, values in GEOMETRY.items() if rng.random() < share}
    tensors: list[list[Any]] = []
    for layer in range(4) if rng.random() < 0.6 else ():
        for name, sides in TENSORS.items():
            if rng.random() < 0.2:
                shape = [rng.choice(SIDES[side]) for side in sides]
                fitting = [kind for kind in (0, 1, 8, 12, 14, 30, 39) if shape[0] % TYPES[kind].block == 0]
                tensors.append([f"blk.{layer}.{name}.weight", shape, rng.choice(fitting)])
    if tensors:
        tensors += [["token_embd.weight", [256, 512], rng.choice((1, 8, 12))]]
    return json.dumps({"metadata": header_files.model(arch, geometry), "tensors": tensors}).encode()


def gguf_file(tree: Any, **written: Any) -> bytes:
    """The file of such a tree. Raises what a tree of another form makes it raise."""
    tensors = [(t[0], tuple(t[1]), t[2], tensor_bytes(TYPES[t[2]], tuple(t[1])) if t[2] in TYPES else 64) for t in tree["tensors"]]
    if sum(n for *_, n in tensors) > 16 << 20:
        raise ValueError("larger than what is written here")
    return header_files.gguf(tree["metadata"], tensors, **written)


TABLES = [arguments(name) for name in served()]
PROGRAMS = [list(table.program) for table in TABLES if table.program]
FLAGS = sorted({name for table in TABLES for row in table.rows for name in row.names if name.startswith("-")})
MODELS = sorted(catalogue.model_ids())
WORDS = (
    "1", "2", "8", "64", "8192", "32k", "0.9", "0", "-1", "1.5", "1e309", "9" * 60, "auto", "fp8", "q8_0", "", "{}", '{"rope_type": "yarn"}', "[",
    '{"method":"mtp","num_speculative_tokens":2}', "$N", "${N:-4}", "$(N)", "$((N*2))", "${A[@]}", "{{ .Values.n }}", "a/b", "x=y", "*", "~",
    "true", "no", "cuda:0", "0,1", "\u202e", "'", '"', "../../etc/passwd", "/dev/zero", "https://x.example/y", "2GiB", "--", "\\", "\x1b]0;x\x07",
)  # fmt: skip
IMAGES = (
    "vllm/vllm-openai:v0.11.0",
    "lmsysorg/sglang:latest",
    "ghcr.io/ggml-org/llama.cpp:server",
    "ollama/ollama",
    "x",
    "x:\n",
    "a@sha256:1",
)
GPUS = ("NVIDIA-H100-80GB-HBM3", "nvidia-l4", "mi300x", "", "4090", "x\ny")


def command(rng: Random) -> list[str]:
    """Words that start an engine, its own options and other engines', with values of every kind."""
    words = [*rng.choice(PROGRAMS)]
    if rng.random() < 0.8:
        words += [*rng.choice(([], ["--model"], ["--model-path"], ["-m"])), rng.choice((rng.choice(MODELS), "$M", "a/b", "./x"))]
    for _ in range(rng.randrange(9)):
        flag, value = rng.choice(FLAGS), rng.choice(WORDS)
        words += rng.choice(([flag], [flag, value], [flag, value], [f"{flag}={value}"]))
    return words


def _quoted(word: str, rng: Random) -> str:
    return word if rng.random() < 0.6 else f'"{word}"' if rng.random() < 0.7 else "'" + word + "'"


def shell(rng: Random) -> bytes:
    """A script: variables, arrays, functions, branches and loops around commands."""
    said = ["#!/bin/bash", "# kvplan: device=h100-80gb", "N=4", f"M={rng.choice(MODELS)}", f"A=({' '.join(command(rng)[2:])})"]
    around = (
        "{}", "exec {}", "{} &", "( {} )", "if [ $N = 4 ]; then\n{}\nfi", "for N in 1 2 4; do\n{}\ndone", "case $N in 4) {} ;; esac", "bash -c '{}'",
        "f() {{\n{}\n}}\nf 2", "docker run --gpus all x {}", "cat <<E\n{}\nE", "CUDA_VISIBLE_DEVICES=0,1 {}", "while true; do {}; done", "nohup {} > x",
        "srun --gres=gpu:8 {}", "X=$({})", "{} | tee x", "timeout 5 {}", "eval \"{}\"", "ssh host '{}'", "{} \\\n  \"${{A[@]}}\"", "N=$((N*2)) {}",
    )  # fmt: skip
    for _ in range(rng.randint(1, 4)):
        line = " ".join(_quoted(word, rng) for word in command(rng))
        for _ in range(rng.choice((1, 1, 2, 3))):
            line = rng.choice(around).format(line)
        said.append(line)
    return "\n".join(said).encode()


def manifest(rng: Random) -> bytes:
    """Kubernetes, compose, KServe, Ray and Helm documents around such commands."""
    words = command(rng)
    several = [{"name": "N", "value": rng.choice(WORDS)}, {"name": "M", "value": rng.choice(MODELS)}]
    container: dict[str, Any] = {"name": "c", "image": rng.choice(IMAGES), "env": several}
    one = rng.randrange(4)
    container |= (
        {"args": words[2:]},
        {"command": words},
        {"command": ["bash", "-c"], "args": [" ".join(words)]},
        {"args": " ".join(words)},
    )[one]
    container["resources"] = {
        "limits": {"nvidia.com/gpu": rng.choice((1, "2", "8", 0, "x", [1])), "memory": rng.choice(("64Gi", "", "1e9"))}
    }
    pod = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": rng.choice(GPUS)}, "containers": [container]}}
    service = {"image": container["image"], "command": rng.choice((words[2:], " ".join(words))), "environment": {"N": rng.choice(WORDS)}}
    service["deploy"] = {"resources": {"reservations": {"devices": [{"driver": "nvidia", "count": rng.choice((1, "all", "x"))}]}}}
    group = {"leaderTemplate": pod, "workerTemplate": pod, "size": rng.choice((1, 2, 4, "x"))}
    kserve = {"predictor": {"model": {"modelFormat": {"name": "huggingface"}, **container}, "minReplicas": 1}}
    document = rng.choice((
        {"kind": "Deployment", "spec": {"replicas": rng.choice((1, 3, "x")), "template": pod}}, {"kind": "Pod", **pod}, {"services": {"a": service}},
        {"kind": "LeaderWorkerSet", "spec": {"replicas": 1, "leaderWorkerTemplate": group}}, {"kind": "InferenceService", "spec": kserve},
        {"kind": "Job", "spec": {"template": pod}}, {"kind": "List", "items": [{"kind": "Pod", **pod}]}, {"image": words[0], "args": words[2:]},
        {"servingEngineSpec": {"modelSpec": [{"name": "a", "modelURL": rng.choice(MODELS), "requestGPU": 1, "vllmConfig": {"extraArgs": words[2:]}}]}},
        {"model": rng.choice(MODELS), **{flag.strip("-"): rng.choice(WORDS) for flag in words if flag.startswith("--")}},
    ))  # fmt: skip
    return yaml.safe_dump(
        {"apiVersion": "v1", "metadata": {"name": rng.choice(("a", "a\n::error::x", 5))}, **document}, allow_unicode=True
    ).encode()


QUESTION: dict[str, tuple[Any, ...]] = {
    "engine": (*ENGINES, "vlm", 5), "device": ("h100-80gb", "8x h100", "24GiB", "auto", "./x.yaml", "a\nb", None), "context": (8192, "32k", 0, -1, 1e9),
    "batch": (1, "4", 10**12, 2.5), "tp": (1, 2, "x", 4096), "max_num_seqs": (64, "max"), "kv_dtype": ("fp8", "q8_0/q4_0", ""),
    "engine_version": ("0.11.0", "a\nb", "9" * 400), "speculative": ("mtp:1", "ngram:4", "eagle:/etc/passwd"), "lora": ("32x4", "x"),
    "engine_option": ({"chunked": True}, ["a=b"], 5, {"a": [1]}), "weight_dtype": ("fp8", "q4_k_m", []), "n_devices": (2, 5000),
    "devices": (["h100-80gb", "l4"], "x", [5]), "prices": ({"h100-80gb": 2.5}, {"l4": -1}, {"l4": float("inf")}), "most": (1, 65), "advise": (True, 3),
    "rank_by": ("memory", "price", 5), "target": (*ENGINES, "compose", "k8s", 5), "serve": ("a'b", "a\nb"), "fixed_pool": (True, "x"),
    "strict": (True, 1), "models": (["meta-llama/llama-3.1-8b"], ["a=b"], 5), "memory_fraction": (0.9, 0, "x"), "reserve": ("2GiB", -1),
}  # fmt: skip
PATHS = ("/api/estimate", "/api/fit", "/api/check", "/api/emit", "/page/answer", "/page/emit")


def request(rng: Random) -> bytes:
    """A body for one address of the web API, as a JSON object of `path` and `body`."""
    body: dict[str, Any] = {"model": rng.choice((rng.choice(MODELS), "a/b", "", 5, "./x.gguf", "../../etc/passwd"))}
    share = rng.uniform(0, 0.5)
    body |= {"engine": "vllm", "device": "h100-80gb", "context": 8192} | {
        k: rng.choice(v) for k, v in QUESTION.items() if rng.random() < share
    }
    path = rng.choice(PATHS)
    if path == "/api/check":
        text = (shell if rng.random() < 0.5 else manifest)(rng).decode("utf-8", "replace")
        body |= {"files": [{"name": rng.choice(("a.sh", "b.yaml", "../x", "")), "text": text}]}
        del body["model"]
    if path == "/api/fit":
        body.setdefault("devices", ["h100-80gb", "l4"])
    return json.dumps({"path": path, "body": body}).encode()
