"""Ollama: the question with the defaults of a release, and its scheduler in front of llama.cpp.

server/routes.go modelOptions, server/sched.go, llm/server.go, llm/llama_server.go, envconfig/config.go of the release (rules.py).
-c is num_ctx x slots and -np is always given, so the cache is split into slots and never unified where a build can split it.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.llama_cpp import rules as llama
from kvplan.engines.llama_cpp.ollama import batch as batches
from kvplan.engines.llama_cpp.ollama import flash, images, metadata
from kvplan.engines.llama_cpp.ollama.names import gguf_name
from kvplan.engines.llama_cpp.ollama.placing import Scheduler, has_cards
from kvplan.engines.llama_cpp.ollama.rules import OllamaRules, find, newest_build
from kvplan.engines.llama_cpp.options import read
from kvplan.engines.llama_cpp.registry import unknown
from kvplan.engines.llama_cpp.rules import LlamaRules
from kvplan.engines.llama_cpp.settle import LlamaSettings, settle_with, unserved
from kvplan.errors import SpecError

#: Ollama's own engine keeps windows as llama.cpp does from this build on, before that every token.
_OWN_WINDOWS, _OWN_BEFORE = 5912, 5130
#: Tokens that windows of Ollama's own models keep beside a batch, where that is not the window (model/models/*/model.go NewSWAMemCache).
_WINDOW_LEAST = {"gptoss": 4096, "gemma4": 4096}
#: gpt-oss has at least this context from 0.11.0 until memory decides.
_GPT_OSS_LEAST = 8192
#: Releases of 2023 (0.1.17 is of 20 December).
_OLD_SYSTEMS = (0, 1, 18)
#: Classes whose files in Ollama's library are older than those with latent attention (ggml-org/llama.cpp#12801, April 2025).
_WHOLE_HEADS = ("DeepseekV2ForCausalLM",)
_OWN_OPTIONS = ("num_ctx", "num_parallel", "num_batch", "max_loaded_models")


def settle(d: Deployment) -> Settled:
    """The question with Ollama's defaults; `max_model_len` is num_ctx, the length of one slot."""
    version, rules, notes = find(d.engine_version)
    if len(set((d.kv_dtype or "").split("/"))) > 1:
        raise SpecError("kv_dtype", [("", "OLLAMA_KV_CACHE_TYPE sets K and V together: write one format")])
    given, asked_flash = dict(d.engine_option), _asked_flash(d)
    arch = gguf_name(d.model.architecture or "")
    num_ctx = _num_ctx(d, rules, given, arch)
    build = _build(rules, arch)._replace(
        old_systems=() < release(version) < _OLD_SYSTEMS,
        one_batch=False,  # server/routes.go cuts what is longer
    )
    if d.model.architecture in _WHOLE_HEADS:
        build, notes = build._replace(mla="heads"), (*notes, "Ollama's files of DeepSeek-V2 are of 2024: K and V of every head are kept")
    slots = _slots(d, rules, given, arch)
    probe = settle_with(_server(d, num_ctx, slots[0], None, None), build, (), name="ollama", version=version)
    m = metadata.read(probe.settings.loaded)
    mode = flash.attention(rules, m, d, asked_flash)
    notes += mode.notes + _replaced(d, given, num_ctx, slots)
    chosen_batch = d.max_num_batched_tokens or _count(given, "num_batch")
    found: tuple[Settled, Scheduler] | None = None
    for n in slots:
        found = _settled(d, rules, build, m, mode, (num_ctx, n, chosen_batch), notes, version)
        if n == slots[-1] or not has_cards(d) or found[1].place(num_ctx * n, n).whole:
            break
    assert found is not None
    settled, scheduler = found
    return _answered(d, settled, scheduler, version, given)


