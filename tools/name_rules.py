"""Which facts tools/build_names.py trusts, and what names, lengths and labels of its sources mean."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from kvplan.names.releases import GROUPS_OF_32, IN_BLOCKS, taken_apart
from kvplan.spec import ModelSpec

#: Labels of same_geometry.jsonl -> --weight-dtype.
FORMATS: dict[str, str] = {
    "awq-int4": "awq-int4", "awq-int8": "awq-int8", "gptq-int4": "gptq-int4", "gptq-int8": "gptq-int8", "autoround-int4": "gptq-int4",
    "w4a16-int4": "int4", "int4": "int4", "w8a8-int8": "w8a8", "w8a16-int8": "w8a16", "int8": "int8", "fp8": "fp8",
    "fp8-dynamic": "fp8-dynamic", "fp8-block": "fp8-block", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "bnb-4bit": "bnb-4bit", "gguf": "gguf",
    **{f"mlx-{n}bit": f"mlx-{n}bit" for n in (2, 3, 4, 5, 6, 8)},
}  # fmt: skip
#: What a name says of its weights; two that disagree, or a mix, and the row is not taken.
_SAID = re.compile(
    r"awq|gptq|autoround|nvfp4|mxfp4|mxfp8|(?<!nv)(?<!mx)fp8|w4a16|w8a8|w8a16|int4|int8|(?<!\d)[2-8]-?bit|nf4|bnb|gguf|mlx|qat",
    re.IGNORECASE,
)
_MIXED = re.compile(r"mix(?!tral|ture)|partial|int8-int4|bf16-int8|w4a16-g32|nvfp4-fp8|fp8-kv|quant-mix|mxfp4-q\d", re.IGNORECASE)
_AGREE: dict[str, str] = {
    "awq-int4": r"awq|4-?bit|int4|w4a16", "awq-int8": r"awq|8-?bit|int8", "gptq-int4": r"gptq|4-?bit|int4|autoround",
    "gptq-int8": r"gptq|8-?bit|int8|autoround", "autoround-int4": r"int4|4-?bit|autoround|gptq",
    "w4a16-int4": r"w4a16|int4|4-?bit|gptq|awq|autoround",
    "int4": r"int4|4-?bit|qat", "w8a8-int8": r"w8a8|int8", "w8a16-int8": r"w8a16|int8", "int8": r"int8|8-?bit", "fp8": r"fp8",
    "fp8-dynamic": r"fp8", "fp8-block": r"fp8", "nvfp4": r"nvfp4", "mxfp4": r"mxfp4|mlx", "bnb-4bit": r"bnb|4-?bit|nf4", "gguf": r"gguf",
    **{f"mlx-{n}bit": rf"mlx|{n}-?bit|qat" for n in (2, 3, 4, 5, 6, 8)}, "bf16": r"qat|mlx",
}  # fmt: skip

#: Facts that are not trusted: what the status or note says -> why.
_DOUBTS: tuple[tuple[str, str], ...] = (
    (r"DISPUTED", "two sources disagree"),
    (r"source does not state sliding_window|sliding_window not stated|before sliding_window", "its window is not stated"),
    (r"vision tower, which kvplan does not count|without its audio_config", "a tower is not counted"),
    (r"not imported by kvplan", "not read by the importer"),
    (r"flat stub|file name says|may be trimmed", "a stub, not the release's file"),
    (r"thinker counted, talker", "parts are not counted"),
)
#: Whose sizes are right though the total beside them is not (one dtype or shard was counted).
_RIGHT = {
    "deepseek-ai/deepseek-coder-1.3b-base", "deepseek-ai/deepseek-llm-7b-base", "deepseek-ai/deepseek-llm-7b-chat",
    "liuhaotian/llava-v1.5-7b", "nvidia/GLM-5.3-NVFP4", "nvidia/NVIDIA-Nemotron-Nano-12B-v2",
}  # fmt: skip
#: Class defaults that every release has: stated by neither source, and no doubt.
_HARMLESS = re.compile(r"source does not state use_sliding_window \(false in every Qwen2/2.5 config seen\)")
_LONG_PHI: dict[str, Any] = {"original_max_position_embeddings": 4096, "rope_scaling": {"rope_type": "longrope"}}
#: What a table leaves out of some families, as their own config.json has it, and copies of them with it. StarCoder2 as its three sizes
#: are described (transformers docs/source/en/model_doc/starcoder2.md); Ministral 8B as GenZ-LLM-Analyzer carries its config
#: (GenZ/Models/Model_sets/mistral.py); the long Phi-3 and Phi-4-mini have windows no shorter than themselves.
WINDOWS: dict[str, dict[str, Any]] = {
    r"gemma-3-1b-|gemma-3-270m|functiongemma|harrier-oss-v1-270m": {"sliding_window": 512, "sliding_window_pattern": 6},
    r"mlabonne/gemma-3-12b-it-abliterated|harrier-oss-v1-27b|fanar-2-27b": {"sliding_window": 1024, "sliding_window_pattern": 6},
    r"/starcoder2-": {"sliding_window": 4096},
    r"/ministral-8b-instruct-2410": {"sliding_window": 32768},
    r"/phi-3\.5-mini|/mediphi-|/phi-4-mini": {"sliding_window": 262_144, **_LONG_PHI},
    r"/phi-3-medium-128k": {"sliding_window": 131_072, **_LONG_PHI},
    r"[-/]mistral-7b-(instruct-)?v0\.3|dolphin-2\.9\.3-mistral-7b-32k": {"sliding_window": None},
}
#: Sizes (layers, hidden, feed-forward) of which no release has a window: Mistral Nemo, Small 3 and its kin, Small 2409 and Codestral,
#: Large 2, whose config.json files say null.
_WINDOWLESS = {(40, 5120, 14336), (40, 5120, 32768), (56, 6144, 16384), (88, 12288, 28672)}


def unstated(hub_id: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The window that a table does not state, as the releases that a row is a copy of have it; None where they differ."""
    found = next((keys for pattern, keys in WINDOWS.items() if re.search(pattern, hub_id.lower())), None)
    sizes = tuple(config.get(key) for key in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    if found is None and config.get("architectures") == ["MistralForCausalLM"] and sizes in _WINDOWLESS:
        return {"sliding_window": None}
    return found


def windowless(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """No window, where no source states one and the class may be without: its cache is then at most what is counted. None elsewhere."""
    return {"sliding_window": None} if config.get("architectures") in (["MistralForCausalLM"], ["Phi3ForCausalLM"]) else None


#: What ollama.com keeps its files in, the usual first.
OLLAMA_FORMATS = ("Q4_K_M", "Q4_0", "Q8_0", "F16", "Q5_K_M", "Q6_K")
#: Lengths that a copy of a config has changed, a table multiplied, or training made longer: hub id -> the release's own; 0 not known.
LENGTHS = {
    "Qwen/Qwen-72B": 32_768,  # sophgo/LLM-TPU has the config.json
    # the copies that these were read from are of ones compiled for 512 tokens; PaddlePaddle/PaddleMIX tests/models/test_internvl2.py has
    # 32,768 with a factor of 2 (vLLM's length is the product), and the 4B is made from Phi-3-mini-128k
    **dict.fromkeys((f"OpenGVLab/InternVL2-{size}" for size in ("2B", "8B", "26B")), 65_536),
    **dict.fromkeys((f"OpenGVLab/InternVL2_5-{size}" for size in ("2B", "8B", "26B", "8B-MPO", "26B-MPO")), 65_536),
    "OpenGVLab/InternVL-Chat-V1-5": 65_536,
    "OpenGVLab/InternVL2-4B": 131_072,
    "mistralai/Mistral-Large-Instruct-2407": 131_072,
    "mistralai/Mistral-Large-Instruct-2411": 131_072,
    "Qwen/Qwen2.5-VL-3B-Instruct": 128_000,
    "hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4": 131_072,
    "hugging-quants/Meta-Llama-3.1-405B-Instruct-GPTQ-INT4": 131_072,
    "allenai/Llama-3.1-Tulu-3-70B-SFT": 131_072,
    "google/medgemma-27b-text-it": 0,
    "google/codegemma-7b-it": 0,  # the one table that has it says 4,096, its base 8,192
    "nvidia/Llama-3.1-Nemotron-Nano-4B-v1.1": 0,
    # the table multiplies the original length by the factor; 32k by their model cards, the config.json of EXAONE 3.5 7.8B and the pages of
    # Ollama's library
    **{f"LGAI-EXAONE/EXAONE-{kind}": 32_768 for size in ("2.4B", "7.8B", "32B") for kind in (f"3.5-{size}-Instruct", f"Deep-{size}")},
    "mistralai/Magistral-Small-2506": 0,  # its copies in a table have 49,152, Ollama's file 39K
}

#: Base models whose hub ids are, but for the case of their letters, catalogue ids of their tuned releases -> their own length, where those
#: differ: llmfit 1.1.17's rows, whose totals are those of their shapes.
BEFORE_TUNING = {
    "Qwen/Qwen1.5-MoE-A2.7B": 8_192,
    **{f"Qwen/Qwen2-{size}": 131_072 for size in ("0.5B", "1.5B", "7B")},
    **{f"Qwen/Qwen2.5-{size}": 131_072 for size in ("1.5B", "7B", "14B", "32B", "72B")},
}

#: llmfit multiplies the maximum, or the original one, by rope_scaling.factor: base -> what it shows for the config's own maximum.
_MULTIPLIED: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"meta-llama/llama-3\.1-|meta-llama/llama-3\.2-\d+b-vision|nvidia/llama-3(?!_1)", (1_048_576,)),
    (r"nvidia/llama-3_1-nemotron-ultra", (2_097_152,)),
    (r"meta-llama/llama-3\.2-[13]b", (262_144, 4_194_304)),
    (r"google/gemma-3-", (1_048_576, 8_192)),
    (r"lgai-exaone/exaone-4\.0-32b", (2_097_152,)),
    (r"swiss-ai/apertus-", (524_288,)),
    (r"deepseek-ai/deepseek-v3", (6_553_600,)),
    (r"google/medgemma-27b", (1_048_576,)),
)
_LONG = re.compile(r"(?<![a-z0-9])(\d+(?:\.\d+)?)([km])(?![a-z])", re.IGNORECASE)
_TRULY_LONG = re.compile(r"Seed-OSS|Hermes-4\.3-36B|tiny-aya|Nemo", re.IGNORECASE)  # as their model cards say
#: What llmfit writes where a file states no maximum, and the families whose files do not, or not where llmfit looks.
_DEFAULT = 4096
_NO_MAXIMUM = r"mamba|kimi-linear|bloom|rwkv|falcon|internvl|gemma-3|-vl-|jamba"
_LARGEST = 262_144  # above, a multiplied figure can not be told from a true one

