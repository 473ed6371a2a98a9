"""MiniCPM-V and MiniCPM-o: one architecture name for several text models, told apart by `version` (vLLM 0.32 minicpmv.py, minicpmo.py)."""

from __future__ import annotations

from typing import Any

from kvplan.errors import UnsupportedError
from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear, siglip_plain

VISION = {"2.0": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
OMNI = {"2.6": "qwen2", "4.5": "qwen3"}


def lowered(f: Fields, t: Any) -> Stack:
    """The text model of that version, its settings on top of the config; `t` is one of the tables above."""
    from kvplan.importers.hf.architectures import FAMILIES
    from kvplan.importers.hf.rows import lowering

    stated = f.opt("version")
    if stated is None and t is VISION:
        stated = "2.0" if f.dim("hidden_size") == 2304 and f.opt("query_num") == 64 else "2.5"
    family = t.get(str(stated))
    if family is None:
        raise UnsupportedError(f"{f.source}: {f.dotted('version')}: {str(stated)[:40]!r} is none of {', '.join(t)}; declare a spec file")
    row = FAMILIES[family]
    text = f.of_class(row.model_type or family).named(row.names, row.defaults)
    stack = lowering(row)(text, row.traits)
    described = f.data.get("vision_config")
    if t is VISION and str(stated) in _SIGLIP and isinstance(described, dict) and "hidden_size" in described:
        return {**stack, "towers": _towers(f, stack["hidden_size"]), "notes": [f"version {stated}: a {family} text model"]}
    return {
        **stack,
        "notes": [f"version {stated}: a {family} text model"],
        "uncounted": ["the towers, the resampler and speech parts are not counted: no formula"],
    }


#: Versions whose tower is SigLIP, or Idefics 2's of the same matrices (2.5; 2.0's is another), joined by one perceiver layer. So counted
#: MiniCPM-Llama3-V-2_5 has the Hub's 8,537,092,336 parameters to the last one.
_SIGLIP = ("2.5", "2.6", "4.0", "4.5")


def _towers(f: Fields, hidden: int) -> list[dict[str, Any]]:
    """SigLIP as the file describes it, its last layer left out where the file says so, and a resampler of `query_num` queries.

    vLLM 0.33 models/minicpmv.py (Resampler2_5, Resampler4_5: BaseResampler): attention and norms in the text's width.
    """
    part = f.part("vision_config").of_class("siglip_vision_model")  # 2.6 writes siglip, the class of both towers
    if f.flag("drop_vision_last_layer"):
        part = Fields({**part.data, "num_hidden_layers": part.dim("num_hidden_layers") - 1}, f.source, model_type="siglip_vision_model",
                      path=part.path, assumed=f.assumed)  # fmt: skip
    width = part.dim("hidden_size")
    attention = linear(3 * hidden, hidden) + linear(hidden, hidden)
    joined = f.dim("query_num") * hidden + hidden * width + attention + 3 * 2 * hidden + hidden * hidden
    return [{"name": "vision_tower", "parameters": siglip_plain(part)}, {"name": "vision_projector", "parameters": joined}]
