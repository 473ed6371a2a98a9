"""What builds of llama.cpp draft by, and Ollama's releases.

Looked at: the option tables and speculative types in xllamacpp's packages, which have the server's code in them: 0.1.16 to 0.2.14 (b5353
to b8352) and 2026.4.8672 to 2026.10.11549. A method is taken to come with the build after the last that lacks it: n-grams after b7827
(#18471), MTP after b9093, EAGLE-3 after b9538 (a stub without the model's graph before), DFlash after b9713, DSpark after b10068.
The server's draft models are #10455 of 25 November 2024, placed by that date; examples had them before (#2926).
"""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words
from kvplan.engines.common.options import read_speculative

SERVER, OTHERS = "llama-server", "its other programs"
_ARGUMENTS, _SPECULATIVE = "common/arg.cpp", "common/speculative.cpp"

DRAFTING = Drafting(
    ways=(
        Way("draft_model", "b4160", of=SERVER),
        Way("draft_model", of=OTHERS),
        Way("ngram", "b7828"),
        Way("mtp", "b9094"),
        Way("eagle3", "b9539"),
        Way("dflash", "b9714"),
        Way("dspark", "b10069"),
        Way("lookahead prompt_lookup", of=OTHERS),
    ),
    words=(
        Words("error: invalid argument: --model-draft", _ARGUMENTS, "draft_model", before="b4160"),
        Words("error: invalid argument: --spec-type", _ARGUMENTS, before="b7828"),
        Words("unknown speculative decoding type without draft model", _ARGUMENTS, since="b7828", before="b9094"),
        Words("unknown model architecture: 'eagle3'", "src/llama-model.cpp", "eagle3", "b9094", "b9539"),
        Words("unknown speculative type: {method}", _SPECULATIVE, since="b9094"),
    ),
    spelled=(("mtp", "draft-mtp"), ("eagle3", "draft-eagle3"), ("dflash", "draft-dflash"), ("dspark", "draft-dspark")),
    builds=True,
)
#: From 0.30.0 on every model is run by llama-server, of b9452 or later.
OF_OLLAMA = Drafting((Way("mtp", "0.30"),))

#: Architectures, as GGUF files call them, and their classes, by the first build with a graph of their MTP modules (src/models/*.cpp
#: graph_mtp): the symbols of ten such packages, 2026.5.9294 to 2026.10.11549, each placed after the last that lacks it.
#: Qwen4Exp's and GLM-5.3's are left out: they draft in public on builds before the first of those packages that has their graphs.
_MTP: dict[int, str] = {
    9094: ("qwen35 qwen35moe Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration"),
    9295: "step35 Step3p5ForCausalLM Step3p7ForConditionalGeneration",
    9539: "cohere2moe Cohere2MoeForCausalLM",
    9874: "hy_v3 HYV3ForCausalLM",
    10069: "mimo2 glm-dsa deepseek4 MiMoV2FlashForCausalLM MiMoV2ForCausalLM GlmMoeDsaForCausalLM DeepseekV4ForCausalLM",
    10230: (
        "deepseek2 deepseek32 qwen3next bailingmoe3 nemotron_h_moe DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekV32ForCausalLM "
        "Qwen3NextForCausalLM BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration NemotronHForCausalLM "
        "NemotronHPuzzleForCausalLM"
    ),
    10567: "glm4moe Glm4MoeForCausalLM",
}
MTP: dict[str, int] = {named: build for build, names in _MTP.items() for named in names.split()}


def no_graph(speculative: str | None, named: str | None, build: int | None, title: str) -> str:
    """Why a build does not draft with the MTP modules in a model's own file; empty where it does or the class is not here. None: newest."""
    spec = read_speculative(speculative)
    if spec is None or spec.method != "mtp" or spec.model is not None or not named:
        return ""
    first = MTP.get(named)
    if first is None or build is None or build >= first:
        return ""
    words = "context type MTP requested but model doesn't contain MTP layers"
    return f"{words} ({title} has no graph of the MTP modules of {named}: there is one from b{first} on)"
