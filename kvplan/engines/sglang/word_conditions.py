"""When a release's own command line or its checks of settings stop a settled question, as the numbers of their texts (words.py)."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force, release
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang import exchange
from kvplan.engines.sglang.backends import DETERMINISTIC, TRTLLM_MLA, deterministic, is_blackwell, named_backends, picked, usual
from kvplan.engines.sglang.classes import ENCODED_APART
from kvplan.engines.sglang.deepseek_v4 import is_compressed
from kvplan.engines.sglang.drafts import is_tree
from kvplan.engines.sglang.expert_conditions import PLAIN, method
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.memory import MAX_PREFILL_TOKENS
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import keeps_prefixes, read_traits, with_buffers
from kvplan.units import cdiv

#: Words for formats of the cache -> the release that takes them first (choices of --kv-cache-dtype); none where every release does.
_FORMATS = {"nvfp4": (0, 5, 5), "mxfp8": (0, 5, 16)}
_EXAONE = ("Exaone4ForCausalLM", "ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM")


def _said(settled: Settled) -> str:
    """The cache format in the words of the question."""
    return (settled.question.kv_dtype or "").strip().lower()


def no_format(settled: Settled) -> Values:
    """A format that came later, or the name of the FP4 one that did."""
    s, said = settings_of(settled), _said(settled)
    since = (0, 5, 16) if said == "fp4_mx_block16" else _FORMATS.get(s.formats.k, ())
    return {"format": said} if release(s.release) < since else None


def old_format(settled: Settled) -> Values:
    """The FP4 format by the name that it had, where the release is known."""
    return {} if _said(settled) == "fp4_e2m1" and "engine_version" not in settled.chosen_by else None


def lazy_buffers(settled: Settled) -> Values:
    return {} if Options(settled.question).text("mamba_radix_cache_strategy") == "extra_buffer_lazy" else None


def latent_word(settled: Settled) -> Values:
    """TensorRT-LLM's latent attention knows bf16 rows by their short name alone, and FP4 ones by their old name."""
    d, s = settled.question, settings_of(settled)
    said = named_backends(d)
    backend = TRTLLM_MLA if said.decode == TRTLLM_MLA else said.both or picked(d, s.rules, read_traits(settled.model))
    renamed = s.formats.k == "nvfp4" and release(s.release) >= (0, 5, 16)
    return {} if backend == TRTLLM_MLA and (_said(settled) == "bfloat16" or renamed) else None


def decodes_with_fa4(settled: Settled) -> Values:
    said = named_backends(settled.question)
    return {} if "fa4" in (said.both, said.decode) else None


def staged_mixtures(settled: Settled) -> Values:
    return {} if settings_of(settled).layout.pp > 1 and Options(settled.question).flag("enable_mixed_chunk") else None


def staged_here(settled: Settled) -> Values:
    """A drafter over stages of a server that decodes, too."""
    prefills = Options(settled.question).text("disaggregation_mode") == "prefill"
    return {} if settings_of(settled).layout.pp > 1 and settings_of(settled).speculation and not prefills else None


def batches_overlap(settled: Settled) -> Values:
    """Two batches at once without experts over ranks."""
    options = Options(settled.question)
    alone = (options.text("moe_a2a_backend") or "none") == "none"
    return {} if options.flag("enable_two_batch_overlap") and alone else None


def batches_overlap_alone(settled: Settled) -> Values:
    return batches_overlap(settled) if settings_of(settled).layout.attention_dp == 1 else None


def lm_head(settled: Settled) -> Values:
    """Where there is one group alone, releases since 0.5.3 leave the option out themselves."""
    s = settings_of(settled)
    left_out = release(s.release) >= (0, 5, 3) and (settled.question.dp or 1) == 1
    return {} if Options(settled.question).flag("enable_dp_lm_head") and s.layout.attention_dp == 1 and not left_out else None


