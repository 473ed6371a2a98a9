"""What requests may bring beside text: --limit-mm-per-prompt and --mm-processor-kwargs, as far as the profile run heeds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.kinds import limits
from kvplan.engines.common.options import Options
from kvplan.engines.common.passed import Passed
from kvplan.engines.vllm.rules import since
from kvplan.errors import SpecError
from kvplan.units import GIB, MIB

LIMITS, PROCESSOR, MEDIA_IO = "limit_mm_per_prompt", "mm_processor_kwargs", "media_io_kwargs"
_EXAMPLES = {PROCESSOR: '{"max_pixels": 1003520}', MEDIA_IO: '{"video": {"num_frames": 32}}'}
#: The video backend that decodes on the device (multimodal/video_decoders/pynvvideocodec.py).
ON_DEVICE = "pynvvideocodec"
#: What VLLM_VIDEO_LOADER_BACKEND may name (multimodal/video.py VIDEO_LOADER_REGISTRY, 0.33).
LOADERS = (
    ON_DEVICE, "opencv", "opencv_dynamic", "deepstream", "clef_omni", "embedding_gemma2", "glm46v", "glm5next", "glmga", "molmo2",
    "nemotron_vl", "openpangu", "qwen2_vl", "qwen3_vl",
)  # fmt: skip
#: Keys of --mm-processor-kwargs that leave the largest item as it is.
HARMLESS = frozenset({"min_pixels", "fps", "use_fast", "device", "truncation", "do_rescale", "do_normalize"})
#: Classes that take images and nothing else.
IMAGES_ALONE = frozenset({
    "DotsOCRForCausalLM", "Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration", "LlavaForConditionalGeneration",
    "Mistral3ForConditionalGeneration", "MllamaForConditionalGeneration", "PixtralForConditionalGeneration",
})  # fmt: skip
#: Classes whose encoders may lie whole on every rank, each of which takes a share of the items (`supports_encoder_tp_data`; others keep
#: to their shares of the weights, with a warning) -> the first release.
WHOLE_TOWERS: dict[str, str] = {
    "Llama4ForConditionalGeneration": "0.9.1", "KimiK25ForConditionalGeneration": "0.15",
    **dict.fromkeys((
        "DotsOCRForCausalLM", "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration", "InternVLChatModel",
        "KimiVLForConditionalGeneration", "MiniCPMV", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration", "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration", "Step3VLForConditionalGeneration",
    ), "0.11"),
}  # fmt: skip


class Media(NamedTuple):
    """`limits`: the most items of a request by kind, those that were named. `pixels`: of the largest image."""

    limits: Mapping[str, int] = {}
    pixels: int | None = None

    def without(self, kind: str) -> bool:
        return self.limits.get(kind) == 0


def media(d: Deployment) -> Media:
    """What a question says. Raises SpecError for what vLLM would not read."""
    options = Options(d)
    text, processor = options.text(LIMITS), options.text(PROCESSOR)
    return Media(_limits(text, looked_at=bool(d.model.towers)) if text else {}, pixels(_object(processor)) if processor else None)


def decoded_bytes(d: Deployment, release: str) -> int:
    """What the cache leaves for media that the server's own process decodes (multimodal/gpu_ipc_memory.py, from 0.25 on): of a model
    that takes any, in bytes."""
    kept, decoders = int((Options(d).number("mm_ipc_gpu_memory_gb", zero=True) or 0) * GIB), _decoders(d, release)
    return kept + decoders if d.model.towers and since(release, "0.25") else 0


def _decoders(d: Deployment, release: str) -> int:
    """What videos decoded on the device take for each API server: surfaces of each decoder, and a CUDA context that vLLM measured."""
    options = Options(d)
    text = options.text(MEDIA_IO)
    video = (_object(text, MEDIA_IO) if text else {}).get("video") or {}
    if not isinstance(video, Mapping):
        return 0
    named = options.text("video_loader_backend", LOADERS)
    if ON_DEVICE not in (video.get("video_backend") or named, video.get("backend")):
        return 0
    early = not since(release, "0.27")
    n, sides = video.get("hw_decoders", 2), [video.get(key) for key in ("max_width", "max_height")]
    width, height = (side if isinstance(side, int) and release == "0.33" else 0 for side in sides)
    surfaces = max(128 * MIB, 6 * width * height) * (1 if early else n if isinstance(n, int) and n > 0 else 2)
    return (options.count("api_server_count") or d.dp or 1) * (surfaces + int(1.8 * 1024 * MIB))


def passed(d: Deployment) -> tuple[Passed, ...]:
    """What is said of items and their processor and does not enter the plan."""
    if not d.model.towers or text_alone(d):
        return ()
    options = Options(d)
    found = []
    if (text := options.text(LIMITS)) and _limits(text) and (sized := sorted(smaller(limits(text)))):
        found.append(Passed(LIMITS, text, f"{LIMITS}: {', '.join(sized)} of the item that is profiled", "less"))
    given = _object(processor) if (processor := options.text(PROCESSOR)) else {}
    if keys := unread(given):
        found.append(Passed(PROCESSOR, processor or "", f"{PROCESSOR}: {', '.join(keys)}", "either"))
    if str(given.get("device", "cpu")).startswith(("cuda", "xpu")):
        found.append(Passed(PROCESSOR, processor or "", f"{PROCESSOR}: a processor on {given['device']}", "more"))
    return tuple(found)


def text_alone(d: Deployment) -> bool:
    """Whether a model with towers is served without them: asked for, or all that it takes beside text is limited to none.

    `_mark_tower_model` of models/interfaces.py; before 0.16 in the models themselves.
    """
    limits = media(d).limits
    kinds = ("image",) if d.model.architecture in IMAGES_ALONE else ("image", "video")
    return d.multimodal == "off" or all(limits.get(kind) == 0 for kind in kinds)


def whole_towers(d: Deployment, release: str) -> bool:
    """Whether every rank holds all of the encoders (--mm-encoder-tp-mode data)."""
    first = WHOLE_TOWERS.get(d.model.architecture or "")
    asked = Options(d).text("mm_encoder_tp_mode", ("weights", "data")) == "data"
    return asked and first is not None and since(release, first)


def pixels(given: Mapping[str, Any]) -> int | None:
    """max_pixels, its other name size.longest_edge, or the same for images alone (qwen2_vl.py _complete_mm_processor_size_aliases)."""
    for one in (given, given.get("images_kwargs")):
        if isinstance(one, Mapping):
            size = one.get("size")
            found = one.get("max_pixels") or (size.get("longest_edge") if isinstance(size, Mapping) else None)
            if isinstance(found, int) and 0 < found <= 1 << 32:
                return found
    return None


def unread(given: Mapping[str, Any]) -> list[str]:
    """Keys of --mm-processor-kwargs that may change the largest item, beside `pixels`."""
    size = given.get("size")
    read = {"max_pixels"} | ({"size"} if isinstance(size, Mapping) and set(size) <= {"longest_edge", "shortest_edge"} else set())
    images = given.get("images_kwargs")
    inner = unread(images) if isinstance(images, Mapping) else []
    return [key for key in given if key not in HARMLESS | read and not (key == "images_kwargs" and not inner)]


def smaller(given: Mapping[str, Any]) -> set[str]:
    """What limits say of the item that is profiled, beside how many of it there are (config/multimodal.py; from 0.11.1 on)."""
    return {key for one in given.values() if isinstance(one, Mapping) for key, n in one.items() if key != "count" and n}


def _limits(text: str, *, looked_at: bool = True) -> dict[str, int]:
    """Items by kind; of a text model the numbers are not looked at. Raises SpecError."""
    found = {}
    try:
        given = limits(text)
    except ValueError:
        given = None
    for kind, one in given.items() if isinstance(given, dict) and given else [("", None)]:
        n = one.get("count", 999) if isinstance(one, Mapping) else one
        if not looked_at and kind:
            continue
        if not str(n).isdecimal() or len(str(n)) > 9:
            raise SpecError("engine_option", [(LIMITS, f'{text[:60]!r}: write it as vLLM takes it, such as {{"image": 2, "video": 0}}')])
        found[kind] = int(str(n))
    return found


def _object(text: str, key: str = PROCESSOR) -> Mapping[str, Any]:
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise SpecError("engine_option", [(key, f"{text[:60]!r}: write it as vLLM takes it, such as {_EXAMPLES[key]}")])
    return given