#: Who copies, converts and fine-tunes: their ids do not name a geometry where another's does.
_COPIERS = (
    "unsloth", "huihui-ai", "dphn", "mlabonne", "prithivmlmods", "goekdeniz-guelmez", "vagosolutions", "nousresearch", "abacusai",
    "alpindale", "casperhansen", "redhatai", "lmstudio-community", "mlx-community", "optimum-intel-internal-testing", "michaelfeil",
    "anthracite-org", "weyaxi", "sicariussicariistuff", "thedrummer", "salesforce", "elyza", "qcri", "optimum-internal-testing",
    "fdtn-ai", "decapoda-research",
)  # fmt: skip


def left_out(hub_id: str, said: str) -> str | None:
    """Why a fact is not taken; None where it is."""
    text = _HARMLESS.sub("", said)
    why = next((reason for pattern, reason in _DOUBTS if re.search(pattern, text)), None)
    if why is None and "DISAGREES" in text and hub_id not in _RIGHT:
        why = "its count disagrees with the hub's total"
    return why


#: What the tables leave out: the format of the publisher's own checkpoint, and who says so.
STORED = {  # FP8 in blocks of 128 x 128: sgl-project/sglang-jax pull 1278; 109 GB a card at tp 2: vllm-project/recipes issue 273
    "MiniMaxAI/MiniMax-M2": "fp8-block",
    "MiniMaxAI/MiniMax-M2.1": "fp8-block",
}


