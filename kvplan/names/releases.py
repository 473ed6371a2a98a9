"""What a release's name says of its weights: the suffix that publishers add, and the --weight-dtype that means it."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.rows import rows

#: How publishers end the name of a release that is in a format, and which it is.
_PARSED = [(re.compile(rf"(.+?)[-_.](?:{pattern})"), format_) for pattern, format_, *_ in rows("names/suffixes.tsv")]
_GGUF = re.compile(r"(.+?)(?:[-_.]i1)?[-_.]gguf")  # mradermacher's -i1-GGUF: with an importance matrix
_TYPED = re.compile(r"(.+?)[-_.]((?:ud-)?(?:i?q\d|tq\d)(?:_[a-z0-9]+)*)")  # Model-Q8_0-GGUF: one file, as ggml-org's gguf-my-repo names it
#: Bits without another word are MLX's: of 13 such uploads of known models in 3, 5, 6 or 8 bits (llmfit 1.1.17), 9 have the elements that
#: MLX's count as and none those of bitsandbytes; of 8 in four bits 5 and 3.
#: Who converts to MLX, or says so: -4bit alone is LMDeploy's AWQ of others (internlm/internlm-chat-20b-4bit).
_MLX = re.compile(r"mlx|dwq|lmstudio|qat|^[^/]*$")
#: llama.cpp takes the file whose name the tag ends (common/download.cpp, `tag + "[.-]"`): unsloth's have UD- before it.
_UD = re.compile(r"unsloth/.+:q\d_k_xl")
_QAT = re.compile(r"(.+?)[-_]qat[-_](q\d_\d)")  # Google's own GGUF files of one type, trained for it
TAG = re.compile(r"(?:ud-)?(?:i?q\d|tq\d|mxfp4|b?f16|fp16|f32)[a-z0-9_]*", re.IGNORECASE)

#: Who converts other people's models to GGUF under `publisher/[organisation_]Model-GGUF`.
CONVERTERS = (
    "bartowski", "ggml-org", "lmstudio-community", "maziyarpanahi", "mradermacher", "quantfactory", "second-state", "thebloke", "unsloth",
)  # fmt: skip
#: Who converts text models of one kind in one way, all layers but the head (github.com/vllm-project/llm-compressor, examples). TheBloke's
#: files in AWQ are all in groups of 128, as each of their model cards says; those in GPTQ differ from model to model.
UNIFORM = {"redhatai": ("fp8-dynamic", "w8a8", "w4a16"), "neuralmagic": ("fp8-dynamic", "w8a8", "w4a16"), "thebloke": ("awq",)}
#: Who leaves -hf out of the names of what they convert (Llama-2-13B-chat-AWQ of Llama-2-13b-chat-hf).
UNDRESSED = ("thebloke",)
#: Who releases other makers' models quantised as those release their own.
OF_OTHERS = ("nvidia",)
#: Whose releases in FP8 are in blocks of 128 x 128.
IN_BLOCKS = ("deepseek-ai", "qwen")
#: Publishers whose 4-bit AWQ releases are symmetric and in groups of 32: vLLM logs `group_size=32, num_bits=4` of Qwen3.5-35B-A3B-AWQ-4bit,
#: 22.05 GiB; Qwen3.6-27B-AWQ-INT4 takes 18.47 GiB, which groups of 32 say to 0.15 (17.65 in groups of 128). `cpatonn` is its former name.
GROUPS_OF_32 = ("cyankiwi", "cpatonn")
#: Who copies other people's releases under their own names.
COPIERS = (*CONVERTERS, "huihui-ai", "mlx-community", "neuralmagic", "nousresearch", "redhatai")


class Release(NamedTuple):
    """A name taken apart: what it is a release of, and the format that its suffix means (`gguf`: a repository of several)."""

    of: str
    weights: str


def taken_apart(name: str) -> Release | None:
    """A name in lower case without its quantisation suffix; None where it has none.

    >>> taken_apart("qwen/qwen2.5-72b-instruct-awq")
    Release(of='qwen/qwen2.5-72b-instruct', weights='awq')
    >>> taken_apart("bartowski/llama-3.2-3b-instruct-gguf:q4_k_m")
    Release(of='bartowski/llama-3.2-3b-instruct', weights='q4_k_m')
    """
    stem, _, tag = name.partition(":")
    gguf = _GGUF.fullmatch(stem)
    if gguf is not None and not tag and (trained := _QAT.fullmatch(gguf[1])) is not None:
        return Release(trained[1], f"{trained[2]}_qat")
    if gguf is not None and not tag and (typed := _TYPED.fullmatch(gguf[1])) is not None:
        return Release(typed[1], typed[2])
    if gguf is not None and _UD.fullmatch(f"{stem}:{tag}"):
        return Release(gguf[1], f"ud-{tag}")
    if gguf is not None:
        return Release(gguf[1], tag.replace("fp16", "f16") or "gguf") if not tag or TAG.fullmatch(tag) else None
    if tag:
        return Release(stem, tag) if TAG.fullmatch(tag) else None
    for pattern, format_ in _PARSED:
        match = pattern.fullmatch(name)
        if match is not None:
            groups = match.groups()[1:]
            weights = format_
            for n, group in enumerate(groups, 1):
                weights = weights.replace(f"\\{n}", group or "")
            return Release(match[1], "int4" if weights == "mlx-4bit" and not _MLX.search(name) else weights)
    return None
