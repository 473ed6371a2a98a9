"""Parameter counts against models that the installed transformers builds on the meta device, from its own class-default configs.

The configs are transformers' own, so this needs nothing beside the package. Whole forwards, slow, compare the cache a model leaves.
"""

from __future__ import annotations

import warnings

import pytest

from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count

torch = pytest.importorskip("torch", reason="building models needs torch")
transformers = pytest.importorskip("transformers", reason="the test-only dependency transformers is not installed")

#: Classes whose default config is a whole model of their own.
CLASSES = [
    "ApertusForCausalLM", "ArceeForCausalLM", "BambaForCausalLM", "BartForConditionalGeneration", "BertForMaskedLM", "BloomForCausalLM",
    "CohereForCausalLM", "Cohere2ForCausalLM", "DeepseekV3ForCausalLM",
    "Ernie4_5ForCausalLM", "Exaone4ForCausalLM", "FalconForCausalLM", "FalconMambaForCausalLM", "GPT2LMHeadModel", "GPTBigCodeForCausalLM",
    "GPTJForCausalLM", "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "GemmaForCausalLM", "Glm4ForCausalLM",
    "GlmForCausalLM", "GptOssForCausalLM", "GraniteForCausalLM", "GraniteMoeForCausalLM", "JambaForCausalLM",
    "Lfm2ForCausalLM", "LlamaForCausalLM", "Mamba2ForCausalLM", "MambaForCausalLM", "MiniMaxForCausalLM", "MistralForCausalLM",
    "MixtralForCausalLM", "MptForCausalLM", "OPTForCausalLM", "Olmo2ForCausalLM", "Olmo3ForCausalLM",
    "OlmoForCausalLM", "OlmoeForCausalLM", "Phi3ForCausalLM", "PhiForCausalLM", "PhimoeForCausalLM", "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "RecurrentGemmaForCausalLM",
    "SeedOssForCausalLM", "SmolLM3ForCausalLM", "StableLmForCausalLM", "Starcoder2ForCausalLM", "T5ForConditionalGeneration",
    "WhisperForConditionalGeneration", "Zamba2ForCausalLM",
]  # fmt: skip


def default_config(name: str) -> dict:
    """The class's default config, as its config.json would say it."""
    config = getattr(transformers, name).config_class()
    return {**config.to_dict(), "architectures": [name], "model_type": config.model_type}


def build(name: str):
    """The model on the meta device: shapes, no memory."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        return getattr(transformers, name)(getattr(transformers, name).config_class())


def imported(name: str):
    return parse_spec(import_config(default_config(name), name), name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSES)
def test_parameters(name):
    if not hasattr(transformers, name):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    model = lower(imported(name), CacheFormats("bf16", "bf16", "bf16", "bf16"))
    assert count(model).total == sum(p.numel() for p in build(name).parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Gemma2ForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "GPT2LMHeadModel"])
def test_cache_of_a_whole_forward(name):
    from kvplan import estimate

    spec, tokens = imported(name), 40
    model = build(name)
    with torch.no_grad():
        cache = model(torch.zeros((1, tokens), dtype=torch.long, device="meta"), use_cache=True).past_key_values
    held = sum(t.untyped_storage().nbytes() for layer in cache.layers for t in (layer.keys, layer.values))
    assert estimate(spec, context=tokens, engine="ideal", dtype="f32").cache.total_bytes == held
