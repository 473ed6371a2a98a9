"""Classes that no registry of vLLM's lists (any more), and what is left of them: transformers' code, where another engine can attend in it.

models/registry.py _try_resolve_transformers (0.7.2 to 0.33), which asks `is_backend_compatible() or _can_set_attn_implementation()` of the
class in transformers; asked of the classes of 5.23, of which fewer would do in those before. It wraps one stack of decoder layers
(models/transformers/base.py), and has nothing for a model of two.
"""

from __future__ import annotations

from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.registry import FIRST
from kvplan.spec import ModelSpec

_LISTED = frozenset(named for classes in FIRST.values() for named in classes.split())
#: Classes whose code in transformers lets no other engine attend.
_INCOMPATIBLE = (
    "BigBirdForCausalLM BlipForConditionalGeneration CodeGenForCausalLM CpmAntForCausalLM FSMTForConditionalGeneration GPTNeoForCausalLM "
    "GPTNeoXJapaneseForCausalLM LEDForConditionalGeneration MegatronBertForCausalLM MvpForCausalLM MvpForConditionalGeneration "
    "OpenAIGPTLMHeadModel ProphetNetForCausalLM ProphetNetForConditionalGeneration ReformerModelWithLMHead RemBertForCausalLM "
    "RoFormerForCausalLM SpeechT5ForSpeechToText TrOCRForCausalLM XGLMForCausalLM XLMWithLMHeadModel XLNetLMHeadModel"
)
INCOMPATIBLE = frozenset(_INCOMPATIBLE.split())
#: Encoder-decoders that left with V0 (registry.py _PREVIOUSLY_SUPPORTED_MODELS, _OOT_SUPPORTED_MODELS: but for a plugin, bart-plugin).
LEFT = ("BartForConditionalGeneration", "Florence2ForConditionalGeneration", "MBartForConditionalGeneration")
LEFT_SINCE = "0.11"


def no_code(settled: Settled) -> Values:
    """A class that neither runs."""
    named = settled.question.model.architecture
    return {"class": named} if named in INCOMPATIBLE else None


def of_two_stacks(model: ModelSpec, release: str) -> tuple[str, ...]:
    """Why a start of an encoder and a decoder without a class in vLLM is not known (Mllama's is counted by its decoder alone, model.py)."""
    named = model.architecture or ""
    left = named in LEFT and in_force(LEFT_SINCE, "", release)
    if model.encoder is None or not named or named in INCOMPATIBLE or (named in _LISTED and not left):
        return ()
    return (f"vLLM {release} has no {named}, and its backend of transformers runs decoders, not an encoder before one",)


CHECKS = (
    Stop(
        "a class without code", "Model architectures ['{class:w}'] are not supported for now.",
        "neither vLLM has the class, nor can transformers' own be given another engine's attention",
        (Move("engine", "another that has it"),), "model_executor/models/registry.py _try_resolve_transformers", when=no_code,
    ),
)  # fmt: skip
