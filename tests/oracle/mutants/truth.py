"""What transformers itself builds from a config and keeps of a forward: parameters and cache bytes, on the meta device."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.oracle.mutants.stood_in import quick, still, whole_blocks

TEXT = ("text_config", "llm_config", "language_config")
#: A file that says another of these than the class has read is not a file of that class.
_SHAPE = ("num_hidden_layers", "hidden_size", "vocab_size")
#: Kimi K2.5's releases name their tower's sizes as their own code does; transformers' class has its defaults, which are the same.
_RELEASED = {"init_pos_emb_height": "pos_emb_height", "init_pos_emb_width": "pos_emb_width", "vt_hidden_size": "hidden_size",
             "vt_intermediate_size": "intermediate_size", "vt_num_hidden_layers": "num_hidden_layers"}  # fmt: skip
#: Elements of a model that may be built for real where its forward does not run on meta.
SMALL = 40_000_000
#: A forward that fails so has layers that do not fit together.
_MISFIT = re.compile(
    r"reduction dim|shapes cannot be|must match|[Ss]ize mismatch|is invalid for input|broadcast|not divisible|same number of|split_sizes"
)
#: A forward that fails so would run elsewhere: on data, with sounds or images. Parameters alone are compared.
_ELSEWHERE = re.compile(r"meta tensor|nonzero|[Ee]xactly one of|_forward_unimplemented|must be Tensor, not NoneType")
#: Classes that step through the tokens one by one and mask by no window.
_STEPS = frozenset({"falcon_mamba", "jamba", "mamba", "rwkv", "xlstm", "zamba"})
_WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size")


class Refused(Exception):
    """transformers refuses the config, the model or the forward."""


class Truth(NamedTuple):
    """One class.

    buffers: those that a checkpoint has; head: elements of an output embedding that is the input's; cache: length -> bytes, empty where no
    forward runs.
    """

    name: str
    parameters: int
    buffers: int
    head: int
    cache: dict[int, int]
    kept: str = ""

    def counts(self, config: dict[str, Any]) -> set[int]:
        """Parameter counts that are right: buffers in or out; a head of its own where the file says so and the class ties all the same."""
        found = {self.parameters, self.parameters + self.buffers}
        untied = any(
            part.get("tie_word_embeddings") is False for part in (config, *(config.get(k) or {} for k in TEXT)) if isinstance(part, dict)
        )
        return found | ({n + self.head for n in found} if untied else set())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No softmax on meta and no warnings meanwhile: what is kept has gone to the cache before. All is as it was after."""
    import torch
    import transformers.masking_utils as masks
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def nothing(module: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> tuple[Any, None]:
        batch, heads, length, _ = query.shape
        if heads % key.shape[1]:
            raise ValueError(f"heads must match: {heads} of queries, {key.shape[1]} of keys")
        return query.new_empty((batch, length, heads, value.shape[-1])), None

    functions, disabled, threads = ALL_ATTENTION_FUNCTIONS._global_mapping, logging.root.manager.disable, torch.get_num_threads()
    kept, all_true = functions["sdpa"], getattr(masks, "fast_all", None)
    functions["sdpa"] = nothing
    if all_true is not None:
        masks.fast_all = lambda mask: True
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        functions["sdpa"] = kept
        if all_true is not None:
            masks.fast_all = all_true
        logging.disable(disabled)
        torch.set_num_threads(threads)


def read(config: dict[str, Any], folder: Path) -> list[tuple[Any, Any]]:
    """[(class, its configuration)]: the class that the file names, else each that the Auto classes would build. Raises Refused."""
    import transformers
    from transformers import AutoConfig

    config = {k: v for k, v in config.items() if k not in ("auto_map", "quantization_config")}
    name = next(iter(config.get("architectures") or []), None)
    named = getattr(transformers, name, None) if isinstance(name, str) else None
    own = getattr(named, "config_class", None)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    try:
        made = (own if "model_type" not in config and own is not None else AutoConfig).from_pretrained(folder)
    except Exception as error:
        raise Refused(f"config: {error!r:.200}") from None
    found = _fitting(made, [named] if named else []) or _fitting(made, _mapped(made))
    if not found:
        raise Refused(f"no generative class for {type(made).__name__}")
    if isinstance(config.get("thinker_config"), dict) and not hasattr(made, "thinker_config"):
        raise Refused("read past: thinker_config")  # Qwen3-ASR as first released
    inner = next((config[k] for k in TEXT if isinstance(config.get(k), dict)), config)
    text = made.get_text_config()
    nested = inner is config and text is not made
    if nested and name and named is None and "hidden_size" in config.keys() - type(made).__dataclass_fields__.keys():
        raise Refused(f"read past: {name} is another's class, and nothing of its flat file is read")
    for key in (*_SHAPE, "cross_attention_layers") if nested else _SHAPE:
        stated, has = inner.get(key), getattr(text, key, None)
        if type(stated) is type(has) and isinstance(stated, int | list) and stated != has:
            raise Refused(f"read past: {key} {stated} is not {has}")
    tower = config.get("vision_config")
    for key, own in _RELEASED.items() if made.model_type == "kimi_k25" and isinstance(tower, dict) else ():
        if isinstance(tower.get(key), int) and tower[key] != getattr(made.vision_config, own):
            raise Refused(f"read past: vision_config.{key} {tower[key]} is not {getattr(made.vision_config, own)}")
    return found


def _fitting(made: Any, names: list[Any]) -> list[tuple[Any, Any]]:
    found = []
    for cls in names:
        own = getattr(cls, "config_class", None)
        if own is not None and isinstance(made, own):
            found.append((cls, made))
        elif own is not None and own is (getattr(made, "sub_configs", None) or {}).get("text_config"):
            text = made.get_text_config()
            if getattr(text, "dtype", None) is None:  # what the file says of the whole holds for its part
                text.dtype = made.dtype
            found.append((cls, text))
    return found


def _mapped(made: Any) -> list[Any]:
    from transformers.models.auto import modeling_auto as auto

    found: list[Any] = []
    for mapping in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
        auto.MODEL_FOR_MASKED_LM_MAPPING,
    ):
        if type(made) in mapping:
            got = mapping[type(made)]
            found += got if isinstance(got, (tuple, list)) else [got]
    return list(dict.fromkeys(found))