def exaone_unnamed(settled: Settled) -> Values:
    """EXAONE 4 with windows where no backend is named, which releases compare with their list all the same."""
    named = settled.question.model.architecture or ""
    return {"architecture": named} if named in _EXAONE and not named_backends(settled.question).both and _windows(settled) else None


def exaone_backend(settled: Settled) -> Values:
    named, asked = settled.question.model.architecture or "", named_backends(settled.question).both
    odd = named in _EXAONE and asked and asked not in ("fa3", "triton", "trtllm_mha")
    return {"architecture": named, "backend": asked} if odd and _windows(settled) else None


def _windows(settled: Settled) -> bool:
    return read_traits(settled.model).windows


def deterministic_backend(settled: Settled) -> Values:
    """A backend whose results depend on the batch, asked for or set for the model's class."""
    d = settled.question
    if not Options(d).flag("enable_deterministic_inference"):
        return None
    traits = read_traits(settled.model)
    unnamed = named_backends(d).phases == (None, None)
    own = "dsv4" if traits.compressed else "dsa" if traits.pooled_index is not None and unnamed else None
    wanted = "none" if settings_of(settled).rules.deterministic == "asked" else None
    asked = named_backends(d).both or own or wanted
    early = asked == "fa4" and release(settings_of(settled).release) < (0, 5, 16)
    return {"backend": asked} if asked and (early or asked not in DETERMINISTIC) else None


def deterministic_latent(settled: Settled) -> Values:
    asked = named_backends(settled.question).both
    return {"backend": asked} if deterministic(settled.question) and read_traits(settled.model).latent and asked == "flashinfer" else None


def compressed_rows(settled: Settled) -> Values:
    return {} if is_compressed(settled.model.layers) and settings_of(settled).formats.k == "bf16" else None


def compressed_nextn(settled: Settled) -> Values:
    """DeepSeek-V4's own drafts by their other name, which is made one only later."""
    spec = read_speculative(settled.question.speculative)
    named = settled.question.model.architecture or ""
    return {"kind": named} if spec and spec.method == "nextn" and named.startswith("DeepseekV4") else None


def compressed_tree(settled: Settled) -> Values:
    """A tree of drafts, or EAGLE whose width nobody said: the release looks before it picks one."""
    named, spec = settled.question.model.architecture or "", read_speculative(settled.question.speculative)
    unsaid = spec is not None and spec.method == "eagle" and settings_of(settled).picked_steps
    return {"kind": named} if (is_tree(settled.question) or unsaid) and named.startswith("DeepseekV4") else None


def shared_context_tree(settled: Settled) -> Values:
    return {} if is_tree(settled.question) and _shares_index(settled) else None


def shared_context_tier(settled: Settled) -> Values:
    options = Options(settled.question)
    return {} if (options.flag("enable_hierarchical_cache") or options.flag("enable_hisparse")) and _shares_index(settled) else None


def shared_pooled_index(settled: Settled) -> Values:
    pool = read_traits(settled.model).pooled_index or 1
    return {"pool": pool} if pool > 1 and _shares_index(settled) else None


def _shares_index(settled: Settled) -> bool:
    return (settled.question.dcp or 1) > 1 and read_traits(settled.model).pooled_index is not None


def drafts_over_groups(settled: Settled) -> Values:
    """A drafter that does not know attention data parallelism."""
    spec, grouped = read_speculative(settled.question.speculative), settings_of(settled).layout.attention_dp > 1
    names = {"ngram": "ngram", "standalone": "standalone", "draft_model": "standalone"}
    if release(settings_of(settled).release) < (0, 5, 23):
        names["dflash"] = "DFLASH"
    return {"method": names[spec.method]} if spec and grouped and spec.method in names else None


def fp8_prefill(settled: Settled) -> Values:
    """TensorRT-LLM's attention on 12.x, whose prefill kernel reads no fp8 rows."""
    d = settled.question
    asked = named_backends(d).phases[0] == "trtllm_mha" and settings_of(settled).formats.k == "fp8_e4m3"
    has = capability(d)
    return {} if asked and has is not None and has // 10 == 12 else None


