"""What public starts of vLLM ran out of and nothing here sizes: such a start is too close to call, whatever room is left."""

from __future__ import annotations

from kvplan.deployment import Deployment

#: Classes whose first release, 0.11, profiles videos in a way that was not read (models/qwen3_vl.py): two of three public starts of the
#: 235B ran out of memory (QwenLM/Qwen3-VL issues 1684, 1493), with 8 and 30 GiB to spare by images alone.
VIDEOS = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")


def undecided(d: Deployment, release: str) -> tuple[str, ...]:
    """Reasons, in words that finish `too close to call at most:`."""
    if d.device is None or d.kv_memory is not None or d.model.architecture not in VIDEOS or d.multimodal == "off":
        return ()
    if not release.startswith("0.11"):
        return ()
    return ("what the profile run of 0.11 takes for the largest video is not modelled; multimodal off leaves it out",)
