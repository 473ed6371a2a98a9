"""What TensorRT-LLM's releases draft by, under each of its backends.

docs/source/release-notes.md, 0.9 to 1.2; six copies of tensorrt_llm/llmapi/llm_args.py, of 0.19 to 1.3: DecodingBaseConfig.from_dict and
`supports_backend`. NGram and draft models under PyTorch are in the first copy after 0.19's; whether 0.20 has them is not known, and it is
taken to. There `Eagle` is another name of Eagle3, whose checkpoints EAGLE's own are not (docs/source/features/speculative-decoding.md).
"""

from __future__ import annotations

from kvplan.engines.common.methods import ADAPTERS, Drafting, Way, Words

PYTORCH, BUILT = "pytorch", "tensorrt"
DRAFTING = Drafting(
    ways=(
        Way("mtp nextn eagle3", "0.19", of=PYTORCH),
        Way("ngram draft_model draft_target", "0.20", of=PYTORCH),
        Way("user_provided", "1.0", of=PYTORCH),
        Way("dflash dspark suffix", "1.3", of=PYTORCH),
        Way("medusa draft_model draft_target", of=BUILT),
        Way("lookahead", "0.13", of=BUILT),
        Way("eagle ngram", "0.15", of=BUILT),
    ),
    words=(
        Words("Invalid decoding type: {method}", "llmapi/llm_args.py DecodingBaseConfig.from_dict", "ngram draft_model draft_target",
              since="0.19", before="0.20", of=PYTORCH),
        Words("Invalid decoding type: {method}", "llmapi/llm_args.py DecodingBaseConfig.from_dict", "user_provided dflash dspark suffix",
              since="0.19", before="1.2", of=PYTORCH),
    ),
    spelled=(("ngram", "NGram"), ("draft_model", "DraftTarget"), ("draft_target", "DraftTarget"), ("user_provided", "UserProvided"),
             ("dflash", "DFlash"), ("dspark", "DSpark"), ("suffix", "SA")),
)  # fmt: skip
#: docs/source/release-notes.md of 0.20: "PyTorch workflow: added lora support".
ADAPTING = Drafting((Way(ADAPTERS, "0.20", of=PYTORCH), Way(ADAPTERS, of=BUILT)))
