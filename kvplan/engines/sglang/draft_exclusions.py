"""Options of drafts that SGLang refuses together or alone, in its words: server_args.py and arg_groups of 24 releases, 0.4.3 to 0.5.23."""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

_EAGLE = "speculative_algorithm=EAGLE,EAGLE3,NEXTN,STANDALONE"  # whose steps, branches and tokens are picked all three or not at all

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "speculative_adaptive=*&enable_lora=*", "speculative_algorithm=",
        "LoRA with EAGLE/NEXTN/EAGLE3 speculative decoding does not support --speculative-adaptive", "0.5.20",
    ),
    Exclusion(
        f"{_EAGLE}&speculative_num_steps=*", "speculative_eagle_topk=*|speculative_adaptive=*",
        "--speculative-num-steps without --speculative-eagle-topk: TypeError: None branches are neither compared nor multiplied", "0.4.5",
    ),
    Exclusion(
        f"{_EAGLE}&speculative_num_steps=", "speculative_eagle_topk=&speculative_num_draft_tokens=|speculative_adaptive=*",
        "--speculative-eagle-topk and --speculative-num-draft-tokens want --speculative-num-steps: AssertionError", "0.4.5",
    ),
    Exclusion("speculative_algorithm=UNO", "uno_lora_path=*", "UNO requires --uno-lora-path.", "0.5.20"),
    Exclusion(
        "speculative_algorithm=DFLASH", "speculative_draft_model_path=*",
        "DFLASH speculative decoding requires setting --speculative-draft-model-path.", "0.5.11",
    ),
    Exclusion(
        "speculative_algorithm=DSPARK&enable_dp_attention=*&data_parallel_size>1", "enable_dp_lm_head=*",
        "DSpark with dp attention requires --enable-dp-lm-head.", "0.5.16",
    ),
    Exclusion(
        "speculative_algorithm=DFLASH&enable_dp_attention=*&data_parallel_size>1", "enable_dp_lm_head=*",
        "DFLASH with dp attention requires --enable-dp-lm-head.", "0.5.23",
    ),
    Exclusion(
        "speculative_algorithm=DFLASH&enable_dp_attention=*&data_parallel_size>1", "attn_cp_size=,1",
        "DFLASH with dp attention does not support context parallel.", "0.5.23",
    ),
    Exclusion(
        "speculative_skip_dp_mlp_sync=*", "speculative_algorithm=EAGLE,NEXTN,EAGLE3",
        "--speculative-skip-dp-mlp-sync is only supported with speculative_algorithm == EAGLE", "0.5.11", "0.5.23",
    ),
    Exclusion(
        "speculative_use_block_verification=*", "speculative_algorithm=EAGLE,EAGLE3,NEXTN,DFLASH,DSPARK",
        "--speculative-use-block-verification only supports EAGLE / EAGLE3 / NEXTN / DFLASH / DSPARK.", "0.5.22",
    ),
    Exclusion(
        "speculative_moe_runner_backend=flashinfer_trtllm", "speculative_moe_runner_backend=",
        "Currently speculative MoE runner backend cannot be flashinfer_trtllm for risk in some draft models.", "0.5.7", "0.5.10",
    ),
    Exclusion(
        "speculative_use_rejection_sampling=*&speculative_algorithm=STANDALONE", "speculative_algorithm=",
        "--speculative-use-rejection-sampling is only supported for EAGLE / EAGLE3 / NEXTN", "0.5.14",
    ),
    Exclusion(
        f"speculative_use_rejection_sampling=*&{_EAGLE}", "speculative_eagle_topk=,1",
        "--speculative-use-rejection-sampling requires --speculative-eagle-topk=1.", "0.5.14",
    ),
    Exclusion(
        f"speculative_use_rejection_sampling=*&{_EAGLE}", "enable_multi_layer_eagle=",
        "--speculative-use-rejection-sampling is not supported with multi-layer EAGLE", "0.5.14", "0.5.16",
    ),
    Exclusion(
        f"speculative_use_rejection_sampling=*&{_EAGLE}", "enable_deterministic_inference=",
        "--speculative-use-rejection-sampling is incompatible with --enable-deterministic-inference", "0.5.14", "0.5.23",
    ),
    Exclusion(
        f"speculative_use_rejection_sampling=*&{_EAGLE}",
        "speculative_accept_threshold_single=,1,1.0&speculative_accept_threshold_acc=,1,1.0",
        "--speculative-use-rejection-sampling is incompatible with --speculative-accept-threshold-single / -acc", "0.5.14",
    ),
    Exclusion(
        "speculative_draft_sink_size=*", "speculative_draft_window_size=*",
        "--speculative-draft-sink-size requires --speculative-draft-window-size.", "0.5.21",
    ),
    Exclusion(
        "speculative_moe_a2a_backend=deepep_v2", "speculative_moe_a2a_backend=",
        "DeepEP v2 MoE is not validated as a speculative draft backend.", "0.5.19",
    ),
)  # fmt: skip
