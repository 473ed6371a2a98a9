"""LMDeploy's rules by release, as data. Read from the tags v0.10.2 to v0.16.0 of InternLM/lmdeploy; of those from v0.3.0 on the Python that
sizes the PyTorch engine's cache (pytorch/engine/model_agent.py to 0.6, executor/base.py from 0.7 on), of v0.2.0 to v0.9.0 messages.py and
TurboMind's BlockManager.cc (GetBlockCount); of 0.17.0 and 0.18.0 the Python of the wheels, and TurboMind's words there (its sources of
those two are not in them; what configures its pool is unchanged).

Architectures: lmdeploy/turbomind/supported_models.py SUPPORTED_ARCHS and lmdeploy/pytorch/models/module_map.py MODULE_MAP (draft, MTP and
reward classes left out).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvplan.engines.common.releases import Releases

#: lmdeploy/utils.py, get_max_batch_size: the first name that the device's contains; 128 for others, 256 off CUDA. From 0.10 on, and before.
MAX_BATCH = (("a100", 384), ("a800", 384), ("h100", 1024), ("h800", 1024), ("l20y", 1024), ("h200", 1024))
OLD_MAX_BATCH = (("a100", 256), ("a800", 256), ("h100", 512), ("h800", 512))
#: Classes whose heads TurboMind asks the width of, up to 0.13 (supported_models.py, is_supported).
WIDE = frozenset({
    "Qwen2ForCausalLM", "LlamaForCausalLM", "InternVLChatModel", "LlavaForConditionalGeneration", "InternVLForConditionalGeneration",
})  # fmt: skip


class LmdeployRules(NamedTuple):
    """What one release does.

    turbomind, pytorch  architectures that each backend runs
    pool           TurboMind's: `blocks` (BlockManager.cc) or `objects` (src/turbomind/memory: slabs in one region)
    said           what TurboMind's logger writes before the lines of its pool and of its session length
    truncated      how TurboMind says that session_len is cut; empty: it is not
    align          bytes to which the PyTorch engine rounds each cache tensor of a block (CacheDesc.alignment); 1: it does not
    reserved       PyTorch blocks for dummy input and padding (num_reserved_gpu_blocks)
    refused_blocks PyTorch does not start with so many blocks or fewer
    asks_early     PyTorch refuses so few blocks before it tries a smaller max_prefill_token_num
    spare_states   PyTorch state slots beside max_batch_size; None: it has no state cache
    seven          PyTorch keeps 7 bytes for every token of a prompt's step and word of the vocabulary, else 2, and 4 for every request's
    powers         PyTorch asserts blocks of 16 or more tokens, in powers of two
    margin         what PyTorch takes a block off for the longest session: of the blocks, of the session that was asked for, or of neither
    policies       PyTorch takes quant_policy; before, it goes on without
    prefill        max_prefill_token_num of the PyTorch engine under the server
    packed         PyTorch reads compressed-tensors of 4 bits in groups of 32
    widths         of heads that TurboMind takes of some classes; empty: it does not ask; wide: those classes
    repeats        PyTorch repeats KV heads over ranks that they do not divide
    states         TurboMind runs gated delta nets; states_or_prefixes: not with prefix caching
    index_fp8      sparse latents kept as fp8_ds_mla whatever quant_policy says: `*` all, or of one architecture
    score_mib      PyTorch: MiB kept for scores of a prompt's tokens, with an indexer (LMDEPLOY_DSA_INDEXER_MAX_LOGITS_MB)
    indexers       PyTorch runs indexers
    fp8            PyTorch takes quant_policy 16 and 17
    turbo          PyTorch takes quant_policy 42
    split_embedding  PyTorch splits the embedding of SPLIT_EMBEDDING; split_head: the head of SPLIT_HEAD
    deals_experts  TurboMind takes ep
    dp_whole       PyTorch's data parallelism has one rank to each share of the requests
    fraction       cache_max_entry_count where it is not given; of_total: TurboMind takes it of the whole device, not of what is free
    block          tokens of TurboMind's blocks
    batch          max_batch_size on any device; 0: by its name; batches: sizes by words of names
    text_only      both backends can leave a vision encoder out (language_model_only); before, PyTorch alone
    """

    turbomind: frozenset[str]
    pytorch: frozenset[str]
    pool: Literal["blocks", "objects"] = "blocks"
    said: str = "[BlockManager] "
    truncated: str = ""
    align: int = 256
    reserved: int = 1
    refused_blocks: int = 0
    asks_early: bool = False
    spare_states: int | None = 1
    states: bool = True
    states_or_prefixes: bool = False
    index_fp8: str = "*"
    score_mib: int = 0
    indexers: bool = True
    fp8: bool = False
    turbo: bool = False
    split_embedding: bool = True
    split_head: bool = False
    deals_experts: bool = False
    dp_whole: bool = False
    fraction: float = 0.8
    of_total: bool = False
    block: int = 64
    batch: int = 0
    batches: tuple[tuple[str, int], ...] = MAX_BATCH
    text_only: bool = False
    seven: bool = False
    powers: bool = True
    margin: Literal["blocks", "session", ""] = "blocks"
    policies: bool = True
    prefill: int = 8192
    widths: tuple[int, ...] = ()
    wide: frozenset[str] = WIDE
    repeats: bool = True
    packed: bool = False


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TURBOMIND = _named(
    "GptOssForCausalLM InternLM2ForCausalLM InternLM3ForCausalLM InternS1ForConditionalGeneration InternVLChatModel "
    "InternVLForConditionalGeneration LlamaForCausalLM MixtralForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM "
    "Qwen3MoeForCausalLM"
)
_TURBOMIND_OLD = _TURBOMIND | _named(
    "BaiChuanForCausalLM BaichuanForCausalLM ChatGLMForConditionalGeneration ChatGLMModel DeepseekV2ForCausalLM InternLMForCausalLM "
    "InternLMXComposer2ForCausalLM LlavaForConditionalGeneration LlavaLlamaForCausalLM LlavaMistralForCausalLM MiniCPMV "
    "MistralForCausalLM MolmoForCausalLM MultiModalityCausalLM QWenLMHeadModel Qwen2VLForConditionalGeneration "
    "Qwen2_5_VLForConditionalGeneration"
)
_DELTA = _named("Glm4MoeLiteForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration")
_S2 = _named("InternS2PreviewForConditionalGeneration")
_PYTORCH = _named(
    "ChatGLMForConditionalGeneration CogVLMForCausalLM DeepseekForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM "
    "DeepseekVLV2ForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM "
    "Glm4MoeForCausalLM Glm4vForConditionalGeneration GptOssForCausalLM InternLM2ForCausalLM InternLM3ForCausalLM "
    "InternS1ForConditionalGeneration InternVLChatModel InternVLForConditionalGeneration Llama4ForConditionalGeneration "
    "LlamaForCausalLM LlavaForConditionalGeneration LlavaNextForConditionalGeneration MiniCPM3ForCausalLM MiniCPMV MistralForCausalLM "
    "MixtralForCausalLM Phi3ForCausalLM Phi3VForCausalLM PhiMoEForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM "
    "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM SDARForCausalLM "
    "SDARMoeForCausalLM"
)
_PYTORCH_OLD = _named("BaichuanForCausalLM InternLM2VEForCausalLM InternLMForCausalLM QWenLMHeadModel Starcoder2ForCausalLM")
_PYTORCH_11 = _named("Qwen3NextForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration")
_PYTORCH_12 = _named(
    "DeepseekV32ForCausalLM Glm4MoeLiteForCausalLM GlmMoeDsaForCausalLM InternS1ProForConditionalGeneration "
    "InternS1_1_ForConditionalGeneration Qwen3NextForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration "
    "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration"
)
_PYTORCH_14 = _PYTORCH_12 | _S2 | _named("InternS2PreviewForCausalLM Qwen3OmniMoeForConditionalGeneration")
_MOBIUS = _named("InternS2MobiusForConditionalGeneration")
_PYTORCH_16 = _named("HYV3ForCausalLM InternS2MobiusForCausalLM MetaMoeForConditionalGeneration") | _MOBIUS
_KIMI = _named("KimiK25ForConditionalGeneration Kimi_K25ForConditionalGeneration")
_CUT = "`session_len` truncated to {to} due to limited KV cache memory"

_0_10 = LmdeployRules(
    _TURBOMIND_OLD,
    _PYTORCH | _PYTORCH_OLD | _named("MllamaForConditionalGeneration"),
    truncated="No enough blocks for `session_len` ({asked}), `session_len` truncated to {to}.",
    align=1,
    reserved=0,
    spare_states=None,
    states=False,
    indexers=False,
    split_embedding=False,
    dp_whole=True,
    widths=(64, 128),
)
_0_9_2 = _0_10._replace(powers=False, margin="session", batches=OLD_MAX_BATCH)
_0_8 = _0_9_2._replace(seven=True, margin="")
_0_7 = _0_8._replace(pytorch=_0_8.pytorch | _named("DbrxForCausalLM FalconForCausalLM"))
_0_6_3 = _0_7._replace(repeats=False, pytorch=_0_7.pytorch | _named("LlavaLlamaForCausalLM LlavaMistralForCausalLM"))
_0_6_2 = _0_6_3._replace(widths=(128,), wide=frozenset({"Qwen2ForCausalLM", "LlamaForCausalLM", "InternVLChatModel"}))
_0_6_1 = _0_6_2._replace(wide=frozenset({"Qwen2ForCausalLM", "InternVLChatModel"}))
_0_6 = _0_6_1._replace(policies=False)
_0_3 = _0_6._replace(batch=128, prefill=4096)
_0_2_2 = _0_3._replace(block=128, pytorch=frozenset())
_0_2 = _0_2_2._replace(fraction=0.5, of_total=True)
_0_11 = _0_10._replace(align=256, spare_states=8, dp_whole=False, pytorch=_0_10.pytorch | _PYTORCH_11)
_0_11_1 = _0_11._replace(reserved=1, indexers=True, pytorch=_0_11.pytorch | _named("DeepseekV32ForCausalLM"))
_0_12_0 = _0_11_1._replace(
    turbomind=_TURBOMIND_OLD | _DELTA,
    pytorch=_PYTORCH | _PYTORCH_OLD | _PYTORCH_12,
    truncated=_CUT,
    states=True,
    split_embedding=True,
)
_0_12 = _0_12_0._replace(spare_states=1)
_0_13 = _0_12._replace(
    said="", refused_blocks=2, asks_early=True, turbo=True, pytorch=_0_12.pytorch | _S2 | _named("InternS2PreviewForCausalLM")
)
_0_14 = _0_13._replace(
    turbomind=_TURBOMIND | _DELTA | _S2,
    pytorch=_PYTORCH | _PYTORCH_OLD | _PYTORCH_14,
    spare_states=2,
    fp8=True,
    states_or_prefixes=True,
    widths=(),
)
_0_15 = _0_14._replace(
    deals_experts=True,
    pool="objects",
    truncated="",
    states_or_prefixes=False,
    pytorch=_PYTORCH | _PYTORCH_14 | _named("DeepseekV4ForCausalLM"),
)
_0_16 = _0_15._replace(
    turbomind=_0_15.turbomind | _MOBIUS | _named("Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration"),
    pytorch=_0_15.pytorch | _PYTORCH_16,
    index_fp8="DeepseekV32ForCausalLM",
    text_only=True,
    split_head=True,
)
_0_17 = _0_16._replace(pytorch=_0_16.pytorch | _KIMI, index_fp8="", score_mib=512, packed=True)
RELEASES = Releases("lmdeploy", {
    "0.2": _0_2, "0.2.2": _0_2_2, "0.3": _0_3, "0.6": _0_6, "0.6.1": _0_6_1, "0.6.2": _0_6_2, "0.6.3": _0_6_3, "0.7": _0_7,
    "0.8": _0_8, "0.9": _0_8, "0.9.2": _0_9_2, "0.10": _0_10, "0.11": _0_11, "0.11.1": _0_11_1, "0.12": _0_12_0, "0.12.3": _0_12,
    "0.13": _0_13, "0.14": _0_14, "0.15": _0_15, "0.16": _0_16, "0.17": _0_17, "0.18": _0_17,
})  # fmt: skip
#: lmdeploy/pytorch/models/deepseek_v2.py and kimi_k2_language.py: ParallelEmbedding(is_tp=True). Other models of the PyTorch engine keep
#: the embedding on every rank.
SPLIT_EMBEDDING = _named("DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM") | _KIMI
#: deepseek_v2.py and deepseek_v32.py: ParallelLMHead. Other models keep the head on every rank.
SPLIT_HEAD = _named("DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekV32ForCausalLM Glm4MoeLiteForCausalLM GlmMoeDsaForCausalLM")
