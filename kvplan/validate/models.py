"""A real Hugging Face model from a config, random weights: prefill, decode, and what its cache object, its weights and its peaks take."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from kvplan.errors import UnsupportedError
from kvplan.validate.measure import is_out_of_memory
from kvplan.validate.meters import Event, Meter, grown


def model_job(m: Meter, config: dict[str, Any], dtype: str, batch: int, prefill: int, decode: int, encoder: int) -> Iterator[Event]:
    """Events: `weights`, `cache` (every tensor of the cache object), `peaks`; or `out of memory`.

    dtype    torch's name of the compute type
    encoder  tokens of the encoder side of an encoder-decoder model
    Raises UnsupportedError where transformers lacks the class, or its class does not run as configured.
    """
    import transformers

    start = m.read()
    try:
        model = build(config, getattr(torch, dtype), m.device)
        loaded = m.read()
        yield {"event": "weights", **weights(model), "measured": grown(start, loaded), "transformers": transformers.__version__}
        m.forget_peak()
        own = transformers.DynamicCache() if hasattr(model, "_setup_cache") else None  # it keeps states itself, K and V where told to
        out = forward(model, batch, prefill, encoder, None, own)
        prefilled, after_prefill = m.peak(loaded), grown(loaded, m.read())
        kept = sum(t["storage"] for t in tensors(cache_of(model, out, own)))
        m.forget_peak()
        for _ in range(decode):
            out = forward(model, batch, 1, encoder, out, own)
        cache = cache_of(model, out, own)
        yield {"event": "cache", "class": type(cache).__name__, "tensors": tensors(cache), "measured": grown(loaded, m.read())}
        yield {
            "event": "peaks",
            "prefill": prefilled,
            "decode": m.peak(loaded),
            "after_prefill": after_prefill,
            "storage_after_prefill": kept,
        }
    except UnsupportedError:
        raise
    except Exception as error:
        said = str(error).split("\n")[0]
        if not is_out_of_memory(error):
            name = (config.get("architectures") or ["model"])[0]
            text = f"transformers {transformers.__version__} does not run this {name}: {type(error).__name__}: {said}"
            raise UnsupportedError(text) from None
        held = next((n for n in grown(start, m.read()).values() if n is not None), 0)
        yield {"event": "out of memory", "case": 0, "held": held, "message": said}


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
    named = transformers.CONFIG_MAPPING
    settings = (named[config["model_type"]] if config.get("model_type") in named else kind.config_class)(**known)
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


#: what a model calls the cache that it is given and gives back: `cache` from transformers 5.24 on, others before
_CACHES = ("cache", "past_key_values", "cache_params", "state")
_MEL_FRAMES = 2  # frames of sound for each position of an encoder that listens


def forward(model: Any, batch: int, tokens: int, encoder: int, last: Any, own: Any = None) -> Any:
    """One pass over `tokens` random tokens that goes on from the output of the last one (None: the first); its output.

    own  a cache to fill, for a model that makes none itself
    """
    from transformers.modeling_outputs import BaseModelOutput

    config = model.config
    text = config.get_text_config(decoder=True)
    first = next(model.parameters())
    takes = inspect.signature(model.forward).parameters
    ids = torch.randint(0, text.vocab_size, (batch, tokens), device=first.device)
    given: dict[str, Any] = {}
    if "use_cache" in takes:
        given["use_cache"] = True
    for name in _CACHES:
        if name in takes and last is not None and getattr(last, name, None) is not None:
            given[name] = getattr(last, name)
    if own is not None:
        given["cache" if "cache" in takes else "past_key_values"] = own
    if not config.is_encoder_decoder:
        given["input_ids"] = ids
    else:
        given["decoder_input_ids"] = ids
        if last is not None:
            given["encoder_outputs"] = BaseModelOutput(last_hidden_state=last.encoder_last_hidden_state)
        elif model.main_input_name == "input_features":
            shape = (batch, config.num_mel_bins, _MEL_FRAMES * encoder)
            given["input_features"] = torch.randn(shape, device=first.device).to(first.dtype)
        else:
            given["input_ids"] = torch.randint(0, text.vocab_size, (batch, encoder), device=first.device)
    if "logits_to_keep" in takes:
        given["logits_to_keep"] = 1
    with torch.no_grad():
        return model(**given)


def cache_of(model: Any, out: Any, own: Any = None) -> Any:
    """What a model keeps: the cache that it gives back, else tensors that its modules keep beside weights and buffers; None for none."""
    for name in _CACHES:
        if own is None and getattr(out, name, None) is not None:
            return getattr(out, name)
    kept: dict[str, Any] = {} if own is None else {"": own}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                kept.setdefault(name, []).append(value)
    return kept or None


#: names of what modules keep themselves -> the cache object's
_NAMES = {"key_states": "keys", "value_states": "values", "conv1d_state": "conv_states"}


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
                    "name": _NAMES.get(path, path),
                    "shape": list(value.shape),
                    "dtype": str(value.dtype).removeprefix("torch."),
                    "bytes": value.numel() * value.element_size(),
                    "storage": storage.nbytes() if fresh else 0,
                }
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, (f"{path}_{key}" if path else key) if isinstance(key, str) else path)
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
