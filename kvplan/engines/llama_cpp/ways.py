"""What builds of llama.cpp draft by, and Ollama's releases.

Looked at: the option tables and speculative types in xllamacpp's packages, which have the server's code in them: 0.1.16 to 0.2.14 (b5353
to b8352) and 2026.4.8672 to 2026.10.11549. A method is taken to come with the build after the last that lacks it: n-grams after b7827
(#18471), MTP after b9093, EAGLE-3 after b9538 (a stub without the model's graph before), DFlash after b9713, DSpark after b10068.
The server's draft models are #10455 of 25 November 2024, placed by that date; examples had them before (#2926).
"""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words

SERVER, OTHERS = "llama-server", "its other programs"
_ARGUMENTS, _SPECULATIVE = "common/arg.cpp", "common/speculative.cpp"

DRAFTING = Drafting(
    ways=(
        Way("draft_model", "b4160", of=SERVER),
        Way("draft_model", of=OTHERS),
        Way("ngram", "b7828"),
        Way("mtp", "b9094"),
        Way("eagle3", "b9539"),
        Way("dflash", "b9714"),
        Way("dspark", "b10069"),
        Way("lookahead prompt_lookup", of=OTHERS),
    ),
    words=(
        Words("error: invalid argument: --model-draft", _ARGUMENTS, "draft_model", before="b4160"),
        Words("error: invalid argument: --spec-type", _ARGUMENTS, before="b7828"),
        Words("unknown speculative decoding type without draft model", _ARGUMENTS, since="b7828", before="b9094"),
        Words("unknown model architecture: 'eagle3'", "src/llama-model.cpp", "eagle3", "b9094", "b9539"),
        Words("unknown speculative type: {method}", _SPECULATIVE, since="b9094"),
    ),
    spelled=(("mtp", "draft-mtp"), ("eagle3", "draft-eagle3"), ("dflash", "draft-dflash"), ("dspark", "draft-dspark")),
    builds=True,
)
#: From 0.30.0 on every model is run by llama-server, of b9452 or later.
OF_OLLAMA = Drafting((Way("mtp", "0.30"),))
