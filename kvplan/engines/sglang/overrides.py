"""--json-model-override-args: the model with what of its config is replaced.

configs/model_config.py ModelConfig (the keys are put into the config as it stands, not into the text model inside it) and
hf_transformers_utils.py get_context_length, 0.4.6 to 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common import replaced
from kvplan.engines.common.options import Options
from kvplan.engines.common.passed import Passed
from kvplan.engines.common.releases import release
from kvplan.spec import Block, ModelSpec, mixer_like

OPTION = "json_model_override_args"
LENGTH, ROPE, LAYERS = "max_position_embeddings", ("rope_scaling", "rope_parameters"), "num_hidden_layers"
KV_HEADS = "num_key_value_heads"
#: Kinds of layers that are listed in another key, too, whose length would not agree.
_LISTED = ("mamba2", "short_conv", "compressed")
#: ... save in these, of which the first layers are taken, though Nemotron-H's are counted by their list from one release on
#: (configs/nemotron_h.py NemotronHConfig.num_hidden_layers).
_FIRST, _BY_LIST = ("DeepseekV4ForCausalLM", "NemotronH"), (0, 5, 10)
#: Classes that see whose keys are those of the text model, in releases from one on and before another: hf_transformers_utils.py
#: get_hf_text_config; Qwen's two with transformers before 4.52 and of 4.57, whose config hands keys on (configuration_qwen2_vl.py).
_QWEN = (((0, 0, 0), (0, 4, 7)), ((0, 5, 3), (0, 5, 10)))
_FLAT = {
    "InternVLChatModel": (((0, 0, 0), (0, 5, 4)),), "Qwen2VLForConditionalGeneration": _QWEN, "Qwen2_5_VLForConditionalGeneration": _QWEN,
}  # fmt: skip
#: Kinds that say how many KV heads there are.
_BY_KIND = ("mha", "mqa")
#: Kinds that have states beside layers of K and V.
_STATES = ("mamba1", "mamba2", "short_conv", "gated_delta_net", "kda")


class Overridden(NamedTuple):
    """The model as served, keys that were read, keys whose effect is not modelled."""

    model: ModelSpec
    read: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def overridden(d: Deployment, version: str) -> tuple[Deployment, tuple[str, ...], tuple[Passed, ...]]:
    """The question with the model that is served, notes, and keys that no line follows. Raises SpecError for what is no object."""
    keys = replaced.given(Options(d), OPTION)
    if not keys:
        return d, (), ()
    found = apply(d.model, keys, version)
    drafted = apply(d.drafter, keys, version) if d.drafter else None  # ModelConfig.from_server_args, of a draft's path too
    unread = (*found.unread, *(key for key in (drafted.unread if drafted else ()) if key not in found.unread))
    notes = (f"{OPTION}: {', '.join(found.read)} of the model's config replaced",) if found.read else ()
    said = Options(d).text(OPTION) or ""
    left = (Passed(OPTION, said, f"{OPTION}: {', '.join(unread)}", "either"),) if unread else ()
    return replace(d, model=found.model, drafter=drafted and drafted.model), notes, left


def apply(model: ModelSpec, keys: Mapping[str, Any], version: str) -> Overridden:
    """What a release makes of the keys; a model that sees has its text model's config inside another, save for _FLAT."""
    flat = any(since <= release(version) < before for since, before in _FLAT.get(model.architecture or "", ()))
    if model.encoder or ((model.towers or model.text_class) and not flat):
        return Overridden(model, unread=tuple(keys))
    read, unread = list[str](), list[str]()
    for key, value in keys.items():
        if key in (LENGTH, *ROPE):
            continue
        changed = _layers(model, value, version) if key == LAYERS else _kv_heads(model, value) if key == KV_HEADS else None
        model = changed or model
        (read if changed else unread).append(key)
    asked = [key for key in (LENGTH, *ROPE) if key in keys]
    if asked:
        length = _length(model, keys)
        model = model.changed(max_context=length, stated_context=None) if length else model
        (read if length else unread).extend(asked)
    return Overridden(model, tuple(read), tuple(unread))


def _length(model: ModelSpec, keys: Mapping[str, Any]) -> int | None:
    """The length that a release derives: the config's, times a factor of RoPE's that names no length before it."""
    base = keys.get(LENGTH, model.stated_context or model.max_context)
    scaling = next((keys[key] for key in ROPE if key in keys), None)
    if isinstance(base, bool) or not isinstance(base, int) or base < 1 or not (scaling is None or isinstance(scaling, dict)):
        return None
    scaling = scaling or {}
    factor = scaling.get("factor", 1)
    if "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3":
        factor = 1
    return int(base * factor) if isinstance(factor, int | float) and 0 < factor < 1e4 else None


def _layers(model: ModelSpec, value: Any, version: str) -> ModelSpec | None:
    """The first layers, or more where all are alike, where the class counts them by that key alone; Nemotron-H's by its list, later."""
    named = model.architecture or ""
    listed = any(mixer.kind in _LISTED for block in model.blocks.values() for mixer in block.mixers) and not named.startswith(_FIRST)
    if listed or isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return None
    return model if named.startswith("NemotronH") and release(version) >= _BY_LIST else replaced.of_layers(model, value)


def _kv_heads(model: ModelSpec, value: Any) -> ModelSpec | None:
    """As many KV heads in every layer, where all have as many: pools are made by that key (model_config.py get_total_num_kv_heads)."""
    mixers: list[Any] = [mixer for block in model.blocks.values() for mixer in block.mixers if mixer.kind not in _STATES]
    alike = {mixer.n_kv for mixer in mixers if hasattr(mixer, "n_kv")}
    if len(alike) != 1 or isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return None
    if not all(mixer.kind in _BY_KIND or hasattr(mixer, "kv_heads") for mixer in mixers):
        return None
    if any(mixer.heads % value for mixer in mixers):
        return None

    def dealt(block: Block) -> Block:
        made = (m if m.kind in _STATES else mixer_like(m, "gqa" if m.kind in _BY_KIND else m.kind, kv_heads=value) for m in block.mixers)
        return block.changed(mixers=tuple(made))

    return model.changed(blocks={name: dealt(block) for name, block in model.blocks.items()})
