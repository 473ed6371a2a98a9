"""Two of BERT's kind joined, one reading and one writing (transformers 5.23.0 models/encoder_decoder)."""

from __future__ import annotations

from typing import Any

from kvplan.errors import UnsupportedError
from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.encoders import Encoder
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, lowering
from kvplan.importers.hf.stack import weight

#: model type -> the front of its class names; all of them write where `is_decoder` says so, with cross-attention where that is added.
_SIDES = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert", "electra": "Electra"}


def joined(f: Fields, t: Decoder) -> Stack:
    """EncoderDecoderModel: the encoder without a head, the decoder with its own and a cross-attention in every layer."""
    for key in ("encoder", "decoder"):
        if not isinstance(f.data.get(key), dict):  # the class's own default is no model that anybody has
            raise f.fault(key, "missing; an encoder-decoder of two models names both")
    reads, writes = side(f, "encoder", "Model"), side(f, "decoder", "ForCausalLM")
    if reads["hidden_size"] != writes["hidden_size"]:
        raise f.fault("encoder.hidden_size", "an encoder of another width than the decoder is not modelled; declare a spec file")
    if not any(mixer["kind"] == "cross" for mixer in writes["layers"][0]["mixers"]):
        raise f.fault(
            "decoder.add_cross_attention", "is_decoder and add_cross_attention must be true: without them nothing reads the encoder"
        )
    embedding = weight("encoder_embedding", reads["vocab_size"], reads["hidden_size"], role="embedding")
    return {**writes, "encoder": {"layers": reads["layers"], "weights": [*reads["weights"], embedding]}}


def sides() -> tuple[str, ...]:
    """Model types that may read or write here."""
    return tuple(_SIDES)


def side(f: Fields, key: str, suffix: str) -> Stack:
    """One of the two, as the class of that ending has it."""
    from kvplan.importers.hf.architectures import FAMILIES

    part = f.part(key)
    stated: Any = part.file.get("model_type") or part.model_type
    if stated not in _SIDES:
        raise UnsupportedError(
            f"{f.source}: {part.dotted('model_type')}: {str(stated)[:40]!r} in an encoder-decoder of two models is not modelled;"
            f" these are: {', '.join(_SIDES)}"
        )
    row = FAMILIES[stated]
    named = {**part.file, "architectures": [_SIDES[stated] + suffix]}
    view = Fields(named, f.source, model_type=row.model_type or stated, path=part.path, assumed=f.assumed).named(row.names, row.defaults)
    assert isinstance(row.traits, Encoder)
    traits = row.traits._replace(crosses=suffix == "ForCausalLM")
    return lowering(row)(view, traits)
