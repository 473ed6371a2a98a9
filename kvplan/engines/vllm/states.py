"""How vLLM keeps the states of recurrent layers: their formats, which of them prefix caching keeps, the chunk of a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.vllm.before_v1 import MINIMAX, MINIMAX_F32_SINCE
from kvplan.engines.vllm.model import states_stated
from kvplan.engines.vllm.rules import VllmRules, since
from kvplan.engines.vllm.specs import RECURRENCES
from kvplan.forms import Form
from kvplan.spec import ModelSpec
from kvplan.tensors import CacheFormats

#: models/config.py: classes whose recurrent state has a type of its own where no setting and no config names one, from a release on.
#: Before the first row the config's word is not read either: the state is in the compute type.
STATE_DTYPES: dict[str, tuple[tuple[str, str], ...]] = {
    "NemotronHForCausalLM": (("0.13", "f16"), ("0.20", "f32")),
    "NemotronHPuzzleForCausalLM": (("0.16", "f16"), ("0.20", "f32")),
    "NemotronH_Nano_VL_V2": (("0.20", "f32"),),
}
#: models/config.py: classes whose config's word on the type of states is read, from a release on; others keep them in the compute type.
STATE_WORD_READ: dict[str, str] = {
    **dict.fromkeys(("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"), "0.17"),
    **dict.fromkeys(("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"), "0.27"),
    **dict.fromkeys(("Qwen4ExpForConditionalGeneration", "Qwen4ExpForCausalLM"), "0.29"),
    "ColQwen3_5": "0.19",
}
#: Classes whose get_mamba_state_shape_from_config counts no drafts though their layers do -> the release from which on it does.
SIZES_DRAFTS: dict[str, str] = {
    **dict.fromkeys(("BambaForCausalLM", "FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "Zamba2ForCausalLM"), "0.32"),
    **dict.fromkeys(("Lfm2ForCausalLM", "Lfm2MoeForCausalLM", "Lfm2VLForConditionalGeneration"), "never"),
}
#: From which release on drafts widen a short convolution (mamba_utils.py short_conv_state_shape).
SHORT_CONV_DRAFTS = "0.29"
#: From which release on gated delta nets keep their states in --mamba-ssm-cache-dtype (mamba_utils.py gated_delta_net_state_dtype).
NETS_TOLD = "0.17"
#: Formats of states by --mamba-cache-dtype and --mamba-ssm-cache-dtype (layers/mamba/mamba_utils.py MambaStateDtypeCalculator).
STORED: dict[str, str] = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def state_formats(formats: CacheFormats, d: Deployment, options: Options, release: str, rules: VllmRules) -> CacheFormats:
    """The formats with those of states: the compute type unless the class, the checkpoint or an option says otherwise."""
    architecture = d.model.architecture or ""
    asked = options.text("mamba_ssm_cache_dtype", ("auto", *STORED))
    forced = STORED.get(asked or "auto")
    if not since(release, NETS_TOLD) and any(one.kind == "gated_delta_net" for block in d.model.blocks.values() for one in block.mixers):
        forced = None
    if forced is None and rules.cpu_states and options.text("platform", ("cuda", "cpu")) == "cpu":
        forced = "f32"
    if not rules.v1 and architecture in MINIMAX and since(release, MINIMAX_F32_SINCE):
        return formats._replace(state="f32", forced_state="f32")
    told = STORED.get(options.text("mamba_cache_dtype", ("auto", *STORED)) or "auto")
    formats = formats._replace(conv=told or formats.conv)
    rows = STATE_DTYPES.get(architecture)
    own = [dtype for first, dtype in rows or () if since(release, first)]
    if not own and (rows or (architecture and states_stated(d.model) and not _word_read(architecture, release))):
        forced = forced or formats.conv
    return formats._replace(state=own[-1] if own else formats.conv, forced_state=forced)


def sizes_drafts(model: ModelSpec, release: str) -> bool:
    """Whether a class counts what drafts add to a convolution when the blocks are sized."""
    first = SIZES_DRAFTS.get(model.architecture or "")
    return first is None or (first != "never" and since(release, first))


def drafts_kept(form: Form, tokens: int, release: str) -> int:
    """Drafts that a form's states have columns for."""
    return 0 if form == "short-conv" and not since(release, SHORT_CONV_DRAFTS) else tokens


def _word_read(architecture: str, release: str) -> bool:
    first = STATE_WORD_READ.get(architecture)
    return first is not None and since(release, first)


def state_mode(options: Options, rules: VllmRules, caching: bool, states: Sequence[Form]) -> Literal["none", "align", "all"]:
    """Which states are kept. Up to 0.11.0 prefix caching is turned off for such models, and said (models/config.py MambaModelConfig)."""
    asked = options.text("mamba_cache_mode", ("none", "align", "all"))
    if not caching or not states or rules.states_per_request == "one":
        return "none"
    supported = all(form in RECURRENCES and RECURRENCES[form].all_mode for form in states)
    if rules.states_per_request != "mode":
        return "all" if supported else "none"
    if asked == "all" and supported and rules.all_mode != "gone":
        return "all"
    if asked in (None, "none") and supported and rules.all_mode == "default":
        return "all"
    return "align"


def hybrid_by_name(model: ModelSpec, release: str, states: Sequence[Form]) -> tuple[str, ...]:
    """A note of a hybrid's class with attention alone (granite-4.0-micro): config/model.py is_hybrid looked at the class up to 0.11.0."""
    if states or model.architecture != "GraniteMoeHybridForCausalLM" or not (since(release, "0.10.2") and not since(release, "0.11.1")):
        return ()
    return (
        f"vLLM {release} takes the model for a hybrid: its blocks are aligned to states that the config has and no layer, longer than "
        "those counted here, and prefixes are not kept",
    )


def chunk_of(model: ModelSpec, states: Sequence[Form]) -> int:
    """The scan's chunk (config/model.py get_mamba_chunk_size), where no option says it: the config's; 2048 for Mamba-1, which has none.

    256 where the config is not at hand: what most Mamba-2 models were made with.
    """
    if "mamba2" not in states:
        return 2048
    mixers = [mixer for block in model.blocks.values() for mixer in block.mixers]
    found = (getattr(mixer, "chunk", None) for mixer in mixers if mixer.kind == "mamba2")
    return next((chunk for chunk in found if chunk), 256)
