"""What is checked of a question for every engine by its facts: nothing that an engine does not know slips through."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from kvplan.constants import PROCESS
from kvplan.deployment import NAMES, Deployment
from kvplan.devices import Device
from kvplan.dtypes import COMPUTE, canonical, canonical_weight, weight_scheme
from kvplan.engines.common.builds import no_kernels
from kvplan.engines.common.conditions import version_of
from kvplan.engines.common.methods import check_method
from kvplan.engines.common.options import FREE, read_lora, read_speculative
from kvplan.engines.common.protocol import Facts, Settled
from kvplan.engines.common.releases import build_or_release, release
from kvplan.engines.common.settling import checkpoint_format, has_towers
from kvplan.engines.common.stored import contradicts
from kvplan.errors import FEW, SpecError, UnsupportedError
from kvplan.tensors import distinct
from kvplan.units import MOST_DEVICES


def check_question(
    d: Deployment, facts: Facts, known_as: Callable[[str], str] = lambda _: "", passed: Collection[str] = ()
) -> None:  # fmt: skip
    """Raises SpecError for values that no engine takes, and for an engine_option that this one does not have.

    known_as  the name that an option of its command line has in a question, `option:NAME` of the engine's own; empty: it has none
    passed    options that it has and no plan follows
    """
    if (ranks := (d.tp or 1) * (d.pp or 1) * (d.dp or 1)) > MOST_DEVICES:
        raise SpecError("n_devices", [("", f"tp x pp x dp is {ranks:,} devices; at most {MOST_DEVICES:,} are planned")])
    if d.multimodal not in (None, "on", "off"):
        raise SpecError("multimodal", [("", f"{d.multimodal[:40]!r} is not on or off")])
    if d.dtype and canonical(d.dtype, "dtype") not in COMPUTE:
        other = f"for the weights write --weight-dtype {d.dtype[:20]}, for the cache --kv-dtype {d.dtype[:20]}"
        raise SpecError("dtype", [("", f"{d.dtype[:20]!r} is no type that a model computes in (bf16, f16, f32); {other}")])
    read_lora(d.lora)
    if facts.drafting is not None:
        check_method(d.speculative, facts.drafting, facts.title)
    spec = read_speculative(d.speculative)
    if spec and not spec.tokens and spec.method not in facts.picks_drafts:
        raise SpecError("speculative", [("", f"{facts.title} picks no number of tokens for {spec.method}: write METHOD:TOKENS")])
    for key, _ in d.engine_option:
        if key not in facts.options and key not in passed:
            known = _options_near(key, facts)
            if name := known_as(key) or (key.replace("-", "_") if key.replace("-", "_") in NAMES else ""):
                own, name = name.startswith("option:"), name.removeprefix("option:")
                how = f"--engine-option {name}=" if own else "--" + name.replace("_", "-")
                known = f"it is {name} here, {'the first word' if name == 'model' else how} on the command line"
            raise SpecError("engine_option", [(key, f"engine {facts.name} has no such option; {known}")])
    method = dict(d.engine_option).get("quantization")
    if method and d.weight_dtype and contradicts(method, weight_scheme(canonical_weight(d.weight_dtype))):
        raise SpecError("weight_dtype", [("", f"{d.weight_dtype} and quantization {method} are two checkpoints; keep one")])


def _options_near(key: str, facts: Facts) -> str:
    """What an engine has instead: the nearest names, all where they are few, or where they are listed."""
    import difflib

    near = difflib.get_close_matches(key, facts.options, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if not facts.options:
        return "it takes none"
    if len(facts.options) <= FEW:
        return f"it takes: {', '.join(facts.options)}"
    return f"`kvplan engines {facts.name}` lists the {len(facts.options)} that it takes"


def unused(d: Deployment, settled: Settled, facts: Facts) -> tuple[str, ...]:
    """Notes of the names that were chosen and that move nothing: here, or in this engine at all. `off` is no choice."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in {**idle(d, facts), **_without_part(settled), **facts.unused}.items():
        value = getattr(d, name)
        if not (value is None or value is False or value in ("off", ())) or (name == "multimodal" and d.multimodal):
            by_reason.setdefault(reason, []).append(name)
    found = tuple(f"engine {facts.name} has no use for {', '.join(names)}: {reason}" for reason, names in by_reason.items())
    spec = read_speculative(d.speculative)
    if spec is not None and spec.method in FREE:
        return (*found, f"speculative {spec.method}: drafts come from the text itself, without weights or a cache of their own")
    return found


