"""A real Hugging Face model from a config, random weights: prefill, decode, and what its cache object, its weights and its peaks take."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from kvplan.errors import UnsupportedError
from kvplan.validate.measure import Event, Meter, OutOfMemory, grown, is_out_of_memory


def model_job(m: Meter, config: dict[str, Any], dtype: str, batch: int, prefill: int, decode: int, encoder: int) -> Iterator[Event]:
    """Events: `weights`, `cache` (every tensor of the cache object), `peaks`; or `out of memory`.

    dtype    torch's name of the compute type
    encoder  tokens of the encoder side of an encoder-decoder model
    """
    start = m.read()
    try:
        model = build(config, getattr(torch, dtype), m.device)
        loaded = m.read()
        import transformers

        yield {"event": "weights", **weights(model), "measured": grown(start, loaded), "transformers": transformers.__version__}
        _forget_peak(m)
        cache = forward(model, batch, prefill, encoder, None)
        prefilled, after_prefill = _peak(m, loaded), grown(loaded, m.read())
        kept = sum(t["storage"] for t in tensors(cache))
        _forget_peak(m)
        for _ in range(decode):
            cache = forward(model, batch, 1, encoder, cache)
        found = tensors(cache)
        yield {"event": "cache", "class": type(cache).__name__, "tensors": found, "measured": grown(loaded, m.read())}
        yield {
            "event": "peaks",
            "prefill": prefilled,
            "decode": _peak(m, loaded),
            "after_prefill": after_prefill,
            "storage_after_prefill": kept,
        }
    except Exception as error:
        if not (is_out_of_memory(error) or isinstance(error, OutOfMemory)):
            raise
        held = next((n for n in grown(start, m.read()).values() if n is not None), 0)
        yield {"event": "out of memory", "case": 0, "held": held, "message": str(error).split("\n")[0]}


def build(config: dict[str, Any], dtype: torch.dtype, device: str) -> Any:
    """The model class that a config names, with random weights. Raises UnsupportedError for one that transformers does not have."""
    import transformers

    logs: Any = transformers.logging
    logs.set_verbosity_error()
    names = config.get("architectures") or [""]
    kind = getattr(transformers, names[0], None)
    if kind is None:
        raise UnsupportedError(f"transformers {transformers.__version__} has no class {names[0] or '(the config names none)'}")
    known = {key: value for key, value in config.items() if key not in ("model_type", "quantization_config", "transformers_version")}
    settings = transformers.AutoConfig.for_model(config["model_type"], **known)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device), _no_initialisation():
            model = kind._from_config(settings) if hasattr(kind, "_from_config") else kind(settings)
    finally:
        torch.set_default_dtype(before)
    model = model.to(dtype).eval()
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    _fill(model)
    return model


def _fill(model: Any) -> None:
    """Random weights, the same million numbers over and over: writing is what takes memory, and drawing takes minutes."""
    numbers = torch.randn(1 << 20, generator=torch.Generator().manual_seed(0)) * 0.02
    with torch.no_grad():
        for parameter in model.parameters():
            flat, some = parameter.view(-1), numbers.to(parameter)
            whole = flat.numel() // len(some)
            flat[: whole * len(some)].view(whole, len(some)).copy_(some)
            flat[whole * len(some) :].copy_(some[: flat.numel() - whole * len(some)])


def _no_initialisation() -> Any:
    """The context in which transformers leaves new weights as they are; they are all written afterwards."""
    from contextlib import nullcontext

    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        return nullcontext()
    return no_init_weights()


def weights(model: Any) -> Event:
    """Parameters and buffers by storage, so that tied tensors count once. Buffers that no checkpoint holds are apart."""
    kept = set(model.state_dict(keep_vars=True))
    storages: dict[int, tuple[int, str]] = {}
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        part = "parameters" if isinstance(tensor, torch.nn.Parameter) else "buffers" if name in kept else "computed"
        storage = tensor.untyped_storage()
        storages.setdefault(storage.data_ptr(), (storage.nbytes(), part))
    sums = dict.fromkeys(("parameters", "buffers", "computed"), 0)
    for n_bytes, part in storages.values():
        sums[part] += n_bytes
    return {"bytes": sums, "n_parameters": sum(p.numel() for p in model.parameters())}


def forward(model: Any, batch: int, tokens: int, encoder: int, cache: Any) -> Any:
    """One pass over `tokens` random tokens that fills the cache; returns the cache."""
    text = model.config.get_text_config(decoder=True)
    device = next(model.parameters()).device
    ids = torch.randint(0, text.vocab_size, (batch, tokens), device=device)
    given: dict[str, Any] = {"use_cache": True, "past_key_values": cache}
    if model.config.is_encoder_decoder:
        given |= {"decoder_input_ids": ids, "input_ids": torch.randint(0, text.vocab_size, (batch, encoder), device=device)}
    else:
        given["input_ids"] = ids
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        given["logits_to_keep"] = 1
    with torch.no_grad():
        out = model(**given)
    found = out.past_key_values if getattr(out, "past_key_values", None) is not None else getattr(out, "cache_params", None)
    if found is None:
        raise UnsupportedError(f"{type(model).__name__} gives back no cache")
    return found


def tensors(cache: Any) -> list[Event]:
    """Every tensor a cache object keeps: name, shape, bytes of its elements, bytes of the storage behind it (a view keeps all of it)."""
    found: dict[int, Event] = {}
    storages: set[int] = set()
    seen: set[int] = set()

    def walk(value: Any, path: str) -> None:
        if id(value) in seen or value is None or isinstance(value, int | float | str | bool | torch.dtype | torch.device):
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.dim() > 1 and value.numel():
                storage = value.untyped_storage()
                fresh = storage.data_ptr() not in storages
                storages.add(storage.data_ptr())
                found[id(value)] = {
                    "name": path,
                    "shape": list(value.shape),
                    "dtype": str(value.dtype).removeprefix("torch."),
                    "bytes": value.numel() * value.element_size(),
                    "storage": storage.nbytes() if fresh else 0,
                }
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}_{key}" if isinstance(key, str) else path)
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item, path)
        elif hasattr(value, "__dict__") and type(value).__module__.startswith("transformers") and not hasattr(value, "model_type"):
            prefix = "cross:" if path.startswith("cross:") else ""
            for name, item in vars(value).items():
                crosses = name == "cross_attention_cache"
                walk(item, "cross:" if crosses else prefix + name)

    walk(cache, "")
    return list(found.values())


def _forget_peak(m: Meter) -> None:
    if m.device != "cpu":
        torch.cuda.reset_peak_memory_stats(m.device)
        return
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Linux: the high-water mark starts again from now
    except OSError:
        pass


def _peak(m: Meter, since: dict[str, int | None]) -> int | None:
    """The most in use since `_forget_peak`, above a reading."""
    if m.device != "cpu":
        return int(torch.cuda.max_memory_allocated(m.device)) - (since.get("torch_allocated") or 0)
    try:
        with open("/proc/self/status") as file:
            high = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return None
    return high - (since.get("resident") or 0)
