"""Which model classes a release has, by the registries of 97 releases (models/registry.py, before it models/__init__.py, model_loader.py).

registry.py has each class with the first of 0.0.1 to 0.33.0 that lists it (the packages of the index; of 0.15.1, 0.10.0.1 and others
there is none). Of a class that no release lists nothing is said.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.registries import Registry
from kvplan.engines.common.releases import in_force, three_parts
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.classes import OWN_CODE
from kvplan.engines.vllm.registry import FIRST
from kvplan.engines.vllm.rules import VERSIONS
from kvplan.spec import ModelSpec

#: The option of a question.
TRUST = "trust_remote_code"

#: Minor releases by which a start may be older than its model's class and no public one is: of 26 that are (tests/threads), on builds of a
#: branch or by the date alone, none is by three, and before 0.10, when a minor took three months, none by two.
EARLIER, EARLIER_ONCE, QUICKER = 3, 2, 10
#: Classes that left, and that the transformers library does not have either: the release that vLLM names, and the first without.
REMOVED: dict[str, tuple[str, str]] = {
    "MotifForCausalLM": ("0.10.2", "0.11.1"),
    "Phi3SmallForCausalLM": ("0.9.2", "0.10"),
    "Phi4FlashForCausalLM": ("0.10.2", "0.11"),
    "JAISLMHeadModel": ("0.22.0", "0.23"),
    "InternLM2VEForCausalLM": ("0.23.0", "0.24"),
    "BambaForCausalLM": ("0.23.0", "0.24"),  # transformers has it, without an attention that vLLM could take
    "QWenLMHeadModel": ("0.23.0", "0.24"),
    "QwenVLForConditionalGeneration": ("0.23.0", "0.24"),
    "InternLMForCausalLM": ("0.23.0", "0.24"),
    "XverseForCausalLM": ("0.23.0", "0.24"),
    "MiniMaxText01ForCausalLM": ("0.23.0", "0.24"),
    "MiniMaxM1ForCausalLM": ("0.23.0", "0.24"),
    "MiniMaxVL01ForConditionalGeneration": ("0.23.0", "0.24"),
    "BaiChuanForCausalLM": ("0.23.0", "0.25"),
    "BaichuanForCausalLM": ("0.23.0", "0.25"),
    "AquilaModel": ("0.24.0", "0.25"),
    "AquilaForCausalLM": ("0.24.0", "0.25"),
    "Grok1ModelForCausalLM": ("0.24.0", "0.25"),
    "Grok1ForCausalLM": ("0.24.0", "0.25"),
    "TarsierForConditionalGeneration": ("0.24.0", "0.25"),
    "Tarsier2ForConditionalGeneration": ("0.23.0", "0.25"),
    "MantisForConditionalGeneration": ("0.24.0", "0.25"),
    "TeleChatForCausalLM": ("0.25.0", "0.26"),
    "Plamo2ForCausalLM": ("0.26.0", "0.27"),
    "OuroForCausalLM": ("0.26.0", "0.27"),
    "ArcticForCausalLM": ("0.28.0", "0.29"),
    "Fairseq2LlamaForCausalLM": ("0.28.0", "0.29"),
    "HCXVisionForCausalLM": ("0.28.0", "0.29"),
    "MPTForCausalLM": ("0.28.0", "0.29"),
    "MptForCausalLM": ("0.28.0", "0.29"),  # transformers has it, without an attention that vLLM could take
    "RWForCausalLM": ("0.28.0", "0.29"),
    "StableLMEpochForCausalLM": ("0.28.0", "0.29"),
}


REGISTRY = Registry(FIRST, VERSIONS)
#: Encoders that transformers' code runs before vLLM has a class of its own, from the first release that was read whose requirements take
#: transformers 5 (0.20.2; 0.17.1 is below it; models/transformers/base.py check_version).
RUN_BEFORE: dict[str, str] = {"BertForMaskedLM": "0.20"}

#: Classes of released files that no registry of 0.0.1 to 0.33.0 lists, and no transformers up to 5.24 has.
UNLISTED = frozenset({
    "HunYuanForCausalLM", "JetNemotronForCausalLM", "JinaBertModel", "LlavaLlamaForCausalLM", "LlavaMistralForCausalLM",
    "LlavaQwenForCausalLM", "LocateAnythingForConditionalGeneration", "MambaLMHeadModel", "OpenELMForCausalLM", "Rwkv5ForCausalLM",
    "Rwkv6ForCausalLM", "SDARForCausalLM", "SDARMoeForCausalLM", "SkyworkForCausalLM", "Spark2_5ForCausalLM", "StepAudio2ForCausalLM",
})  # fmt: skip


def unlisted(model: ModelSpec) -> tuple[str, ...]:
    """That nothing in a release runs the class but the code of its repository, where `_try_resolve_transformers` takes that."""
    if (named := model.architecture) not in UNLISTED:
        return ()
    return (f"no release lists {named}: it starts on a fork, or where its repository's code suits vLLM's backend of transformers",)


def _runs_before(named: str, version: str | None) -> bool:
    return named in RUN_BEFORE and in_force(RUN_BEFORE[named], "", version)


def gone(settled: Settled) -> Values:
    """The class was taken out before this release."""
    named = settled.question.model.architecture or ""
    last, since = REMOVED.get(named, ("", ""))
    return {"class": named, "last": last} if since and in_force(since, "", settled.question.engine_version) else None


def not_yet(settled: Settled) -> Values:
    """The class came with a release of some minors later."""
    named, release = settled.question.model.architecture or "", settled.question.engine_version
    first = REGISTRY.first.get(named)
    if first is None or release is None or _runs_before(named, release):
        return None
    (major, minor, _), (now, asked, _) = three_parts(first), three_parts(release)
    by = EARLIER if minor >= QUICKER else EARLIER_ONCE
    return {"class": named, "first": first} if now == major and asked + by <= minor else None


def of_a_branch(settled: Settled) -> bool:
    """Whether the release is older than its model's class, and by no more than such builds are."""
    d = settled.question
    return bool(before_its_class(d.model.architecture, d.engine_version)) and not not_yet(settled)


