"""What llama.cpp knows of an architecture beside the metadata, as data: windows, recurrent layers, shared caches, feed-forward form.

Source: llama.cpp b11312, src/models/<file>.cpp load_arch_hparams (`set_swa_pattern`, `load_swa_pattern`, `is_recr_impl`), named where the
file is not called after the architecture; src/llama-model.cpp create_memory; src/llama-arch.cpp LLM_ARCH_NAMES.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

RecurrentKind = Literal["mamba1", "mamba2", "gated_delta_net", "kda", "lightning", "short_conv", "rwkv"]


class Swa(NamedTuple):
    """Which layers slide.

    every       one layer of so many is full: the last, or (full_first) the first; 0: all slide; None: the file's array says
    window      where the file leaves it out; `fixed`: whatever the file says
    optional    only where the file has a window above 0
    n_layers    only in models of so many layers
    """

    every: int | None
    full_first: bool = False
    window: int = 0
    fixed: bool = False
    optional: bool = False
    n_layers: int = 0
    kind: Literal["sliding", "chunked"] = "sliding"


class Recurrent(NamedTuple):
    """Which layers are recurrent: all; those without KV heads (and without feed-forward); all but every `interval`-th; beside attention."""

    kind: RecurrentKind
    where: Literal["all", "no_kv_heads", "no_kv_heads_no_ffn", "interval", "beside"] = "no_kv_heads"
    interval: int = 0


class Arch(NamedTuple):
    """One architecture. All fields after `cached` only shape weights that a file without tensors does not show.

    kv_layers  layers from there on reuse an earlier layer's cache, whatever shared_kv_layers in the metadata says
    cached     False: encoders and diffusion models, for which llama.cpp makes no cache
    """

    swa: Swa | None = None
    recurrent: Recurrent | None = None
    kv_layers: int | None = None
    cached: bool = True
    gated: bool = True
    norm: Literal["rms", "layer", "layer_no_bias", "none"] = "rms"
    norms: int = 2
    tied: bool = False
    qkv_bias: bool = False
    bias: bool = False  # everywhere else: output and feed-forward
    qk_norm: Literal["none", "head", "full"] = "none"
    output_gate: bool = False
    sinks: bool = False
    moe_every: tuple[int, int] | None = None  # experts where layer % period == offset


_MAMBA2 = Recurrent("mamba2")
_DELTA = Recurrent("gated_delta_net", "interval", 4)
_PLAIN = Arch()
_QWEN2 = Arch(qkv_bias=True)
_QKN = Arch(qk_norm="head")
_BIASED = Arch(norm="layer", gated=False, qkv_bias=True, bias=True)
_ENCODER = _BIASED._replace(cached=False)

ARCHITECTURES: dict[str, Arch] = {
    "llama": _PLAIN,
    "llama4": Arch(swa=Swa(4, window=8192, fixed=True, kind="chunked")),
    "mistral3": _PLAIN, "mistral4": _PLAIN, "deci": _PLAIN, "llama-embed": _PLAIN, "arcee": Arch(gated=False), "grok": Arch(norms=4),
    "falcon": Arch(norm="layer", gated=False, norms=1, tied=True),
    "gpt2": _BIASED._replace(tied=True), "gptneox": _BIASED, "bloom": _BIASED._replace(tied=True), "starcoder": _BIASED,
    "mpt": Arch(norm="layer_no_bias", gated=False, tied=True),
    "baichuan": _PLAIN, "refact": _PLAIN, "xverse": _PLAIN, "orion": Arch(norm="layer"), "internlm2": _PLAIN,
    "stablelm": Arch(norm="layer"), "codeshell": _BIASED, "starcoder2": _BIASED._replace(tied=True),
    "qwen": _QWEN2, "qwen2": _QWEN2, "qwen2moe": _QWEN2, "qwen2vl": _QWEN2, "dream": _QWEN2._replace(cached=False),
    "qwen3": _QKN, "qwen3moe": _QKN, "qwen3vl": _QKN, "qwen3vlmoe": _QKN, "rnd1": _QKN._replace(cached=False),
    "qwen3next": Arch(recurrent=_DELTA, qk_norm="head", output_gate=True),
    "qwen35": Arch(recurrent=_DELTA, qk_norm="head", output_gate=True),
    "qwen35moe": Arch(recurrent=_DELTA, qk_norm="head", output_gate=True),
    "phi2": _BIASED._replace(norms=1), "phi3": _PLAIN, "phimoe": Arch(norm="layer", qkv_bias=True),
    "plamo": Arch(norms=1), "plamo2": Arch(recurrent=Recurrent("mamba1"), norms=4, qk_norm="head"),
    "plamo3": Arch(swa=Swa(8, optional=True), norms=4, qk_norm="head"),
    "minicpm": _PLAIN, "minicpm3": _PLAIN, "plm": Arch(gated=False),
    "gemma": Arch(tied=True),
    "gemma2": Arch(swa=Swa(2, window=4096), norms=4, tied=True),
    "gemma3": Arch(swa=Swa(6, optional=True), norms=4, tied=True, qk_norm="head"),
    "gemma3n": Arch(swa=Swa(5), kv_layers=20, norms=4, tied=True, qk_norm="head"),
    "gemma4": Arch(swa=Swa(None), norms=4, tied=True, qk_norm="head"),
    "gemma-embedding": Arch(cached=False, norms=4, tied=True, qk_norm="head"),
    "mamba": Arch(recurrent=Recurrent("mamba1", "all"), norms=1, tied=True),
    "mamba2": Arch(recurrent=Recurrent("mamba2", "all"), norms=1, tied=True),
    "maple": Arch(swa=Swa(None)),
    "jamba": Arch(recurrent=Recurrent("mamba1"), moe_every=(2, 1)),  # expert_layer_period, _offset of the Jamba configs
    "falcon-h1": Arch(recurrent=Recurrent("mamba2", "beside")),
    "command-r": Arch(norm="layer_no_bias", norms=1, tied=True),
    "cohere2": Arch(swa=Swa(4), norm="layer_no_bias", norms=1, tied=True),
    "cohere2moe": Arch(swa=Swa(4, full_first=True), norm="layer_no_bias", norms=1, tied=True),
    "dbrx": Arch(norm="layer_no_bias"), "olmo": Arch(norm="none"), "olmoe": Arch(qk_norm="full"),
    "olmo2": Arch(swa=Swa(4, optional=True), qk_norm="full"),
    "muse-glimmer": Arch(swa=Swa(4)), "openelm": Arch(tied=True, qk_norm="head"), "arctic": _PLAIN,
    "deepseek": _PLAIN, "deepseek2": _PLAIN, "deepseek2-ocr": _PLAIN, "deepseek32": _PLAIN, "deepseek4": Arch(swa=Swa(0)),
    "chatglm": _QWEN2, "glm4": _QWEN2._replace(norms=4), "glm4moe": _QWEN2, "glm-dsa": _PLAIN,
    "bitnet": Arch(tied=True), "jais": _BIASED._replace(gated=True), "jais2": _BIASED,
    "t5": Arch(tied=True), "t5encoder": Arch(cached=False, tied=True),
    "nemotron": Arch(norm="layer", gated=False),
    "nemotron_h": Arch(recurrent=Recurrent("mamba2", "no_kv_heads_no_ffn"), norms=1, gated=False),
    "nemotron_h_moe": Arch(recurrent=Recurrent("mamba2", "no_kv_heads_no_ffn"), norms=1, gated=False),
    "exaone": _PLAIN,
    "exaone4": Arch(swa=Swa(4, window=4096, n_layers=64), qk_norm="head"),
    "exaone-moe": Arch(swa=Swa(4, window=128), qk_norm="head"),
    "rwkv6": Arch(recurrent=Recurrent("rwkv", "all"), norm="layer"), "rwkv7": Arch(recurrent=Recurrent("rwkv", "all"), norm="layer"),
    "rwkv6qwen2": Arch(recurrent=Recurrent("rwkv", "all")), "arwkv7": Arch(recurrent=Recurrent("rwkv", "all")),
    "granite": _PLAIN, "granitemoe": _PLAIN, "granite_swa": Arch(swa=Swa(None)), "granitehybrid": Arch(recurrent=_MAMBA2),
    "chameleon": Arch(qk_norm="head"), "cogvlm": _PLAIN, "paddleocr": _PLAIN, "pangu-embedded": _QWEN2, "hrm_text": _PLAIN,
    "bailingmoe": _PLAIN, "bailingmoe2": _QKN, "bailingmoe3": Arch(recurrent=Recurrent("kda")),
    "dots1": _QKN, "afmoe": Arch(swa=Swa(4, optional=True), norms=4, qk_norm="head"),
    "laguna": Arch(swa=Swa(4, full_first=True, optional=True), qk_norm="head"), "mellum": Arch(swa=Swa(4, optional=True), qk_norm="head"),
    "ernie4_5": _PLAIN, "ernie4_5-moe": _PLAIN,
    "hunyuan-moe": _QKN, "hunyuan-dense": _QKN, "hunyuan_vl": _QKN, "hy_v3": _QKN, "hy_v4": _PLAIN,
    "smollm3": Arch(tied=True), "seed_oss": _QWEN2, "grovemoe": _QKN, "apertus": Arch(gated=False, qk_norm="head"),
    "gpt-oss": Arch(swa=Swa(2), qkv_bias=True, bias=True, sinks=True),  # openai-moe.cpp
    "lfm2": Arch(swa=Swa(0, optional=True), recurrent=Recurrent("short_conv"), tied=True, qk_norm="head"),
    "lfm2moe": Arch(recurrent=Recurrent("short_conv"), tied=True, qk_norm="head"),
    "smallthinker": Arch(swa=Swa(4, full_first=True, window=4096, fixed=True, optional=True)),
    "llada": _PLAIN._replace(cached=False), "llada-moe": _QKN._replace(cached=False),
    "minimax-01": Arch(recurrent=Recurrent("lightning", "interval", 8)), "minimax-m2": Arch(qk_norm="full"),
    "mimo2": Arch(swa=Swa(None)), "step35": Arch(swa=Swa(None), qk_norm="head"), "spark2_5": Arch(swa=Swa(None)),
    "maincoder": _QKN, "talkie": _PLAIN,
    "kimi-linear": Arch(recurrent=Recurrent("kda")), "kimi-k3": Arch(recurrent=Recurrent("kda")),
    "bert": _ENCODER, "nomic-bert": _ENCODER, "nomic-bert-moe": _ENCODER, "jina-bert-v2": _ENCODER, "jina-bert-v3": _ENCODER,
    "modern-bert": Arch(cached=False, norm="layer_no_bias"), "neo-bert": Arch(cached=False), "eurobert": Arch(cached=False),
}  # fmt: skip

#: Architectures of GGUF files that are no language model of their own, or keep what no layer kind here has.
UNSUPPORTED: dict[str, str] = {
    "clip": "a multimodal projector (mmproj); name the language model's own file",
    "wavtokenizer-dec": "an audio decoder without attention over tokens",
    "qwen3tts": "a speech model",
    "pockettts": "a speech model",
    "gptj": "llama.cpp itself does not load it",
    "eagle3": "a draft head; name the model it drafts for, and this file with --speculative",
    "dflash": "a draft head; name the model it drafts for, and this file with --speculative",
    "gemma4-assistant": "a draft head that reads the cache of Gemma 4; name that model",
    "graniteswitch": "it keeps one more router head beside its layers",
    "nanbeige": "it runs its layers several times over (num_loops), with a cache for each",
    "dots3note": "it keeps latents in windows",
    "minimax-m3": "it keeps indexer keys beside K and V",
    "qwen4exp": "it keeps indexer keys beside K and V",
    "glm5-next": "it keeps three indexer rows per token",
}