def weights_of(name: str, label: str, base: ModelSpec) -> str | None:
    """The index's format of a row: empty as the base, None where it is not known."""
    if name in STORED:
        return FORMATS[STORED[name]]
    said = {word.lower() for word in _SAID.findall(name.rpartition("/")[2])}
    if _MIXED.search(name.rpartition("/")[2]):
        return None
    if label.startswith("as "):
        other = {word.lower() for word in _SAID.findall(label)}
        if said - other:
            release = taken_apart(name.lower())
            return release.weights if release and release.weights != "gguf" and len(said) == 1 else None
        return "bf16" if (other - said and base.quantization) or ("bf16" in name.lower() and not said) else ""
    agree = _AGREE.get(label)
    if agree is None or any(not re.fullmatch(agree, word) for word in said):
        return None
    if label == "bf16":
        if base.quantization and not said and "bf16" not in name.lower() and _next_release(name, base):
            return ""
        return "bf16" if base.quantization or base.dtype == "f32" else ""
    if label == "bnb-4bit" and "unsloth-bnb" in name.lower():
        return "unsloth-bnb-4bit"
    if label == "awq-int4" and name.partition("/")[0] in GROUPS_OF_32 and "bf16" not in name.lower():
        return "int4-g32-any"
    if label == "fp8" and name.partition("/")[0].lower() in IN_BLOCKS:
        return "fp8-block"
    if label == "mxfp4" and any(q.format == "mxfp4" for q in base.quantization):
        return ""
    return FORMATS[label]


