"""What vLLM makes of a model's config where the config alone does not say it: the length, the window, which layers keep a cache.

vLLM 0.32 `vllm/config/model.py` (_get_and_verify_max_len), `vllm/engine/arg_utils.py` (create_engine_config,
_set_default_max_num_seqs_and_batched_tokens_args), `vllm/model_executor/layers/attention/attention.py`, `models/qwen2.py`.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.settling import without
from kvplan.engines.vllm.media import text_alone
from kvplan.engines.vllm.rules import VllmRules, since
from kvplan.spec import ModelSpec
from kvplan.tensors import ALL, Cache, Keep, Layer, Lowered, distinct

#: Whose classes run without a cache where the config says that every token sees all others: how their names begin -> first release.
ENCODE: dict[str, str] = {"Qwen2": "0.8", "Qwen3": "0.8", "Llama": "0.9.2", "Gemma3": "0.10.2"}
#: Classes that left vLLM's registry and run by transformers' code since: every layer has a decoder's cache, one that looks at images too
#: (models/registry.py _PREVIOUSLY_SUPPORTED_MODELS, models/transformers/base.py create_attention_instances).
LEFT: dict[str, str] = {"MllamaForConditionalGeneration": "0.11"}
#: Releases in which a window that the config states slides every layer unless layer_types differ: the first and the first without
#: (engine/arg_utils.py create_engine_config, is_interleaved; later only where every type slides).
SLIDES_ALIKE = ("0.10.2", "0.27")
#: Classes of sparse latents, and the first release in which layers that take another's choice have no indexer (models/deepseek_v2.py).
CHOOSING, SHARES_CHOICES = ("GlmMoeDsa", "DeepseekV32"), "0.24"
#: Tokens of the largest item that Gemma 4's processor makes: 32 frames of 78 (models/gemma4_mm.py).
LARGEST_ITEM: dict[str, int] = {"Gemma4ForConditionalGeneration": 2496}
#: What a model whose config states no maximum length is served with (config/model.py _get_and_verify_max_len, of every release).
NO_LENGTH = 2048


def longest_of(model: ModelSpec, rules: VllmRules) -> int | None:
    """The most tokens that a release takes for the model's own maximum; None where the config has none."""
    return model.stated_context if model.stated_context and not rules.stretches_yarn else model.max_context


def length_served(model: ModelSpec, rules: VllmRules) -> int | None:
    """max_model_len where it is not chosen; None where nobody read whether the config states one."""
    stated = model.original_context if model.original_context and rules.serves_original else longest_of(model, rules)
    return stated or (NO_LENGTH if model.architecture and not model.length_unsaid else None)


def as_pooled(d: Deployment, options: Options, release: str) -> Deployment:
    """The question with the model as its runner holds it: the pooling runner makes no output layer (models/adapters.py).

    A decoder's class whose config makes it an encoder is published as a sentence transformer, which that runner serves unless another
    is asked for (config/model.py _get_default_runner_type).
    """
    asked = options.text("runner", ("auto", "generate", "pooling")) or "auto"
    pooled = asked == "pooling" or (asked == "auto" and encodes(d.model, release))
    return replace(d, model=d.model.changed(lm_head=False)) if pooled and d.model.lm_head else d


def indexed(model: ModelSpec, release: str) -> ModelSpec:
    """The model as a release builds it: before one, every layer of sparse latents has an indexer, also those that take another's choice."""
    kinds = {mixer.kind: mixer for block in model.blocks.values() for mixer in block.mixers}
    if since(release, SHARES_CHOICES) or not {"mla", "mla_sparse"} <= kinds.keys() or not (model.architecture or "").startswith(CHOOSING):
        return model
    made = {
        name: block.changed(mixers=tuple(kinds["mla_sparse"] if mixer.kind == "mla" else mixer for mixer in block.mixers))
        for name, block in model.blocks.items()
    }
    return model.changed(blocks=made)


def pools(model: ModelSpec) -> bool:
    """Whether it is an encoder, which vLLM's pooling runner serves: prompts go in whole (config/model.py is_chunked_prefill_supported)."""
    mixers = [mixer for block in model.blocks.values() for mixer in block.mixers]
    return bool(mixers) and all(mixer.kind == "encoder" for mixer in mixers)


def least_batch(d: Deployment, rules: VllmRules, max_model_len: int) -> int:
    """Tokens that a default batch holds at least.

    A prompt of an encoder; the largest image, where its tokens see one another. 0: as many as ever.
    """
    if rules.v1 and pools(d.model):
        return max_model_len
    whole = rules.whole_items and d.model.bidirectional == "images" and d.model.towers and not text_alone(d)
    return LARGEST_ITEM.get(d.model.architecture or "", 0) if whole else 0


def encodes(model: ModelSpec, release: str) -> bool:
    """Whether the model's class runs its layers as an encoder's."""
    first = next((one for start, one in ENCODE.items() if (model.architecture or "").startswith(start)), None)
    return model.bidirectional == "all" and first is not None and since(release, first)


def left(model: ModelSpec, release: str) -> bool:
    """Whether the model's class is vLLM's no more and transformers' code runs it."""
    first = LEFT.get(model.architecture or "")
    return first is not None and since(release, first)


def _slides_alike(model: ModelSpec, release: str) -> bool:
    """Whether a window that no layer type has slides the layers all the same."""
    mixers = {mixer.kind for block in model.blocks.values() for mixer in block.mixers}
    first, gone = SLIDES_ALIKE
    return len(mixers) == 1 and since(release, first) and not since(release, gone)


def as_run(cache: Cache, model: ModelSpec, release: str, slides: bool = True) -> Cache:
    """The cache of one layer as its attention declares it.

    A window that the config states goes to every layer that is given none of its own (CacheConfig.sliding_window), also of a class that
    masks by none; latent attention has no windows. `slides` False: layers that have one keep everything.
    """
    if cache.form == "kv" and encodes(model, release):
        return without(cache)
    if cache.form == "kv" and not slides:
        return replace(cache, tensors=tuple(replace(t, keep=ALL) if t.keep.kind == "window" else t for t in cache.tensors))
    if cache.form == "encoder-kv" and left(model, release):
        return replace(cache, form="kv", tensors=tuple(replace(t, keep=ALL) for t in cache.tensors))
    window = model.cache_window or (model.unused_window if _slides_alike(model, release) else None)
    if cache.form == "kv" and window:
        keep = Keep("window", window)
        return replace(cache, tensors=tuple(replace(t, keep=keep) if t.keep == ALL else t for t in cache.tensors))
    return cache


def as_target(drafts: tuple[Layer, ...], model: Lowered) -> tuple[Layer, ...]:
    """A drafter's layers under the window of a target whose layers all slide alike: both have one CacheConfig."""
    kept = {t.keep for layer in distinct(model.layers) for cache in layer.caches if cache.form == "kv" for t in cache.tensors}
    if len(kept) != 1 or next(iter(kept)).kind != "window":
        return drafts
    keep = kept.pop()

    def slid(cache: Cache) -> Cache:
        tensors = tuple(replace(t, keep=keep) if t.keep == ALL else t for t in cache.tensors)
        return replace(cache, tensors=tensors) if cache.form == "kv" else cache

    return tuple(replace(layer, caches=tuple(slid(cache) for cache in layer.caches)) for layer in drafts)


def states_stated(model: ModelSpec) -> bool:
    """Whether the checkpoint's config names the type of its recurrent states."""
    return any(getattr(mixer, "state_dtype", None) for block in model.blocks.values() for mixer in block.mixers)
