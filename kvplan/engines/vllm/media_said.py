"""What a command says of what requests may bring beside text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kvplan.engines.common.arguments import moved
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.engines.vllm.media import LIMITS, MEDIA_IO, PROCESSOR, smaller, unread


def media_said(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    """What requests may bring beside text; images and videos both limited to none are the same as no towers."""
    limit, processor, text_only = given.get("@limit_mm"), given.get("@processor"), given.get("@text_only")
    if limit and not isinstance(limit.value, dict):
        limit = None
    if text_only and text_only.value:
        question["multimodal"] = moved(text_only, "off")
    elif limit and limit.value:
        none = all(str(limit.value.get(kind)) == "0" for kind in ("image", "video"))
        question["multimodal" if none else f"engine_option.{LIMITS}"] = moved(limit, "off" if none else json.dumps(limit.value))
    if (one := given.get("@tower_dp")) and one.value:
        question.setdefault("engine_option.mm_encoder_tp_mode", moved(one, "data"))
    if (one := given.get("@no_mm_cache")) and one.value:
        question.setdefault("engine_option.mm_processor_cache_gb", moved(one, 0))
    findings = list[Finding]()
    if limit and (sized := sorted(smaller(limit.value))):
        message = f"{limit.spelled}: {', '.join(sized)} make the item that is profiled smaller, which is not modelled"
        findings.append(warn("not-modelled-less", message, limit.place))
    if (one := given.get("@media_io")) and isinstance(one.value, dict):
        if odd := [kind for kind, inner in one.value.items() if not isinstance(inner, dict)]:
            findings.append(refuse(f"{one.spelled}: {odd[0][:40]} is no object; the engine stops", one.place))
        elif one.value.get("video"):
            question[f"engine_option.{MEDIA_IO}"] = moved(one, json.dumps(one.value))
    if processor is None or not isinstance(processor.value, dict) or not processor.value:
        return findings
    question[f"engine_option.{PROCESSOR}"] = moved(processor, json.dumps(processor.value))
    device = str(processor.value.get("device", "cpu"))
    if device.startswith(("cuda", "xpu")):
        message = f"{processor.spelled}: device {device} takes memory of it in the server's own process, which is not modelled"
        findings.append(warn("not-modelled-more", message, processor.place))
    if keys := ", ".join(unread(processor.value)):
        message = f"{processor.spelled}: {keys} may change the largest item, which is not modelled"
        findings.append(warn("not-modelled-either", message, processor.place))
    return findings
