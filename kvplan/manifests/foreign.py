"""Engines that are not modelled, told by their images, commands and options, so that they are named and never taken for another.

From the projects' own Dockerfiles and docs: huggingface/text-generation-inference, docs.nvidia.com/nim, llm.mlc.ai,
kvcache-ai/ktransformers, triton-inference-server/server, and the others' README files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Word


class Foreign(NamedTuple):
    """title: what it is called; image, program: expressions; modules: what `python -m` starts; flags: two of them tell it."""

    title: str
    image: str = ""
    program: str = ""
    modules: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


FOREIGN: tuple[Foreign, ...] = (
    Foreign(
        "text-generation-inference (TGI)", r"text-generation-inference|(^|[/_-])tgi([-_/]|$)|text-generation-launcher",
        "text-generation-(launcher|server|router.*)", (),
        frozenset({
            "--model-id", "--num-shard", "--max-input-length", "--max-input-tokens", "--max-batch-prefill-tokens", "--quantize",
            "--max-total-tokens", "--max-batch-total-tokens", "--cuda-memory-fraction", "--sharded",
        }),
    ),
    Foreign("NVIDIA NIM", r"(^|/)(nvcr\.io/)?nim/|(^|/)nim-llm|^(nvidia-)?nim-", "nim|nim_.*|list-model-profiles"),
    Foreign("text-embeddings-inference (TEI)", r"text-embeddings-inference|(^|/)tei(-|$)", "text-embeddings-router"),
    Foreign("MLC LLM", r"(^|[/_-])mlc([-_]ai)?[-_/]?llm|(^|/)mlc-?ai/", "mlc_llm|mlc-llm|mlc_chat",
            ("mlc_llm", "mlc_llm.serve.server", "mlc_chat.rest")),
    Foreign("KTransformers", r"ktransformers", "ktransformers", ("ktransformers.server.main", "ktransformers.local_chat")),
    Foreign("Triton Inference Server", r"(^|/)tritonserver|triton-inference-server", "tritonserver"),
    Foreign("Aphrodite", r"aphrodite", "aphrodite", ("aphrodite.endpoints.openai.api_server",)),
    Foreign("DJL Serving (LMI)", r"djl-(serving|inference)|deepjavalibrary/", "djl-serving"),
    Foreign("LightLLM", r"(^|/)lightllm", "", ("lightllm.server.api_server",)),
    Foreign("DeepSpeed-MII", r"deepspeed-mii", "deepspeed_mii|mii", ("mii.entrypoints.openai_api_server",)),
    Foreign("LocalAI", r"(^|/)localai(/|$)|(^|/)local-ai$", "local-ai"),
    Foreign("KoboldCpp", r"koboldcpp", "koboldcpp.*"),
    Foreign("TabbyAPI", r"tabbyapi", "tabbyapi"),
    Foreign("Xinference", r"xinference", "xinference(-local|-worker)?"),
    Foreign("Infinity", r"(^|/)infinity(-emb)?$", "infinity_emb"),
    Foreign("MLX-LM's server", "", r"mlx_lm\.server|mlx_lm", ("mlx_lm.server", "mlx_lm")),
    Foreign("mistral.rs", r"mistral\.rs|mistralrs", "mistralrs(-server)?"),
    Foreign("PowerInfer", r"powerinfer", "powerinfer-server"),
    Foreign("OpenVINO Model Server", r"openvino/model_server", "ovms"),
    Foreign("JetStream", r"(^|/)jetstream-", ""),
    Foreign("IPEX-LLM's vLLM", r"ipex-llm", "", ("ipex_llm.vllm.xpu.entrypoints.openai.api_server",
            "ipex_llm.vllm.cpu.entrypoints.openai.api_server")),
    Foreign("vLLM-Omni", r"vllm-omni", "vllm-omni"),
    Foreign("RamaLama", "", "ramalama"),
    Foreign("LM Studio", r"(^|/)lmstudio/", "lms"),
    Foreign("FasterWhisper", r"faster-whisper", ""),
)  # fmt: skip


def of_image(reference: str) -> str:
    """The title of the engine in an image; empty where it is none of these."""
    repository = reference.split("@")[0].lower()
    repository = repository.rpartition(":")[0] if re.search(r":[^/]*$", repository) else repository
    return next((one.title for one in FOREIGN if one.image and re.search(one.image, repository)), "")


def of_program(name: str) -> str:
    """The title of the engine that a program is."""
    return next((one.title for one in FOREIGN if one.program and re.fullmatch(one.program, name)), "")


def of_module(name: str) -> str:
    """The title of the engine that `python -m NAME` starts."""
    return next((one.title for one in FOREIGN if name in one.modules), "")


def of_flags(words: Sequence[Word]) -> str:
    """The title of the engine whose own options these are, two at least."""
    names = {word.text.partition("=")[0] for word in words}
    return next((one.title for one in FOREIGN if len(names & one.flags) > 1), "")
