"""What public starts of vLLM ran out of and nothing here sizes: such a start is too close to call, whatever room is left."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.vllm.by_transformers import of_two_stacks
from kvplan.engines.vllm.encoders import TOWERS, tower_of
from kvplan.engines.vllm.media import media, text_alone
from kvplan.engines.vllm.registered import unlisted
from kvplan.engines.vllm.rings import first_release
from kvplan.engines.vllm.rules import VllmRules, since
from kvplan.tensors import Lowered, routed

#: Classes whose first release, 0.11, profiles videos in a way that was not read (models/qwen3_vl.py): two of three public starts of the
#: 235B ran out of memory (QwenLM/Qwen3-VL issues 1684, 1493), with 8 and 30 GiB to spare by images alone.
VIDEOS = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")

#: From which release on blocks are aligned where a format leaves layers out (platforms/interface.py _align_heterogeneous_kv_block_size).
APART_SINCE = "0.25"


def undecided(d: Deployment, model: Lowered, rules: VllmRules, release: str, *, graphs: bool) -> tuple[str, ...]:
    """Reasons, in words that finish `too close to call at most:`. `graphs`: CUDA graphs are captured."""
    found = [*unlisted(d.model), *of_two_stacks(d.model, release)]
    if (Options(d).count("prefill_context_parallel_size") or 1) > 1:
        found.append("ranks that share a prompt are GPUs beside these, and what they take is not modelled (prefill_context_parallel_size)")
    if str(d.kv_dtype).startswith("turboquant") and (d.pp or 1) > 1 and d.block_size is None and since(release, APART_SINCE):
        found.append("TurboQuant's ranks each align their blocks by their first layer, and what they then hold together is not modelled")
    if first := first_release(d.model, release):  # a build refuses what the release of its rules takes (vllm-project/recipes#906)
        found.append(f"what builds before {first} keep for {d.model.architecture} differs, and is counted by the rules of {first}")
    if d.device is None or d.kv_memory is not None:
        return tuple(found)
    if d.model.architecture in VIDEOS and not (text_alone(d) or media(d).without("video")) and release.startswith("0.11"):
        found.append("what the profile run of 0.11 takes for videos is not modelled; limit_mm_per_prompt video=0 leaves it out")
    if not rules.v1 and tower_of(d) is not None and d.model.architecture not in TOWERS:
        found.append(f"what V0's profile run takes for the images of {d.model.architecture} is not modelled")
    if Options(d).flag("enable_sleep_mode") and routed(model.layers):
        # vllm#43951: 71 GiB of 182 in private pools as FlashInfer's experts are laid out (0.20.2 starts); vllm#34877: gpt-oss-120b
        found.append("what sleep mode's own pools keep of experts that are laid out anew is not modelled")
    ranks = (d.tp or 1) * (d.pp or 1)
    # Of five public starts of such on V1 of 0.8, compiled and captured, three ran out with 5 to 16 GiB to spare: vllm#18446 in the profile
    # run (its V0 has 11 GiB of cache there), vllm#17469 (eager execution starts) and QwenLM/Qwen3#1387, where 6 GiB outside torch came with
    # the capture.
    if graphs and rules.v1 and release.startswith("0.8") and ranks > 1 and routed(model.layers):
        found.append(
            "what experts over several ranks take in the first releases of V1 is not modelled; enforce_eager or VLLM_USE_V1=0 leaves it out"
        )
    # Two public starts ran out in or after the capture with 15 and 5 GiB beside the fraction: Kimi-K3 over 16 GB200 at graph 57 of 83
    # (InferenceX) and Kimi-K2.6 over 8 RTX PRO 6000 at 0.94; no log says what graphs took there.
    if graphs and (d.dcp or 1) > 1:
        found.append("what CUDA graphs hold of the exchanges between ranks that share a context (dcp) is not modelled")
    return tuple(found)
