"""Models as a release's own config classes read them, where that is not what the checkpoint holds: its weights do not load there.

Read from the wheels of sglang 0.5.4 to 0.5.14 and the transformers that each pins; sglang issue 28826 shows such a start.
"""

from __future__ import annotations

from kvplan.engines.sglang.classes import KIMI_LINEAR
from kvplan.engines.sglang.rules import SglangRules
from kvplan.spec import Block, ModelSpec, Run

_BY_NAME = {**dict.fromkeys(KIMI_LINEAR, "numbers"), "GlmMoeDsaForCausalLM": "names"}
#: The layers of a Nemotron-H whose config has no pattern of letters (configs/nemotron_h.py NemotronHConfig, 0.5.4 to 0.5.9).
LETTERS = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"


def misreads(model: ModelSpec, rules: SglangRules) -> str | None:
    """How this release goes wrong with the model's config: `rope`, `layers`, `numbers`, `names` or None.

    rope    transformers of 5.6 to 5.8 take the config's head_dim for the width of the rotary part (GlmMoeDsaConfig.attribute_map)
    layers  the class knows no layers_block_type and takes its own pattern
    names   transformers of 5.6 to 5.8 know no layer of a sparse model by its name (configuration_utils.py ALLOWED_LAYER_TYPES)
    numbers no release of it reads layer_types for linear_attn_config (configs/kimi_linear.py KimiLinearConfig, to 0.5.23)
    """
    if model.listed_layers and (kind := _BY_NAME.get(model.architecture or "")):
        return kind
    if rules.rope_by_head_dim and model.stated_head_dim:
        return "rope"
    return "layers" if model.listed_layers and not rules.layer_lists else None


def as_read(model: ModelSpec, rules: SglangRules) -> ModelSpec:
    """The model as this release reads its config."""
    kind = misreads(model, rules)
    if kind == "rope":
        return model.changed(blocks={name: _wider(block, model.stated_head_dim or 0) for name, block in model.blocks.items()})
    return _by_letters(model) if kind == "layers" else model


def _wider(block: Block, rope: int) -> Block:
    """A block whose latent mixers have another rotary width."""
    mixers = tuple(m.changed(qk_rope_head_dim=rope) if hasattr(m, "qk_rope_head_dim") else m for m in block.mixers)
    return block.changed(mixers=mixers)


def _by_letters(model: ModelSpec) -> ModelSpec:
    """The model's own blocks in the order of LETTERS; a network is any of its blocks without a mixer."""
    kinds = {"M": "mamba2", "*": "attention", "-": ""}
    names = {letter: _named(model, kind) for letter, kind in kinds.items()}
    pattern = tuple(names[letter] for letter in LETTERS)
    used = {*pattern, *((model.mtp.block,) if model.mtp else ())}
    blocks = {name: block for name, block in model.blocks.items() if name in used}
    return model.changed(n_layers=len(LETTERS), layers=(Run(pattern=pattern),), blocks=blocks, deviations=())


def _named(model: ModelSpec, kind: str) -> str:
    """The first block whose only mixer is of a kind (attention: of whichever), or that has none."""
    for name in model.layer_names:
        mixers = model.blocks[name].mixers
        found = "" if not mixers else "mamba2" if mixers[0].kind == "mamba2" else "attention"
        if found == kind:
            return name
    return model.layer_names[0]