def prompt_ranks(settled: Settled) -> Values:
    """Ranks of a prompt that do not divide tp; up to 0.5.21 beside dp, whether attention is split by that or not."""
    s, asked = settings_of(settled), Options(settled.question).count("attn_cp_size") or 1
    uneven = asked > 1 and release(s.release) < (0, 5, 22) and s.layout.tp % ((settled.question.dp or 1) * asked)
    return {} if uneven or s.layout.attn_cp != asked else None


def encoded_apart(settled: Settled) -> Values:
    """The language model or the encoders alone, of a class that is not served apart."""
    named, options = settled.question.model.architecture, Options(settled.question)
    since = ENCODED_APART.get(named or "", "99")
    told = (options.flag("language_only") or options.flag("encoder_only")) and named
    return {"architecture": named} if told and not in_force(since, "", settings_of(settled).release) else None


def unbalanced_groups(settled: Settled) -> Values:
    """Groups of a server that only decodes, without a word on how prompts come to them."""
    options, dp = Options(settled.question), max(settings_of(settled).layout.dp, settled.question.dp or 1)
    told = options.flag("prefill_round_robin_balance")
    return {"dp": dp} if options.text("disaggregation_mode") == "decode" and dp > 1 and not told else None


def unchecked_pool(settled: Settled) -> Values:
    """--kv-canary of a pool that it does not know: of latent rows, or beside states."""
    traits = read_traits(settled.model)
    latent = "DSATokenToKVPool" if traits.pooled_index is not None else "MLATokenToKVPool"
    pool = "HybridLinearKVPool" if traits.states else latent if traits.latent and not traits.compressed else ""
    return {"pool": pool} if pool and Options(settled.question).text("kv_canary") in ("log", "raise") else None


def no_requests(settled: Settled) -> Values:
    dp, running = settings_of(settled).layout.attention_dp, settled.question.max_num_seqs
    return {"dp": dp, "running": running} if running and running < dp else None


#: Settings that a release takes for these classes alone (arg_groups of 0.5.23, configs/moe_model_registry.py).
ONLY_FOR: dict[str, frozenset[str]] = {
    "enable_layernorm_sp": frozenset({"MuseSparkForConditionalGeneration", "Qwen3ForCausalLM"}),
    "enable_cp_decode_attn_tp": frozenset({"DeepseekV4ForCausalLM", "GlmMoeDsaForCausalLM"}),
    "shared_experts_tp_size": frozenset({"KimiK3ForConditionalGeneration"}),
    "deepep_v2": frozenset({
        "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "Qwen3MoeForCausalLM", "Glm5NextForConditionalGeneration",
        "GlmMoeDsaForCausalLM", "MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM",
    }),
}  # fmt: skip


def cutlass_experts(settled: Settled) -> Values:
    """FlashInfer's CUTLASS experts over some of the ranks: they are whole on every rank of tp, or split over all."""
    shape, runner = settings_of(settled).layout, Options(settled.question).text("moe_runner_backend") or "auto"
    asked = runner == "flashinfer_cutlass" or (runner == "auto" and _picks_cutlass(settled))
    return {"ep": shape.ep, "tp": shape.tp} if asked and shape.ep not in (1, shape.tp) else None


def _picks_cutlass(settled: Settled) -> bool:
    """Nemotron-H in 16 bits, not on 10.x: FlashInfer's CUTLASS is picked (0.5.13 arg_groups/nemotron_h_hook.py; later overrides.py)."""
    d = settled.question
    plain = checkpoint_format(d) in ("bf16", "f16") and not Options(d).text("quantization")
    known = (d.model.architecture or "").startswith("NemotronH") and capability(d) is not None
    return known and plain and not is_blackwell(d) and release(settings_of(settled).release) >= (0, 5, 13)


def _stored_under(settled: Settled, runner: str) -> str:
    """The checkpoint's format where this runner of experts is asked of it and it is not to be quantised; else empty."""
    options = Options(settled.question)
    asked = options.text("moe_runner_backend") == runner and not options.text("quantization")
    return checkpoint_format(settled.question) if asked else ""


