"""What the classes of an encoder put on top of it, and their names: `BertForSequenceClassification` = Bert + a head.

Heads as transformers 5.23.0 builds them (models/*/modeling_*.py). Labels: `id2label` where the config has it, else `num_labels`, else two.
"""

from __future__ import annotations

import re
from typing import Any

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.stack import weight

Weight = dict[str, Any]
Heads = dict[str, tuple[str, ...]]

#: Class suffix -> parts of its head. `dense`: hidden x hidden; `mlm`: the masked-language head; `labels`, `one`, `two`: a classifier.
_PLAIN: Heads = {
    "Model": (), "ForMaskedLM": ("mlm",), "ForTokenClassification": ("labels",), "ForQuestionAnswering": ("labels",),
    "ForSequenceClassification": ("dense", "labels"), "ForMultipleChoice": ("dense", "one"), "ForCausalLM": ("mlm",),
}  # fmt: skip
_ROBERTA: Heads = _PLAIN | {"Model": ("dense",)}
_BERT: Heads = _ROBERTA | {
    "ForPreTraining": ("dense", "mlm", "two"), "ForNextSentencePrediction": ("dense", "two"), "LMHeadModel": ("mlm",),
}  # fmt: skip
HEADS: dict[str, Heads] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "albert": _ROBERTA | {"ForPreTraining": ("dense", "mlm", "labels")},
    "fnet": {name: ("dense", *(part for part in parts if part != "dense")) for name, parts in _BERT.items() if "LM" not in name[-7:]}
    | {"ForMaskedLM": ("dense", "mlm")},
    "roc_bert": {name: parts for name, parts in _BERT.items() if name not in ("ForPreTraining", "ForNextSentencePrediction")},
    "plain": _PLAIN,
    "big_bird": {  # the pooler is there in every class
        **{name: ("dense", *(part for part in parts if part != "dense")) for name, parts in _BERT.items() if "Question" not in name},
        "ForSequenceClassification": ("dense", "dense", "labels")},
    "generation": {"": (), "Decoder": (), "Encoder": ()},
    "electra": _PLAIN | {"ForPreTraining": ("dense", "one")},
    "roformer": _PLAIN | {"ForMultipleChoice": ("one",)},
    "modernbert": {
        "Model": (), "ForMaskedLM": ("norm_head", "mlm_bias"), **dict.fromkeys(
            ("ForTokenClassification", "ForQuestionAnswering", "ForSequenceClassification"), ("norm_head", "labels")),
        "ForMultipleChoice": ("norm_head", "one")},
    "pooled": {name: ("dense", *(part for part in parts if part != "dense")) for name, parts in _PLAIN.items()},
    "tapas": {"Model": ("dense",), "ForMaskedLM": ("mlm",), "ForSequenceClassification": ("dense", "labels")},
    "masked": {"Model": (), "ForMaskedLM": ("mlm",)},
    "bare": {"Model": (), "ForMaskedLM": ()},
    "xlm": {"Model": (), "LMHeadModel": ("vocab_bias",)},
    "vocab_bias": {"Model": (), "ForMaskedLM": ("vocab_bias",)},
    "eurobert": _PLAIN | {"ForMaskedLM": ("mlm_bias",)},
}  # fmt: skip
_SUFFIX = re.compile(r"(Model|LMHeadModel|For[A-Z][A-Za-z]*|(?<=BertGeneration)(?:En|De)coder)$")


def split(name: str) -> tuple[str, str]:
    """A class name as its family's prefix and the suffix that says its head."""
    found = _SUFFIX.search(name)
    suffix = "LMHeadModel" if name.endswith("LMHeadModel") else found[1] if found else ""
    return name.removesuffix(suffix), suffix


def labels(f: Fields) -> int:
    """How many classes a classifier tells apart."""
    named = f.data.get("id2label")
    return len(named) if isinstance(named, dict) else f.dim_or("num_labels", 2)


def norm(name: str, width: int, *, bias: bool = True) -> list[Weight]:
    return [weight(name, width, role="norm"), *([weight(name + "_bias", width, role="norm")] if bias else [])]


def _classifier(n: int, hidden: int, *, biased: bool = True) -> list[Weight]:
    return [weight("classifier", n, hidden), *([weight("classifier_bias", n)] if biased else [])] if n else []


def head(f: Fields, parts: tuple[str, ...], hidden: int, width: int) -> list[Weight]:
    """The tensors of a head; `width` is that of the embedding, on which the masked-language head ends."""
    made: list[Weight] = []
    for part in parts:
        if part == "dense":
            size = f.dim_or("pooler_hidden_size", hidden)
            made += [weight("head_dense", size, size), weight("head_dense_bias", size)]
        elif part == "mlm":
            made += [weight("mlm_dense", width, hidden), weight("mlm_dense_bias", width), *norm("mlm_norm", width)]
            made += [weight("mlm_bias", f.dim("vocab_size"))]
        elif part == "vocab_bias":
            made.append(weight("head_bias", f.dim("vocab_size")))
        elif part == "mlm_bias":
            made += [weight("mlm_bias", f.dim("vocab_size"))] if f.flag("decoder_bias") else []
        elif part == "norm_head":
            made += [weight("head_dense", hidden, hidden), *([weight("head_dense_bias", hidden)] if f.flag("classifier_bias") else [])]
            made += norm("head_norm", hidden, bias=f.flag("norm_bias"))
        else:
            made += _classifier({"one": 1, "two": 2, "labels": labels(f)}[part], hidden)
    return made


#: Encoder-decoders, which put a dense layer before their classifier.
_SEQ2SEQ = ("Bart", "MBart", "Mvp", "PLBart", "T5For", "MT5For", "UMT5For")


def instead(f: Fields, architecture: str, hidden: int) -> list[Weight]:
    """What a decoder's class has in place of a language-model head; nothing for `XModel`.

    transformers 5.23.0 modeling_layers.py (Generic*); reward models: vLLM 0.33 models/qwen2_rm.py, internlm2.py.
    """
    suffix = split(architecture)[1]
    if suffix == "ForSequenceClassification" and architecture.startswith(_SEQ2SEQ):
        return [weight("head_dense", hidden, hidden), weight("head_dense_bias", hidden), *_classifier(labels(f), hidden)]
    if suffix == "ForSequenceClassification" and architecture.startswith("ModernBertDecoder"):
        return _classifier(labels(f), hidden, biased=f.flag("classifier_bias"))
    if suffix == "ForSequenceClassification":
        return [weight("score", labels(f), hidden)] if labels(f) else []
    if suffix == "ForTokenClassification":
        return _classifier(labels(f), hidden, biased=f.opt("token_classification_bias") is not False)
    if suffix == "ForQuestionAnswering":
        return _classifier(2, hidden)
    if suffix in ("ForRewardModel", "ForProcessRewardModel"):
        if architecture.startswith("InternLM2"):
            return [weight("v_head", 1, hidden)]
        return [weight("head_dense", hidden, hidden), weight("head_dense_bias", hidden),
                *_classifier(1 if suffix == "ForRewardModel" else 2, hidden)]  # fmt: skip
    return []