def dtype_of(made: Any) -> Any:
    import torch

    for part in (made, made.get_text_config()):
        stated = getattr(part, "dtype", None)
        stated = getattr(torch, stated, None) if isinstance(stated, str) else stated
        if isinstance(stated, torch.dtype):
            return stated
    return torch.bfloat16


def lengths(made: Any) -> list[int]:
    """Longer than any small window or compression, and just beyond each large window."""
    text = made.get_text_config(decoder=True)
    found = {40 if made.model_type in _STEPS else 150}
    for key in _WINDOWS:
        value = getattr(text, key, None)
        if isinstance(value, int) and not isinstance(value, bool) and 140 < value <= 1 << 16:
            found.add(value + 3)
    most = [
        v
        for key in ("max_position_embeddings", "max_target_positions", "n_positions")
        if isinstance(v := getattr(text, key, None), int) and v > 0
    ]
    return sorted({min(n, *most) if most else n for n in found})


_MEMO: dict[str, Truth | str] = {}


def truth(cls: Any, made: Any) -> Truth:
    """One class from its configuration; a configuration seen before is not built again. Raises Refused."""
    key = cls.__name__ + json.dumps(made.to_dict(), sort_keys=True, default=str)
    if key not in _MEMO:
        try:
            _MEMO[key] = _build(cls, copy.deepcopy(made))
        except Exception as error:
            _MEMO[key] = f"{error!r:.300}"
    found = _MEMO[key]
    if isinstance(found, str):
        raise Refused(found)
    return found


def _build(cls: Any, made: Any) -> Truth:
    import torch

    model = _made(cls, copy.deepcopy(made), "meta")
    _routes(model)
    counted = getattr(model, "thinker", model)  # Qwen omni: its talker and vocoder are no part of what is served and kept
    parameters = sum(p.numel() for p in counted.parameters()) - _of_zero_experts(model)
    buffers = sum(
        b.numel() for m in model.modules() for n, b in m._buffers.items() if b is not None and n not in m._non_persistent_buffers_set
    )
    into, out = (getattr(e, "weight", None) for e in (_or_none(model.get_input_embeddings), _or_none(model.get_output_embeddings)))
    head = out.numel() if out is not None and out is into else 0
    errors: list[str] = []
    for device, prepare in (("meta", quick), ("meta", still), ("meta", whole_blocks), ("cpu", still)):
        if device == "cpu":
            if parameters > SMALL:
                break
            model = _made(cls, copy.deepcopy(made), "cpu")
        undo = prepare(model)
        with torch.no_grad(), torch.device(device):
            for run in _runs(model, made):
                try:
                    cache = {n: held(run(n)) for n in lengths(made)}
                    return Truth(cls.__name__, parameters, buffers, head, {n: size for n, (size, _) in cache.items()}, cache[max(cache)][1])
                except Exception as error:
                    errors.append(f"{error!r:.250}")
                    if run.__name__ == "whole" and _MISFIT.search(errors[-1]):
                        break  # its parts do not fit together: its decoder alone is not that model
        for module in undo:
            del module.forward
    if any(_MISFIT.search(error) for error in errors) or not any(_ELSEWHERE.search(error) for error in errors):
        raise Refused("forward: " + " | ".join(dict.fromkeys(errors)))
    return Truth(cls.__name__, parameters, buffers, head, {}, "no forward: " + " | ".join(dict.fromkeys(errors)))


def _routes(model: Any) -> None:
    """Refuses routers that pick more experts than there are: torch.topk would, but routing on meta is left out."""
    for module in model.modules():
        picked, n = getattr(module, "top_k", None), getattr(module, "num_experts", None)
        if isinstance(picked, int) and isinstance(n, int) and picked > n > 0:
            raise ValueError(f"selected index k out of range: {picked} of {n} experts")