def _settled(
    d: Deployment,
    rules: OllamaRules,
    build: LlamaRules,
    m: metadata.Metadata,
    mode: flash.Attention,
    sizes: tuple[int, int, int],
    notes: tuple[str, ...],
    version: str,
) -> tuple[Settled, Scheduler]:
    """llama.cpp's answer for so many slots, and the scheduler that places it."""
    num_ctx, slots, batch = sizes

    def made(n_batch: int) -> tuple[Settled, Scheduler]:
        asked = replace(_server(d, num_ctx, slots, n_batch, mode.flash), kv_dtype=mode.kv_type)
        settled = settle_with(asked, build, notes, name="ollama", version=version)
        settings: LlamaSettings = settled.settings
        tower = images.tower(rules, m, flash=mode.flash == "on")
        settings = settings._replace(loaded=settings.loaded._replace(images=tower, image_batch=images.batch(rules, m)))
        loaded = settings.loaded._replace(question=replace(settings.loaded.question, n_gpu_layers=d.n_gpu_layers))
        scheduler = Scheduler(rules, m, loaded, settings.unified, mode.flash != "off", mode.kv_type, n_batch, {})
        return settled._replace(settings=settings), scheduler

    first = made(batch or batches.by_context(rules, num_ctx * slots))
    if batch:
        return first
    wanted = batches.automatic(rules, d, first[1].free(), num_ctx * slots, first[1].predicted(num_ctx * slots), mode.flash)
    return first if wanted == first[1].batch else made(wanted)


def _answered(d: Deployment, settled: Settled, scheduler: Scheduler, version: str, given: dict[str, str]) -> Settled:
    """The settled question under Ollama's names, with who chose what, and the scheduler for the plan."""
    question, chosen = settled.question, dict(settled.chosen_by)
    settings: LlamaSettings = settled.settings
    for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "context"):
        if getattr(d, name) is None:
            chosen[name] = "engine default"
    if question.kv_dtype != d.kv_dtype:
        chosen["kv_dtype"] = "engine default"
    chosen.pop("engine_version", None)
    if d.engine_version is None:
        chosen["engine_version"] = "kvplan"
    own_cells = d.max_model_len is not None or "num_ctx" in given
    rules = scheduler.rules
    unread = None if scheduler.own else unknown(question.model.architecture, newest_build(rules))
    settings = settings._replace(unread=unread, own_cells=own_cells, alone=_count(given, "max_loaded_models") == 1, stays=None)
    if has_cards(d):
        placed = scheduler.place(question.max_model_len or 1, question.max_num_seqs or 1)
        accepts = d.host_memory is not None or d.n_gpu_layers is not None
        card = "the card" if (question.n_devices or 1) == 1 else "the cards"
        whole = f"not wholly on {card}: Ollama places {{}} there and the rest in host memory, if that is given (host_memory)"
        beside = _beside(scheduler.rules)
        settings = settings._replace(
            beside=beside,
            placing=scheduler.place,
            sure=scheduler.sure,
            dealt=d.n_gpu_layers is None and not scheduler.undercounts,
            printed=scheduler.lines,
            whole=None if accepts else whole,
            stays=None,
        )
        if d.n_gpu_layers is None:
            question = replace(question, n_gpu_layers=placed.where.offloaded)
    named = question.model.architecture or ""
    known = ":" in question.model.id or gguf_name(named) != named  # of Ollama's library, or made by its own converter
    undecided = settled.undecided if known else (*settled.undecided, *unserved(named))
    question = replace(question, engine_version=version)
    return settled._replace(question=question, chosen_by=chosen, settings=settings, undecided=undecided)


def _beside(rules: OllamaRules) -> str:
    """What a release says where host memory is too small, with what is needed and what there is.

    llm/server.go asks from 0.2.2 to 0.24; before it the runner ends, and llm/llama_server.go of 0.30 hands on what llama-server says.
    """
    if rules.placing == "server":
        return "llama-server reported out-of-memory during startup: {} of host memory, and {} there"
    if rules.release < (0, 2, 2):
        return "llama runner process has terminated: {} of host memory, and {} there"
    return "model requires more system memory ({}) than is available ({})"


def _server(d: Deployment, num_ctx: int, slots: int, batch: int | None, mode: str | None) -> Deployment:
    """The question as llama.cpp is started for it."""
    kept = [(key, text) for key, text in d.engine_option if key not in (*_OWN_OPTIONS, "flash_attn")]
    if mode:
        kept.append(("flash_attn", mode))
    if batch and "n_ubatch" not in dict(kept):
        kept.append(("n_ubatch", str(batch)))
    return replace(
        d,
        engine_version=None,
        max_model_len=num_ctx * slots,
        max_num_seqs=slots,
        max_num_batched_tokens=batch,
        context=d.context or num_ctx,
        kv_dtype=d.kv_dtype if mode else None,
        engine_option=tuple(kept),
    )


