"""What SGLang's releases draft by: the choices of --speculative-algorithm (server_args.py) in the wheels of 0.4.1 to 0.5.23.

Post-releases count as their release, and have what comes after it: 0.4.1 has no such option, and EAGLE started on 0.4.1.post4
(sgl-project/sglang#2777); 0.4.3 has no NEXTN, 0.4.3.post2 has (#3956); so may 0.4.4.post2 have EAGLE3.
"""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words
from kvplan.engines.common.options import read_speculative
from kvplan.engines.common.releases import in_force, release
from kvplan.engines.sglang.drafted import not_drafted
from kvplan.engines.sglang.rules import RELEASES

DRAFTING = Drafting(
    ways=(
        Way("eagle", "0.4.1"),
        Way("mtp nextn", "0.4.3"),
        Way("eagle3", "0.4.4"),
        Way("standalone draft_model", "0.5.2"),
        Way("ngram", "0.5.3"),
        Way("dflash", "0.5.11"),
        Way("dspark", "0.5.16"),
    ),
    words=(
        Words("unrecognized arguments: --speculative-algorithm", "server_args.py", before="0.4.1"),
        Words("argument --speculative-algorithm: invalid choice: '{method}'", "server_args.py"),
    ),
    spelled=(("mtp", "NEXTN"), ("nextn", "NEXTN"), ("eagle3", "EAGLE3"), ("standalone", "STANDALONE"), ("draft_model", "STANDALONE"),
             ("ngram", "NGRAM"), ("dflash", "DFLASH"), ("dspark", "DSPARK")),
)  # fmt: skip

#: Classes whose config is rewritten to one of their own modules (configs/model_config.py, is_draft_model), by the first release that does;
#: read of 21 wheels, 0.3.6 to 0.5.23. Before 0.4.6 such modules came as a model of their own.
_OWN_MODULES: dict[str, str] = {
    "0.4.10": "Glm4MoeForCausalLM",
    "0.5.0": "Ernie4_5_MoeForCausalLM",
    "0.5.2": "LongcatFlashForCausalLM Qwen3NextForCausalLM",
    "0.5.3": "BailingMoeForCausalLM BailingMoeV2ForCausalLM",
    "0.5.7": "MiMoV2FlashForCausalLM",
    "0.5.8": "Glm4MoeLiteForCausalLM NemotronHForCausalLM",
    "0.5.9": (
        "BailingMoeV2_5ForCausalLM ExaoneMoEForCausalLM GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration "
        "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration Step3p5ForCausalLM"
    ),
    "0.5.11": "DeepseekV4ForCausalLM HYV3ForCausalLM InternS2PreviewForConditionalGeneration",
    "0.5.13": "InklingForConditionalGeneration NemotronHPuzzleForCausalLM Step3p7ForConditionalGeneration",
    "0.5.17": "InternS2MobiusForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
    "0.5.19": (
        "BailingMoeV3ForCausalLM Glm5NextForConditionalGeneration HYV4ForCausalLM NemotronH_Omni_Reasoning_V3 "
        "Qwen4ExpForConditionalGeneration"
    ),
    "0.5.21": "GigaChat35ForCausalLM",
}
OF_THEIR_OWN: dict[str, str] = {named: first for first, classes in _OWN_MODULES.items() for named in classes.split()}
MODULES_SINCE = "0.4.6"


def no_modules(speculative: str | None, named: str | None, version: str | None) -> str:
    """Why a release does not draft for a model of this class, with its own modules or at all; empty where it does, or nothing is known.

    A post-release may have what the release after its own has, and no more (twelve wheels of such, 0.4.6.post5 to 0.5.10.post1).
    """
    spec, first = read_speculative(speculative), OF_THEIR_OWN.get(named or "", "")
    if spec is None or not named or not in_force(MODULES_SINCE, "", version):
        return ""
    later = RELEASES.versions if version and ".post" in version else ()
    has = next((name for name in later if release(name) > release(version or "")), version)
    own = spec.model is None and spec.method in ("mtp", "nextn", "eagle")
    if own and first and in_force("", first, has):
        return f"SGLang {version} knows no draft modules of {named}: it does from {first} on"
    lacks = not_drafted(spec, named, has or "")
    why = f"SGLang {version} does not draft by {spec.method} for {named}: '{named}' object has no attribute '{lacks}'"
    return why if lacks else ""