def plain_experts(settled: Settled) -> Values:
    """TensorRT-LLM's experts, asked of a checkpoint without FP8; before 10.x a release does not look for its format by itself."""
    stored = _stored_under(settled, "flashinfer_trtllm")
    unseen = bool(stored) and capability(settled.question) is not None and not is_blackwell(settled.question)
    return {"stored": stored} if unseen or (stored in PLAIN and method(settled) is None) else None


def fp4_experts(settled: Settled) -> Values:
    """CuteDSL's experts, asked of a checkpoint without experts in NVFP4."""
    stored = _stored_under(settled, "flashinfer_cutedsl")
    return {"stored": stored} if stored and "nvfp4" not in stored and "unknown" not in stored else None


#: Methods that some release takes on AMD GPUs (configs/model_config.py rocm_supported_quantization, 0.4.6 to 0.5.23).
ON_ROCM = frozenset({
    "awq", "gptq", "fp8", "compressed-tensors", "w8a8_fp8", "petit_nvfp4", "quark", "mxfp4", "mxfp8", "auto-round", "auto-round-int8",
    "quark_int4fp8_moe", "quark_mxfp4", "unquant",
})  # fmt: skip


def not_on_rocm(settled: Settled) -> Values:
    method = Options(settled.question).text("quantization")
    return {"method": method} if method and on_amd(settled.question) and method not in ON_ROCM else None


def recurrent_format(settled: Settled) -> Values:
    """FlashInfer's recurrent kernels on 10.x and later, asked for whatever the model is."""
    options, has = Options(settled.question), capability(settled.question)
    asked = options.text("linear_attn_decode_backend") or options.text("linear_attn_backend")
    states = options.text("mamba_ssm_dtype")
    return {"states": states} if asked == "flashinfer" and states != "bfloat16" and (has or 0) >= 100 else None


def _of_another(settled: Settled, asked: bool, key: str) -> Values:
    named = settled.question.model.architecture
    return {"architecture": named} if asked and named and named not in ONLY_FOR[key] else None


def norms_over_ranks(settled: Settled) -> Values:
    return _of_another(settled, Options(settled.question).flag("enable_layernorm_sp"), "enable_layernorm_sp")


def decode_over_prompt_ranks(settled: Settled) -> Values:
    return _of_another(settled, Options(settled.question).flag("enable_cp_decode_attn_tp"), "enable_cp_decode_attn_tp")


def shared_experts_ranks(settled: Settled) -> Values:
    return _of_another(settled, Options(settled.question).count("shared_experts_tp_size") is not None, "shared_experts_tp_size")


def second_deepep(settled: Settled) -> Values:
    return _of_another(settled, exchange.backend(settled.question) == exchange.DEEPEP_V2, "deepep_v2")


