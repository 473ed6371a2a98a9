"""How many tokens and sequences a step of vLLM takes where nobody says: by release, device and model."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common.options import Options
from kvplan.engines.vllm import for_v0
from kvplan.engines.vllm.exchange import SMALL, small_steps
from kvplan.engines.vllm.generation import rules_of
from kvplan.engines.vllm.model import encodes, least_batch, pools
from kvplan.engines.vllm.rules import VllmRules
from kvplan.units import GIB

#: What makes one vector of a decoder's prompt only when it is there whole.
POOLED_WHOLE = ("MEAN", "CLS", "STEP")


def batch_defaults(d: Deployment, rules: VllmRules, options: Options, max_model_len: int) -> tuple[int, int]:
    """max_num_batched_tokens and max_num_seqs where not chosen: engine/arg_utils.py get_batch_defaults and what follows it."""
    offline = options.text("usage", ("server", "offline")) == "offline"
    world = (d.tp or 1) * (d.pp or 1)
    if options.text("platform", ("cuda", "cpu")) == "cpu":
        tokens, seqs = (4096 if offline else 2048) * world, (256 if offline else 128) * world
    else:
        tokens, seqs = _device_tier(d.device, rules)
        tokens = {2048: 8192, 8192: 16384, 16384: 16384}[tokens] if offline and rules.v1 else tokens
    if not rules.v1:
        tokens = _v0_batch_tokens(d, rules, options, max_model_len)
    if small_steps(options, d, rules_of(d)[0]):
        tokens = SMALL
    if options.text("performance_mode", ("balanced", "interactivity", "throughput")) == "throughput":
        tokens, seqs = tokens * 2, seqs * 2
    if rules.v1 and not goes_in_pieces(d, rules, options, max_model_len):
        tokens = max(tokens, max_model_len) if rules.cuts_batch == "always" else max_model_len
    tokens = max(tokens, least_batch(d, rules, max_model_len))
    cut = rules.cuts_batch == "always" or (rules.cuts_batch == "V0" and not rules.v1)
    chosen = d.max_num_batched_tokens or (min(tokens, (d.max_num_seqs or seqs) * max_model_len) if cut else tokens)
    return chosen, min(seqs, chosen) if rules.cuts_seqs else seqs


def goes_in_pieces(d: Deployment, rules: VllmRules, options: Options, max_model_len: int) -> bool:
    """Whether prompts go in pieces: as asked; V1 always, but of encoders; V0 where a model is long and nothing stands against it.

    V1's poolers of decoders take the last token, as they do by default, and so do their prompts (config/model.py
    is_chunked_prefill_supported), unless the mean or the first one is asked for: files beside the config may do that, too.
    """
    always = rules.v1 and rules.cuts_batch != "always" and d.model.lm_head and not pools(d.model)  # whatever is asked
    if options.text("enable_chunked_prefill") is not None and not always:
        return options.flag("enable_chunked_prefill")
    if rules.v1:
        whole = rules.cuts_batch == "always" and options.text("pooling_type") in POOLED_WHOLE
        return not pools(d.model) and (d.model.lm_head or not (whole or encodes(d.model, rules_of(d)[0])))
    whole = bool(d.model.towers) or not d.model.lm_head or d.speculative not in (None, "off") or d.lora not in (None, "off")
    whole = whole or (d.device is not None and d.device.vendor == "amd" and rules.whole_on_rocm)
    return bool(rules.long_steps) and max_model_len > 32768 and not whole


def _v0_batch_tokens(d: Deployment, rules: VllmRules, options: Options, max_model_len: int) -> int:
    """V0 prefills whole prompts, in chunks only where the model is longer than 32k and nothing of it stands against that.

    vLLM 0.5.3 to 0.8.5 engine/arg_utils.py create_engine_config (0.8: _set_default_args_v0), config.py SchedulerConfig.
    """
    if goes_in_pieces(d, rules, options, max_model_len):
        return max(max_model_len, 2048) if for_v0.multi_step(options.text(for_v0.OPTION)) else rules.long_steps or 512
    floor = 5120 if d.model.towers else 2048 if d.model.lm_head else 32768
    return max(max_model_len, floor)


def _device_tier(device: Device | None, rules: VllmRules) -> tuple[int, int]:
    """Batch tokens of a server and sequences, by the device's memory and name."""
    if not rules.v1:
        return 2048, 256
    memory, name = (device.memory_bytes, f"{device.id} {device.name}".lower()) if device else (0, "")
    if rules.big_device == "Hopper":
        hopper = any(known in name for known in ("h100", "h200"))
        return 8192 if hopper else 2048, 1024 if hopper or rules.many_everywhere else 256
    if rules.big_device == "160" and memory >= 160 * GIB:
        return 16384, 1024
    spared = "a100" in name and rules.big_device != "70"
    spared = spared or "gb10" in name
    return (8192, 1024) if memory >= 70 * GIB and not spared else (2048, 256)
