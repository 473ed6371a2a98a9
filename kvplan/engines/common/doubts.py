"""Why a start is at most likely, however much room the plan leaves: what nobody has measured, by what the question says."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.common.conditions import capability, encodes, version_of
from kvplan.engines.common.protocol import Facts, Outcome, Settled
from kvplan.engines.common.releases import build_or_release, release
from kvplan.engines.common.settling import weight_formats
from kvplan.units import show_bytes
from kvplan.weights import weight_name

#: Family of a checkpoint's format -> the compute capability (x 10) whose cores take it, and AMD's names of such GPUs. Elsewhere engines
#: convert, repack or emulate it (NVIDIA's and AMD's architecture papers: FP8 from Ada and CDNA 3 on, FP4 from Blackwell and CDNA 4 on).
NATIVE: dict[str, tuple[int, tuple[str, ...]]] = {
    "mxfp": (100, ("gfx950",)),
    "nvfp4": (100, ()),
    "fp8": (89, ("gfx942", "gfx950", "gfx1200", "gfx1201")),
}
#: Of these the kernels' copy is made beside the checkpoint's, and what is alive of both at once is not known: of twelve public starts
#: that should have had room half ran out (gpt-oss-120b on H100: vllm issues 27508, 33155, lmdeploy#4249; DeepSeek-V4 on Hopper: InferenceX
#: 2128, vllm#44376; on MI300X 50 of 96 GiB more, vllm#53961), none of those with room for a second copy.
COPIED = ("mxfp",)
#: Ranks of one replica, or that share experts, from which on no start is certain, on cards and on modules: of 12 so called before anybody
#: looked (docs/limits.md, third to seventh set) 5 ran out, by 8 to 20 GiB that no line had, each for a cause of its own (collectives in
#: graphs, machines apart, experts, a vendor's libraries), of 11 on eight modules (eleventh to twentieth set) four. Of 86 others 4 did.
MANY, MANY_MODULES = 4, 8
#: Of replicas that share experts, whose kernels take all replicas' tokens: of 12 starts so called blind (to the twenty-first set) five
#: failed, one with an activation peak of 11.9 GiB for 4.2 estimated (vllm#51908).
OF_ALL_REPLICAS = "what experts' kernels hold of all replicas' tokens differs between builds"
#: Of GPUs that share their memory with the host: of 18 starts so called before anybody looked two were refused, one with 19 GiB to spare,
#: since the cache of the files that it had read counted as used.
SHARED = "what the system and the cache of files hold of shared memory differs from start to start"
#: Of cards that desktops have, under Ollama, where nobody says what others hold: of 31 starts so called before anybody looked (eleventh to
#: twentieth set) six were split or ran out, three of them under Windows. Who runs llama.cpp by hand knew the card: of 22 two did.
DESKTOP = "what Windows and other programs hold of a desktop's card is not said (--reserve)"
#: Vendors of which so few starts are public that none is certain: of seven called so before anybody looked two ran out (docs/limits.md).
UNMEASURED = {"intel": "Intel's"}
#: llama.cpp's line of recurrent states, which each sequence has.
STATES = "cache: rs"
GROUPED = 75  # the least of the kernels for integers in groups (AWQ, GPTQ); before, what their predecessors take is not known


def doubts(settled: Settled, facts: Facts) -> tuple[str, ...]:
    """Reasons, in words that finish `likely at most:`; none for no device, or no engine."""
    d = settled.question
    if not facts.versions or d.device is None:
        return ()
    found = []
    if facts.measured_from is None:
        found.append(f"fewer than five public start-up logs are behind what {facts.title} holds beside weights and cache")
    elif () < release(d.engine_version or "") < release(facts.measured_from):
        found.append(f"what {facts.title} held before {facts.measured_from} beside weights and cache was not published")
    if d.device.unified:
        found.append(SHARED)
    if facts.bare_is_latest and d.device.shows_desktops and not d.device.is_what_was_free and "reserve" in settled.chosen_by:
        found.append(DESKTOP)
    if not d.model.lm_head or encodes(d.model):
        found.append(f"few public starts tell what {facts.title} holds for embeddings, scores or rewards")
    if d.device.vendor in UNMEASURED:
        found.append(f"what libraries hold on {UNMEASURED[d.device.vendor]} GPUs rests on few public starts")
    if d.model.uncounted and d.stored is None:
        found.append(f"parts of {d.model.name} are not counted")
    ranks = max((d.tp or 1) * (d.pp or 1), d.ep or 1)
    if ranks >= (MANY_MODULES if d.device.is_module else MANY):
        found.append(f"what each of {ranks} ranks holds for its links to the others differs between machines")
    if (d.dp or 1) > 1 and (d.ep or 1) > 1:
        found.append(OF_ALL_REPLICAS)
    return (*found, *(_said(scheme, least, d) for scheme, least in _converted(d, facts)))


def newer(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """A release after all that were read, whose rules are those of the newest of them: not one that only mends it (0.33.1)."""
    asked, last = build_or_release(d.engine_version), next(reversed(facts.versions), "")
    beyond = d.device is not None and asked[:2] > build_or_release(last)[:2] > ()
    return (f"{facts.title} {d.engine_version} is newer than {last}, the newest that was read",) if beyond else ()


def unread_weights(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """Why a start is too close to call: weights in a quantisation that is not modelled, which the engine may not load at all."""
    if not facts.versions or d.kv_memory is not None or all(_scheme(stored) != "unknown" for stored in weight_formats(d).values()):
        return ()
    return (f"whether {facts.title} loads a checkpoint in a quantisation that is not modelled is not known",)


def without_kernel(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """Why a start is too close to call: FP8 on AMD's GPUs before CDNA 3 and RDNA 4, where no kernel unpacks it as Marlin does on NVIDIA's.

    Both public starts of such a checkpoint ended in the profile run, with room (vllm-project/vllm 10663 on MI250, 16394 on MI210).
    """
    if d.device is None or d.device.vendor != "amd" or d.kv_memory is not None or "fp8" not in dict(_converted(d, facts)):
        return ()
    return (f"FP8 has no kernel on {d.device.compute_capability}, as far as public starts tell: both ended in an error",)


def second_copy(d: Deployment, facts: Facts, outcome: Outcome) -> tuple[str, ...]:
    """Why a start is too close to call: weights that are converted on this device, and no room for a second copy of them."""
    if not facts.versions or d.device is None or outcome.margin_bytes is None:
        return ()
    schemes = {scheme for scheme, _ in _converted(d, facts)} & set(COPIED)
    lines = {weight_name(role) for role, stored in weight_formats(d).items() if _scheme(stored) in schemes}
    copied = max((sum(e.bytes for e in ledger.entries if e.name in lines) for ledger in outcome.ledgers), default=0)
    if not schemes or outcome.margin_bytes >= copied:
        return ()
    return (f"{show_bytes(copied)} of {', '.join(sorted(schemes))} weights are converted on this device, without room for a second copy",)


def more_slots(settled: Settled, outcome: Outcome) -> tuple[str, ...]:
    """Why a start is too close to call: no room for the states of all sequences that a server keeps by itself (llama-server: -np)."""
    asked = settled.question.max_num_seqs or 1
    for ledger in outcome.ledgers if settled.slots > asked else ():
        more = sum(e.bytes for e in ledger.entries if e.name == STATES) * (settled.slots - asked) // asked
        spare = (ledger.limit_bytes or 0) - ledger.total_bytes
        if more and 0 <= spare < more + sum(entry.high - entry.bytes for entry in ledger.entries):
            said = f"a server keeps states of {settled.slots} sequences by itself: {show_bytes(more)} more, {show_bytes(spare)} are free"
            return (f"{said}; say how many with --max-num-seqs, or server=true",)
    return ()


def _converted(d: Deployment, facts: Facts) -> list[tuple[str, int]]:
    """Families of the question's formats that this device does not compute in and the engine converts, with the capability that does."""
    name, has = d.device.compute_capability if d.device else None, capability(d) or 0
    if not name or (facts.weight_schemes and "fp8" not in facts.weight_schemes):
        return []
    found = []
    for scheme in sorted({_scheme(stored) for stored in weight_formats(d).values()}):
        least, others = NATIVE.get(scheme, (0, ()))
        if scheme in ("awq", "gptq") and d.device is not None and d.device.vendor == "nvidia":
            least = GROUPED
        if least and name not in others and has < least:
            found.append((scheme, least))
    return found


def _said(scheme: str, least: int, d: Deployment) -> str:
    name = d.device.compute_capability if d.device else ""
    return f"{scheme} is converted or emulated on this device ({name}; its cores take it from {version_of(least)} on)"


def _scheme(stored: str) -> str:
    """The family of a format; MXFP4 is one of GGUF's too."""
    return "mxfp" if stored.startswith("mxfp") else weight_scheme(stored)