def _num_ctx(d: Deployment, rules: OllamaRules, given: dict[str, str], arch: str) -> int:
    """Tokens of a slot: as asked, else by the memory of all cards, and never more than the model was trained for."""
    asked = d.max_model_len or _count(given, "num_ctx") or d.context
    num_ctx = asked or default_context(d, rules)
    if arch == "gptoss" and (0, 11, 0) <= rules.release < (0, 15, 5):
        num_ctx = max(num_ctx, _GPT_OSS_LEAST)
    return min(num_ctx, d.model.max_context) if d.model.max_context else num_ctx


def _replaced(d: Deployment, given: dict[str, str], num_ctx: int, slots: tuple[int, ...]) -> tuple[str, ...]:
    """Notes of numbers that Ollama puts others in place of, in its own words (llm/server.go, server/sched.go)."""
    asked_ctx, asked_slots = d.max_model_len or _count(given, "num_ctx"), d.max_num_seqs or _count(given, "num_parallel")
    notes: tuple[str, ...] = ()
    if asked_ctx > num_ctx:
        notes += (f"requested context size too large for model: num_ctx {asked_ctx:,}, n_ctx_train {num_ctx:,}: a slot has {num_ctx:,}",)
    elif 0 < asked_ctx < num_ctx:
        notes += (f"num_ctx {asked_ctx:,} is raised to {num_ctx:,}: this release gives gpt-oss no less",)
    if slots == (1,) and asked_slots > 1:
        notes += (f"num_parallel {asked_slots:,} is taken as 1: this release does not support parallel requests for this model",)
    return notes


def default_context(d: Deployment, rules: OllamaRules) -> int:
    """num_ctx by the memory of all devices as they report it; without a device, the smallest."""
    mib = d.device.nvml_total_mib if d.device else None
    each = (mib << 20) if mib else d.device.memory_bytes if d.device else 0
    sizes = read(d).device_memory
    memory = sum(sizes) or (d.n_devices or d.pp or 1) * each
    return next(tokens for least, tokens in rules.context if memory >= least)


def _slots(d: Deployment, rules: OllamaRules, given: dict[str, str], arch: str) -> tuple[int, ...]:
    """OLLAMA_NUM_PARALLEL, or the numbers that the release tries in turn."""
    if arch in rules.alone or ("projector" in rules.alone and d.model.towers):
        return (1,)
    asked = d.max_num_seqs or _count(given, "num_parallel")
    if asked:
        return (asked,)
    return rules.parallel if has_cards(d) else rules.parallel[-1:]


def _build(rules: OllamaRules, arch: str) -> LlamaRules:
    """The llama.cpp inside; for Ollama's own engine the build whose caches are like its own."""
    own = arch in rules.own
    build = rules.build if not own else _OWN_WINDOWS if rules.windows else _OWN_BEFORE
    found = max((r for r in llama.RULES.values() if r.build <= build), key=lambda r: r.build)._replace(fit=False)
    if not own:
        return found
    copies = 0 if arch == "lfm2" and rules.release < (0, 17, 1) else rules.copies
    least = _WINDOW_LEAST.get(arch, 0)
    found = found._replace(streams=False, own_graphs=True, all_outputs=False, window_least=least, state_copies=copies)
    return found._replace(newest_type=39, most_sequences=None)


def _asked_flash(d: Deployment) -> str | None:
    """`on` or `off` as asked; None: nobody says, or `auto`. Raises SpecError for every switch that is none."""
    Options(d).flag("sched_spread")
    asked = read(d).flash_attn
    return None if asked == "auto" else asked


def _count(given: dict[str, str], key: str) -> int:
    if key not in given:
        return 0
    if not given[key].isdecimal() or not 0 < int(given[key]) <= 1 << 31:
        raise SpecError("engine_option", [(key, f"{given[key][:60]!r} is not a whole number above 0")])
    return int(given[key])