def before_its_class(named: str | None, version: str | None) -> tuple[str, ...]:
    """A note where the release is older than the first that lists the class: builds of a branch may have it, and logs name them so."""
    first = REGISTRY.first.get(named or "")
    if first is None or not version or three_parts(version) >= three_parts(first):
        return ()
    if _runs_before(named or "", version):
        return (f"{named} is no class of vLLM {version}: transformers' code, as an encoder",)
    return (f"vLLM {version} does not list {named}, whose first release is {first}; a build of a branch between them may",)


def own_code(model: ModelSpec, version: str | None) -> str:
    """The class whose config the release reads by the code of the model's repository alone; empty where it knows it."""
    named = model.architecture or ""
    bounds = OWN_CODE.get(next((start for start in OWN_CODE if "/" in start and model.id.startswith(start)), named))
    return named if bounds is not None and in_force(*bounds, version) else ""


def trust_taken(d: Deployment) -> tuple[str, ...]:
    """A note where a plan takes --trust-remote-code as given."""
    named = own_code(d.model, d.engine_version) if Options(d).text(TRUST) is None else ""
    return (f"--trust-remote-code is taken as given: this release does not know the config of {named} without",) if named else ()


def untrusted(settled: Settled) -> Values:
    """It is not given, and the config is read by it alone."""
    d = settled.question
    named = own_code(d.model, d.engine_version) if not Options(d).flag(TRUST, True) else ""
    return {"class": named} if named else None


_OTHER = (Move("engine_version", "a release that has it"), Move("engine", "another that does"))
CHECKS = (
    Stop(
        "own code", "contains custom code which must be executed to correctly load the model.",
        "the release does not know the model's config, which its repository's own code reads", (Move(f"option:{TRUST}", "true"),),
        "transformers dynamic_module_utils.py resolve_trust_remote_code", when=untrusted,
        numbers="{class} without --trust-remote-code",
    ),
    Stop(
        "a class that left", "Model architecture {class:w} was supported in vLLM until v{last:w}",
        "the model's class is no more in this release, and the transformers library, whose code would run it, has none", _OTHER,
        "model_executor/models/registry.py _raise_for_unsupported", since="0.10", when=gone,
        tail=", and is not supported anymore. Please use an older version of vLLM if you want to use this model architecture.",
    ),
    Stop(
        "a class of later releases", "Model architectures ['{class:w}'] are not supported for now.",
        "the release does not know the model's class", _OTHER, "model_executor/models/registry.py _raise_for_unsupported",
        when=not_yet, numbers="its first release is {first}",
    ),
)  # fmt: skip
