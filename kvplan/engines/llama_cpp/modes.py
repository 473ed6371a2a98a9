"""--split-mode: which builds, devices and models have which mode.

llama.cpp src/llama-model.cpp make_gpu_buft_list, src/llama-context.cpp llama_init_from_model, src/llama-arch.cpp
llm_arch_supports_sm_tensor (b11312). Rows of matrices were split by CUDA's and SYCL's own buffers; #24216 took CUDA's out, and from b9890
on (ggml-org/llama.cpp#25594) a device without them is an error. --split-mode tensor is #19378, of April 2026: no build before b8600 had it.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.llama_cpp.rules import LlamaRules

#: GGUF names and classes of models that --split-mode tensor does not run.
UNSPLIT = frozenset(
    {
        "grok", "mpt", "plamo2", "minicpm3", "gemma3n", "mamba", "mamba2", "jamba", "falcon-h1", "olmo2", "olmoe", "deepseek2",
        "deepseek32", "hy-v4", "glm-dsa", "bitnet", "t5", "nemotron_h", "nemotron_h_moe", "granitehybrid", "minimax-01", "minimax-m2",
        "minimax-m3", "mistral4", "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next", "qwen4exp",
        "MptForCausalLM", "MPTForCausalLM", "Plamo2ForCausalLM", "MiniCPM3ForCausalLM", "Gemma3nForConditionalGeneration",
        "Gemma3nForCausalLM", "MambaForCausalLM", "Mamba2ForCausalLM", "JambaForCausalLM", "FalconH1ForCausalLM", "Olmo2ForCausalLM",
        "Olmo3ForCausalLM", "OlmoeForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM",
        "KimiK2ForCausalLM", "GlmMoeDsaForCausalLM", "BitNetForCausalLM", "NemotronHForCausalLM", "GraniteMoeHybridForCausalLM",
        "MiniMaxM1ForCausalLM", "MiniMaxM2ForCausalLM", "KimiLinearForCausalLM", "Glm4MoeLiteForCausalLM",
    }
)  # fmt: skip


def refusal(d: Deployment, mode: str, rules: LlamaRules, *, flash: bool, main_gpu: int = 0) -> str | None:
    """Why a model would not be loaded in this mode, in the engine's words; None where it is, or where there is no device."""
    if mode == "none" and 1 < (d.n_devices or 1) <= main_gpu:
        return f"invalid value for main_gpu: {main_gpu} (available devices: {d.n_devices})"
    if d.device is None or mode not in ("row", "tensor"):
        return None
    if mode == "row":
        split = rules.split_rows or d.device.vendor == "intel"
        return None if split else "error loading model: device CUDA0 does not support split buffers (--split-mode row)"
    if not rules.split_tensor:
        return 'error while handling argument "-sm": invalid value'
    if d.model.architecture in UNSPLIT:
        return f"error loading model: LLAMA_SPLIT_MODE_TENSOR not implemented for architecture '{d.model.architecture}'"
    return None if flash else "SPLIT_MODE_TENSOR requires flash_attn to be enabled"