def _next_release(name: str, base: ModelSpec) -> bool:
    """A publisher's later release beside its own that is stored quantised and does not say so in its name (Kimi K2.5, K2.7): the table's
    `bf16` is what it writes where it does not know, and its total counts parameters, not bytes."""
    return name.partition("/")[0].lower() == base.id.partition("/")[0] and not _SAID.search(base.hub_id or base.id)


def length_of(name: str, base: str, own: int | None, stated: int | None, *, unread: bool = False) -> int:
    """The maximum length of a release: `own` is that of what it shares its shapes with; 0 where the source does not tell it."""
    if own and stated in (own, own + 2):  # RoBERTa's positions begin behind that of its padding, so a config counts two more
        return own
    if stated == own:
        return 0
    if unread or (stated == _DEFAULT and re.search(_NO_MAXIMUM, base)):
        return 0
    if stated is None:
        return own or 0
    multiplied = next((values for pattern, values in _MULTIPLIED if re.match(pattern, base)), ())
    model = name.rpartition("/")[2]
    said = _LONG.search(model)
    if stated in multiplied and said is None:
        return own or 0
    if said is not None:
        tokens = float(said[1]) * (1 << 10 if said[2].lower() == "k" else 1 << 20)
        return stated if 0.9 < stated / tokens < 1.1 else 0
    return stated if stated <= _LARGEST or _TRULY_LONG.search(model) else 0


def shapes_by_name(name: str, base: ModelSpec) -> bool:
    """Whether a table that states no window can vouch for these shapes: not where the class has one unless the release says none."""
    kinds = {getattr(mixer, "window", 0) for block in base.blocks.values() for mixer in block.mixers}
    if base.architecture not in ("MistralForCausalLM", "Phi3ForCausalLM") or not any(kinds):
        return True
    words = re.split(r"[-/]", base.id.rpartition("/")[2])
    return all(word in re.split(r"[-_/]", name.lower()) for word in words)


def plain_base(hub_id: str) -> int:
    """How little a hub id is fit to name a geometry: 0 a maker's own plain release."""
    org, _, model = hub_id.lower().partition("/")
    return 2 * (org in _COPIERS) + bool(_SAID.search(model))


#: Ids that the rule below would give to two geometries.
_IDS = {"mistralai/Mixtral-8x22B-Instruct-v0.1": "mistralai/mixtral-8x22b-v0.1-vocab-32768"}


def spec_id(hub_id: str, taken: Container[str]) -> str:
    """The catalogue id of a hub id: lower case, without -instruct and the like. Raises ValueError where it is taken."""
    org, _, model = hub_id.lower().partition("/")
    short = f"{org}/{re.sub(r'-(instruct|it|hf|chat)(?=-|$)', '', model)}"
    if hub_id in _IDS:
        return _IDS[hub_id]
    if short in taken:
        raise ValueError(f"{hub_id}: {short} is another geometry; name one of them by hand")
    return short


def source_url(source: str) -> str:
    """The public page of a source: `owner/repo:path@commit`, a Hub page, a package of PyPI."""
    source = source.split(" (docs corpus copy)")[0].split(" key ")[0]
    if match := re.match(r"PyPI ([\w.-]+)==([\w.]+)", source):
        return f"https://pypi.org/project/{match[1]}/{match[2]}/"
    if source.startswith("huggingface.co/"):
        return f"https://{source.split()[0]}"
    if source.startswith("https://"):
        return source.split()[0]
    repository, _, path = source.split()[0].partition(":")
    path, _, commit = path.partition("@")
    return f"https://github.com/{repository}/blob/{commit or 'HEAD'}/{path}"


#: Modules that a release leaves in 16 bits where the copy of its config lists fewer. Meta quantises the feed-forward matrices and nothing
#: else, those of the first and last layer left out (The Llama 3 Herd of Models, 6.2; vllm-project/vllm#6746 logs 57.752 GiB on 8 ranks).
NOT_CONVERTED: dict[str, list[str]] = {
    "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8": [
        *(f"model.layers.{n}.self_attn.{side}_proj" for n in range(126) for side in "qkvo"),
        *(f"model.layers.{n}.mlp.{side}_proj" for n in (0, 125) for side in ("gate", "up", "down")),
    ],
}


def of_the_page(shown: str | None, own: int | None) -> int | None:
    """The length that a file has by its page in Ollama's library, where it is not the model's own: 0 where the page rounds it. None where
    the page shows the model's own, or 4K, which it shows of files whose positions were scaled from there."""
    if shown is None or shown == "4K" or own is None or abs(1024 * int(shown[:-1]) - own) < 1024:
        return None
    length = 1024 * int(shown[:-1])
    return length if length % 8192 == 0 or length in (2048, 4096) else 0