#: Names that move what a device has left for a pool; then those that move the pool.
_BUDGET = ("memory_fraction", "reserve", "enforce_eager", "calibration", "lora")
_POOL = ("engine_version", "dcp", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "host_memory", "speculative", "engine_option")
#: What places an offloading engine's layers.
_PLACES = ("n_devices", "pp", "n_gpu_layers", "reserve")


class Sized(Protocol):
    """What of a question says which sizes there are."""

    @property
    def device(self) -> object | None: ...
    @property
    def kv_memory(self) -> int | None: ...
    @property
    def calibration(self) -> str | None: ...


def idle(d: Sized, facts: Facts) -> dict[str, str]:
    """Name -> why it moves nothing where no device is given, or the cache's size is."""
    found: dict[str, str] = {}
    aside = facts.pool == "set aside"
    if d.kv_memory is not None:
        found |= dict.fromkeys(_BUDGET if aside else (), "kv_memory is what the cache gets, whatever else a device holds")
    elif d.device is None:
        found |= dict.fromkeys((*_BUDGET, *_POOL) if aside else (), "without a device or kv_memory nothing is set aside")
    if d.device is None:
        found |= dict.fromkeys(_PLACES if facts.offloads else (), "without a device all layers stay in host memory")
        found |= dict.fromkeys(("memory_fraction", "calibration"), "no device is given")
    if facts.constants in (None, PROCESS) and d.calibration != "user":
        found["calibration"] = "no constants of it are packaged"
    return found


def _without_part(settled: Settled) -> dict[str, str]:
    """Name -> why it moves nothing of a model that has no such part."""
    model = settled.question.model
    found: dict[str, str] = {}
    tensors = [t for layer in distinct(settled.layers) for cache in layer.caches for t in cache.tensors]
    sources = {t.keep.tokens for t in tensors if t.keep.kind == "source"}
    if not sources:
        found["encoder_tokens"] = f"no layer of {model.id} keeps anything of an encoder"
    elif 0 not in sources:
        found["encoder_tokens"] = f"{model.id} fixes it at {max(sources)}"
    if not has_towers(settled.question):
        found["multimodal"] = f"{model.id} has no towers"
    return found


def check_forms(settled: Settled, facts: Facts) -> None:
    """Raises UnsupportedError for a form of cache that the engine does not model."""
    for cache in dict.fromkeys(cache for layer in distinct(settled.layers) for cache in layer.caches):
        if cache.form not in facts.forms:
            raise UnsupportedError(f"{facts.name}: the cache of {cache.kind} layers ({cache.form}) is not modelled")


def in_own_format(d: Deployment, facts: Facts) -> Deployment:
    """The question with bare bits of weights as the engine's own format."""
    own = facts.own_formats.get((d.weight_dtype or "").strip().lower().replace("-", "_"))
    return replace(d, weight_dtype=own) if own else d


def with_cache_followed(d: Deployment, facts: Facts) -> tuple[Deployment, tuple[str, ...]]:
    """The question without a cache format that its checkpoint states and this release does not follow, and a note of that."""
    stated, at = d.model.kv_dtype, release(d.engine_version or "")
    if not stated or d.kv_dtype not in (None, "auto") or facts.stated_caches is None or not at:
        return d, ()
    ignored = [ways for since, ways in facts.stated_caches if at >= release(since)]
    if ignored and (d.model.method or "") not in ignored[-1]:
        return d, ()
    note = (
        f"{facts.title} {d.engine_version} does not follow the {stated} that the checkpoint states for its cache (--kv-dtype fp8 sets it)"
    )
    return replace(d, model=d.model.changed(kv_dtype=None)), (note,)


