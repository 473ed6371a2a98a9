"""What vLLM's releases draft by: V0 up to 0.9, V1 from 0.8 on.

Read from the wheels of 0.4.0 to 0.33.0: `spec_decode/*` and `config.py` of V0 (its last is 0.9.2), `v1/worker/gpu_model_runner.py`,
`v1/spec_decode/*`, `engine/arg_utils.py` _is_v1_supported_oracle, SpeculativeMethod of `config/speculative.py`.
"""

from __future__ import annotations

from kvplan.engines.common.methods import ADAPTERS, Drafting, Way, Words

V0, V1 = "V0", "V1"
#: Names of one class's modules, which all mean `mtp`: the first release whose SpeculativeMethod has them.
MODULES: dict[str, str] = {
    "0.7.3": "deepseek_mtp", "0.9": "mimo_mtp", "0.10": "glm4_moe_mtp", "0.10.2": "ernie_mtp qwen3_next_mtp",
    "0.11": "longcat_flash_mtp", "0.11.1": "pangu_ultra_moe_mtp", "0.14": "exaone_moe_mtp", "0.15": "glm4_moe_lite_mtp step3p5_mtp",
    "0.16": "glm_ocr_mtp", "0.17": "nemotron_h_mtp qwen3_5_mtp", "0.20": "exaone4_5_mtp hy_v3_mtp", "0.21": "gemma4_mtp mimo_v2_mtp",
    "0.24": "minimax_m3_mtp", "0.25": "bailing_hybrid_mtp", "0.26": "inkling_mtp", "0.27": "kimi_k3_mtp",
    "0.28": "bailing_hybrid_v3_mtp dots3_note_mtp", "0.29": "hy_v4_mtp qwen4_exp_mtp", "0.30": "glm5_next_mtp", "0.33": "step5_mtp",
}  # fmt: skip
_LITERAL = "method Input should be ... [type=literal_error, input_value='{method}'"
_SPECULATIVE, _ORACLE = "config/speculative.py SpeculativeConfig", "engine/arg_utils.py _is_v1_supported_oracle"

DRAFTING = Drafting(
    ways=(
        Way("draft_model", "0.4.1", "0.10", V0),
        Way("draft_model", "0.15", of=V1),
        Way("ngram", "0.4.2", "0.10", V0),
        Way("ngram", "0.8", of=V1),
        Way("mlp_speculator", "0.5.1", "0.10", V0),
        Way("medusa", "0.5.2", "0.10", V0),
        Way("medusa", "0.9", "0.33", V1),
        Way("eagle", "0.5.5", "0.10", V0),
        Way("eagle", "0.8.4", of=V1),
        Way("eagle3", "0.8.5", of=V1),
        Way("mtp", "0.7.3", "0.10", V0),
        Way("mtp", "0.9", of=V1),
        *(Way(names, first) for first, names in MODULES.items()),
        Way("suffix", "0.11.1", of=V1),
        Way("extract_hidden_states", "0.17", of=V1),
        Way("ngram_gpu", "0.18", of=V1),
        Way("dflash", "0.20", of=V1),
        Way("custom_class", "0.22", of=V1),
        Way("dspark", "0.25", of=V1),
    ),
    words=(
        Words("unrecognized arguments: --speculative-model", "engine/arg_utils.py", before="0.4.1"),
        Words("Speculative decoding with draft model is not supported yet.", _ORACLE, "draft_model", "0.10", "0.11"),
        Words("Draft model speculative decoding is not supported yet.", _ORACLE, "draft_model", "0.11", "0.15"),
        Words("Unknown speculative decoding method: {method}", "v1/worker/gpu_model_runner.py", "mlp_speculator", "0.10", "0.33"),
        Words(_LITERAL, _SPECULATIVE, since="0.9.1"),
    ),
)  # fmt: skip
ADAPTING = Drafting((Way(ADAPTERS, "0.3"),), (Words("unrecognized arguments: --enable-lora", "engine/arg_utils.py"),))