def second_deepep_prompts(settled: Settled) -> Values:
    """Tokens that a rank sends of the largest step of prompts, which DeepEP v2's buffers do not hold."""
    d, s = settled.question, settings_of(settled)
    step = max(s.pools.chunk, 0) or Options(d).count("max_prefill_tokens") or MAX_PREFILL_TOKENS
    sent = cdiv(step, s.layout.tp // s.layout.attention_dp if release(s.release) >= (0, 5, 22) else 1)
    decodes = Options(d).text("disaggregation_mode") == "decode"
    return None if decodes or exchange.backend(d) != exchange.DEEPEP_V2 else _more_than_held(d, sent)


def second_deepep_graphs(settled: Settled) -> Values:
    """... of the largest decode graph, with what is verified of each request."""
    d, s = settled.question, settings_of(settled)
    options = Options(d)
    eager = d.enforce_eager or options.flag("disable_decode_cuda_graph") or options.text("disaggregation_mode") == "prefill"
    requests = min(s.graph_bs, s.pools.running_per_worker or s.graph_bs)
    return None if eager or exchange.backend(d) != exchange.DEEPEP_V2 else _more_than_held(d, requests * max(s.pools.draft_tokens, 1))


def _more_than_held(d: Deployment, sent: int) -> Values:
    held = Options(d).count("deepep_v2_num_max_dispatch_tokens_per_rank") or exchange.DISPATCHED
    return {"sent": sent, "held": held} if sent > held else None


def one_pool(settled: Settled) -> Values:
    """One pool for a model that has neither states nor a pool of windows beside its cache."""
    traits = read_traits(settled.model)
    hybrid = (traits.states or settings_of(settled).split.windows) and not traits.compressed
    named = settled.question.model.architecture or "this model"
    return {"architecture": named} if Options(settled.question).flag("enable_unified_memory") and not hybrid else None


def replayed_buffers(settled: Settled) -> Values:
    """States that are replayed, kept with the extra buffers that the release takes by itself or was asked for."""
    s, traits = settings_of(settled), read_traits(settled.model)
    asked = Options(settled.question).flag("enable_linear_replayssm") and traits.states
    kept = asked and keeps_prefixes(settled.question, s.rules, traits)
    strategy = with_buffers(settled.question, s.rules, traits, s.states_page) if kept else "no_buffer"
    return {"strategy": strategy} if strategy != "no_buffer" else None


def shared_context_servers(settled: Settled) -> Values:
    role = Options(settled.question).text("disaggregation_mode") or "null"
    return {"role": role} if role != "null" and _shares_index(settled) else None


def online_fp4(settled: Settled) -> Values:
    has = capability(settled.question) or 0
    return {} if Options(settled.question).text("quantization") == "nvfp4_online" and has and has // 10 != 10 else None


def fp4_index(settled: Settled) -> Values:
    """Index keys of DeepSeek-V4 in FP4, asked for whatever the model is."""
    d, has = settled.question, capability(settled.question) or 0
    elsewhere = on_amd(d) or (has and has // 10 not in (10, 12))
    return {} if Options(d).flag("enable_deepseek_v4_fp4_indexer") and elsewhere else None


def buffers_without_states(settled: Settled) -> Values:
    """Extra buffers beside a prefix cache, asked for where there are no states."""
    options, named = Options(settled.question), settled.question.model.architecture
    told = options.text("mamba_radix_cache_strategy") in ("extra_buffer", "extra_buffer_lazy") and not options.flag("disable_radix_cache")
    return {"architecture": named} if told and named and not read_traits(settled.model).states else None


def compressed_whole(settled: Settled) -> Values:
    """DeepSeek-V4 without its window pool, which its classes of pools are made around."""
    asked = Options(settled.question).flag("disable_hybrid_swa_memory")
    return {} if asked and is_compressed(settled.model.layers) else None


def sparse_host(settled: Settled) -> Values:
    """HiSparse of a model without sparse attention of DeepSeek's kind."""
    traits, named = read_traits(settled.model), settled.question.model.architecture
    sparse = traits.compressed or traits.pooled_index is not None
    return {"architecture": named} if Options(settled.question).flag("enable_hisparse") and not sparse else None


def strided(settled: Settled) -> Values:
    """Pages that hold all layers, also those of one pool, under an attention backend that reads each layer's rows alone."""
    s, d, traits = settings_of(settled), settled.question, read_traits(settled.model)
    shared = Options(d).flag("enable_unified_memory")
    more = {"fa3", "flashinfer", *(("trtllm_mla", "cutedsl_mla", "tokenspeed_mla") if traits.latent else ())}
    if release(s.release) >= (0, 5, 19):
        more |= {"flashmla"} if traits.latent else {"fa4", "trtllm_mha"}
    elif not traits.latent:
        more = set()
    takes = {"triton"} | (more if shared else set())
    asked = (one or usual(d, s.rules, traits) for one in named_backends(d).phases)
    odd = sorted(one for one in asked if one and one not in takes)
    return {"backend": odd[0]} if odd and (shared or Options(d).flag("enable_page_major_kv_layout")) else None