def refusal(d: Deployment, facts: Facts) -> str | None:
    """Why the engine can not run this question at all: another make of device or a GPU without kernels, a format that it does not load."""
    device = d.device
    if device is not None and facts.vendors and device.vendor not in (*facts.vendors, "other"):
        return f"{facts.title} does not run on {device.name} ({device.vendor}); it runs on {', '.join(sorted(facts.vendors))}"
    if reason := _machines_apart(d, facts) or no_kernels(d, facts):
        return reason
    d = in_own_format(d, facts)
    if d.weight_dtype is None or not facts.weight_schemes or d.weight_dtype == checkpoint_format(d):
        return None
    scheme = weight_scheme(canonical_weight(d.weight_dtype))
    if scheme in facts.weight_schemes:
        return None
    return f"{facts.title} loads no {d.weight_dtype} weights ({scheme}); it loads {', '.join(sorted(facts.weight_schemes - {'unknown'}))}"


def _machines_apart(d: Deployment, facts: Facts) -> str | None:
    """Why several of a device that is alone in its machine are none to an engine of one machine; memory said of each (RPC) is."""
    n = max(d.n_devices or 1, (d.tp or 1) * (d.pp or 1))
    if d.device is None or not d.device.alone or n == 1 or facts.machines:
        return None
    if facts.beyond_one and "device_memory" in dict(d.engine_option):
        return None
    also = f"; {facts.beyond_one}" if facts.beyond_one else ""
    return f"{n} x {d.device.name} are {n} machines, and {facts.title} runs on one{also}"


def most_together(device: Device | None, facts: Facts) -> int | None:
    """How many of a device anybody would run one model on: one that is alone in its machine and joins no others; None: any number."""
    return 1 if device is not None and device.alone and not (device.clusters and facts.machines) else None


def too_old(device: Device, facts: Facts) -> str | None:
    """Why nobody would buy this one for the engine: its releases have no code for such an NVIDIA GPU."""
    has, least = device.capability, facts.least_capability
    if has is None or least is None or has >= least:
        return None
    return f"{facts.title} runs on NVIDIA GPUs of compute capability {version_of(least)} and above; {device.name} has {version_of(has)}"


def before_all(d: Deployment, facts: Facts) -> str:
    """Why a start of a release before all that were read is not known (too close to call where memory is not set aside); else empty."""
    asked, first = build_or_release(d.engine_version), facts.read_from or next(iter(facts.versions), "")
    if not asked or asked >= build_or_release(first):
        return ""
    if facts.pool != "set aside":
        return f"{facts.title} {d.engine_version} is older than all that was read: the rules are those of {first}"
    untagged = ".dev" in str(d.engine_version)
    return "" if untagged else f"{facts.title} {d.engine_version} is not modelled: the oldest release that is, is {first}"


def foreign(d: Deployment, facts: Facts) -> list[str]:
    """Formats of the model's own checkpoint that the engine does not load, where no other was asked for."""
    if d.weight_dtype is not None or not facts.weight_schemes:
        return []
    own = sorted({q.format for q in d.model.quantization} | ({d.model.checkpoint} if d.model.checkpoint else set()))
    if d.model.method == "mlx":  # its files are laid out as no other loader reads them, whatever the format
        return [] if "mlx" in facts.weight_schemes else [f"MLX's {name}" for name in own]
    return [name for name in own if weight_scheme(canonical_weight(name)) not in facts.weight_schemes]


def foreign_checkpoint(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """A note of such formats."""
    names = "+".join(name.removesuffix("_any") for name in foreign(d, facts))
    if not names:
        return ()
    such = f", such as {facts.weight_advice[-1][0]}" if facts.weight_advice else ""
    return (f"{facts.title} loads no {names} weights; they are counted as stored: name the format of your files with weight_dtype{such}",)


def not_its_own(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """Why a start is too close to call: the files at hand can not be those of the model as it is described."""
    return (d.stored.unlike,) if d.stored is not None and d.stored.unlike and facts.versions and d.kv_memory is None else ()


def counted_as_stored(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """Why a start is too close to call: its own files are of a size that the question does not say."""
    if d.kv_memory is not None or not facts.versions or not foreign(d, facts):
        return ()
    return (f"counted are weights that {facts.title} does not load",)