def _of_zero_experts(model: Any) -> int:
    """LongCat: gates and ups of experts that only hand on their input. No checkpoint has them (and vLLM builds none); the class does."""
    found = 0
    for module in model.modules():
        up, down = (getattr(module, name, None) for name in ("gate_up_proj", "down_proj"))
        if getattr(up, "ndim", 0) == 3 and getattr(down, "ndim", 0) == 3 and len(up) > len(down):
            found += (len(up) - len(down)) * up[0].numel()
    return found


def _made(cls: Any, made: Any, device: str) -> Any:
    """The model on a device, in evaluation mode."""
    import torch

    with torch.device(device):
        try:
            model = cls._from_config(made, dtype=dtype_of(made))
        except (ImportError, ValueError) as error:
            if not re.search("attention|sdpa", str(error), re.IGNORECASE):
                raise
            model = cls._from_config(made, dtype=dtype_of(made), attn_implementation="eager")
    model.tie_weights()
    return model.eval()


def _or_none(get: Any) -> Any:
    try:
        return get()
    except Exception:
        return None


def _runs(model: Any, made: Any) -> list[Any]:
    """tokens -> what a forward left: the model as it is, then its decoder alone."""
    import torch

    def ids(n: int) -> Any:
        return torch.zeros((1, n), dtype=torch.long)

    def whole(n: int) -> Any:
        if model.config.is_encoder_decoder:
            if made.model_type in ("vision-encoder-decoder", "pp_formulanet"):
                seen = getattr(made, "encoder", None) or made.vision_config
                size = seen.image_size if isinstance(seen.image_size, (list, tuple)) else [seen.image_size] * 2
                image = torch.zeros((1, seen.num_channels, *size), dtype=model.dtype)
                return model(pixel_values=image, decoder_input_ids=ids(n), use_cache=True)
            if made.model_type == "pix2struct":  # as many patches as there are tokens; the first two numbers say row and column
                patches = torch.ones((1, n, 2 + made.vision_config.patch_embed_hidden_size), dtype=model.dtype)
                return model(flattened_patches=patches, decoder_input_ids=ids(n), use_cache=True)
            if made.model_type == "whisper":
                sound = torch.zeros((1, made.num_mel_bins, 2 * made.max_source_positions), dtype=model.dtype)
                return model(input_features=sound, decoder_input_ids=ids(n), use_cache=True)
            return model(input_ids=ids(n), decoder_input_ids=ids(n), use_cache=True)
        if made.model_type == "recurrent_gemma":  # its states are attributes of its modules
            from transformers import DynamicCache

            own = DynamicCache(config=made)
            model(input_ids=ids(n), past_key_values=own, use_cache=True)
            states = {
                f"{i}{a}": getattr(m, a)
                for i, m in enumerate(model.modules())
                for a in ("conv1d_state", "recurrent_states")
                if hasattr(m, a)
            }
            return {"past_key_values": {**states, "own": own}}
        return model(input_ids=ids(n), use_cache=True)

    def decoder(n: int, **more: Any) -> Any:
        inner = next(m for m in (_or_none(model.get_decoder), getattr(model, "language_model", None)) if m is not None and m is not model)
        return inner(input_ids=ids(n), use_cache=True, **more)

    def placed(n: int) -> Any:
        return decoder(n, position_ids=torch.zeros((1, n), dtype=torch.long))

    return [whole] if model.config.is_encoder_decoder else [whole, decoder, placed]


def held(out: Any) -> tuple[int, str]:
    """Bytes of every floating tensor of the cache that a forward returned, and the types of its layers."""
    found = None
    for key in ("cache", "past_key_values", "cache_params", "past_buckets_states", "mems", "state"):
        value = out.get(key) if isinstance(out, dict) else getattr(out, key, None)
        if value is not None:
            found = value
            break
    seen: dict[Any, int] = {}
    _walk(found, seen, set())
    layers = getattr(getattr(found, "self_attention_cache", found), "layers", None) or []
    kinds: dict[str, int] = {}
    for layer in layers:
        kinds[type(layer).__name__] = kinds.get(type(layer).__name__, 0) + 1
    return sum(seen.values()), " ".join(f"{n}x{k}" for k, n in kinds.items())


def _walk(value: Any, seen: dict[Any, int], visited: set[int]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        if value.numel() and value.is_floating_point():
            seen[(value.untyped_storage()._cdata, value.storage_offset(), tuple(value.shape), tuple(value.stride()))] = (
                value.numel() * value.element_size()
            )
        return
    if value is None or isinstance(value, (str, int, float, torch.dtype, torch.device, type)) or id(value) in visited:
        return
    visited.add(id(value))
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, (list, tuple)):
        items = list(value)
    else:
        items = [v for k, v in vars(value).items() if k not in ("config", "device", "dtype")] if hasattr(value, "__dict__") else []
    for item in items:
        _walk(item, seen, visited)
