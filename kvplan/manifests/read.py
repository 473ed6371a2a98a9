"""A file to what it starts. The kind of file is told by its content: YAML documents, a Modelfile, else a shell script or one command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice, pairwise
from pathlib import Path

from kvplan import engines, files
from kvplan.engines.common.words import Finding, Place, Word
from kvplan.errors import SpecError
from kvplan.manifests import (
    clouds,
    compose,
    dockerfile,
    downloads,
    hcl,
    helm,
    jobs,
    kserve,
    kubernetes,
    launchd,
    mentions,
    nix,
    nixos,
    pages,
    presets,
    python,
    ray,
    recipes,
    rented,
    requested,
    scattered,
    scenario,
    services,
    shaped,
    templates,
    units,
)
from kvplan.manifests.adapters import gguf_config
from kvplan.manifests.budget import bounded
from kvplan.manifests.called import with_called
from kvplan.manifests.command import Start, left_open, scripts
from kvplan.manifests.comments import comment, told
from kvplan.manifests.found import PRAGMA, ReadBeside, Site, make
from kvplan.manifests.marked import Item, documents
from kvplan.manifests.modelfile import is_modelfile, read_modelfile
from kvplan.manifests.script import read_script
from kvplan.manifests.values import Found
from kvplan.manifests.words import Sourced, Text

MAX_FILE_BYTES = 1 << 20
MAX_ENGINES = 300
MAX_COMMENTS = 200
WHAT = "no manifest or serve script is that large"
MAX_PARTS = 500
MAX_SOURCED = 8
#: Kinds of objects that start nothing and set nothing that is read.
ASIDE = frozenset({"Secret", "Service", "Namespace", "ServiceAccount", "Ingress", "PersistentVolumeClaim", "Role", "RoleBinding",
                   "PodMonitoring", "HorizontalPodAutoscaler", "Gateway", "HTTPRoute", "StorageClass", "PersistentVolume"})  # fmt: skip
#: Kinds of documents that are told by their keys, and what reads them; the first that one is of.
KINDS = (
    *rented.KINDS, (helm.is_values, helm.read), *clouds.KINDS, (services.is_truss, services.read_truss),
    (helm.is_chart, helm.read_other), *jobs.KINDS,
)  # fmt: skip
_YAML_NAME = re.compile(r"\.(ya?ml|json)$", re.IGNORECASE)
_YAML_START = re.compile(r"---(\s|$)|[A-Za-z_][\w./-]*\s*:(\s|$)|- |\{\s*\"")
_TEMPLATE = re.compile(r"^[ \t]*(-[ \t]*)?\{\{-?|:[ \t]*\{\{-?[ \t]|\{\{-?[ \t]*(if|range|include|end|with|define)\b", re.MULTILINE)


def read_text(path: str) -> str:
    """A file's text. Raises SpecError for what is no text, or larger than a manifest is."""
    return files.read_text(path, MAX_FILE_BYTES, WHAT)


def decoded(data: bytes, path: str) -> str:
    """Bytes as the text of a manifest. Raises SpecError as read_text does."""
    return files.decoded(files.bounded(data, path, MAX_FILE_BYTES, WHAT), path)


def read_file(path: str, env: Mapping[str, str] | None = None, version: str | None = None) -> list[Found]:
    """What a file starts. Raises SpecError where it can not be read."""

    def beside(name: str) -> str | None:
        other = Path(path).parent / name
        try:
            inside = ".." not in Path(name).parts or _is_inside(other, Path(path))
            if Path(name).is_absolute() or not inside or not os.path.isfile(other):
                return None
            return gguf_config(other) if name.endswith(".gguf") else read_text(str(other))
        except (OSError, ValueError):
            return None

    return read(read_text(path), path, env, beside, version)


def _is_inside(other: Path, checked: Path) -> bool:
    """Whether a file above the checked one is of the same repository."""
    root = next((folder for folder in checked.resolve().parents if os.path.exists(folder / ".git")), None)
    return root is not None and root in other.resolve().parents


def read(
    text: str, source: str, env: Mapping[str, str] | None = None, beside: ReadBeside = lambda _: None, version: str | None = None
) -> list[Found]:
    """What a text starts, in its order.

    source  the name it goes by; `.yaml`, `.yml` and `.json` are read as YAML whatever they hold
    env     variables that may be expanded; None: only those that the file sets
    beside  reads a file next to it, for --config
    version the release whose options they are, whatever the text says
    """
    given = {name: Word(value) for name, value in (env or {}).items()}
    try:
        with bounded(source):
            pairs = list(islice(_filled_in(text, source, given, beside), MAX_ENGINES + 1))
            pairs = [(start._replace(version=version), site) for start, site in pairs] if version else pairs
            if len(pairs) > MAX_ENGINES:
                message = f"starts more than {MAX_ENGINES} engines; check it in parts"
                raise SpecError(source, [(f"line {pairs[-1][0].place.line}", message)])
            found = [one for start, site in pairs if (one := make(start, site, source, beside)) is not None]
            if not found:  # a file of one of the later nodes
                found = [one for start, site in pairs[:1] if (one := make(start, site, source, beside, joins=True)) is not None]
            held = downloads.of_text(text) if any("/" in (one.model or "") for one in found) else {}
            return _pragmas(_without_repeats([downloads.told(one, held) for one in found]), text, source)
    except RecursionError:
        raise SpecError(source, [("", "nested too deep")]) from None


def _filled_in(text: str, source: str, env: Mapping[str, Word], beside: ReadBeside) -> Iterator[tuple[Start, Site]]:
    """What a text starts, or what one that another tool fills in first will."""
    findings, unresolved = templates.said(text, source)
    name, plain, pins = templates.plain_name(source), templates.filled(text, source), mentions.pinned(text)
    try:
        found = _starts(plain, name, env, beside)
        if name != source:  # two branches may say the same key
            try:
                found = iter(list(found))
            except SpecError:
                found = _starts(templates.filled(text, source, last=True), name, env, beside)
        for start, site in found:
            if start.engine in pins and (start.version is None or pins[start.engine][0] is None):
                faults = tuple(one for one in start.faults if one.rule != "tag")
                start = start._replace(version=pins[start.engine][0], faults=faults)
                site = site._replace(findings=(*site.findings, pins[start.engine][1]))
            yield start, site._replace(findings=(*site.findings, *findings), unresolved=(*site.unresolved, *unresolved))
    except SpecError as error:
        raise SpecError(source, error.faults) from None


def _starts(text: str, source: str, env: Mapping[str, Word], beside: ReadBeside) -> Iterator[tuple[Start, Site]]:
    if is_modelfile(text, source):
        yield from read_modelfile(text)
        return
    if units.is_unit(text, source):
        yield from units.read(text, source, beside)
        return
    if dockerfile.is_dockerfile(text, source):
        yield from dockerfile.read(text, source, beside)
        return
    if presets.is_presets(text, source):
        yield from presets.read(text)
        return
    if hcl.is_terraform(source):
        yield from hcl.read(text, source, lambda held: _held(held, source, env, beside))
        return
    if nix.is_nix(source):
        yield from nixos.read(text, source)
        return
    if python.is_python(source):
        yield from python.read(text, source, Place(), env)
        return
    if launchd.is_plist(source):
        yield from launchd.read(text, source)
        return
    if pages.is_page(source):
        for block in pages.blocks(text):
            yield from _block(block, source, env, beside)
        return
    if _is_yaml(text, source) and not recipes.is_make(source):
        found, broken = _documents(text, source)
        starts = (one for n, document in enumerate(found, 1) for one in _document(document, found, n, source, env, beside))
        first = list(islice(starts, 1)) or [one for n, document in enumerate(found, 1) for one in _scattered(document, n, source)]
        for n, (start, site) in enumerate(chain(first, starts)):
            aside = [finding for finding in broken if finding.severity != "error"]
            yield start, site._replace(findings=(*site.findings, *aside)) if not n else site
        for finding in broken:
            if finding.severity == "error":
                yield Start("", (), {}, finding.place, finding.place.line, opaque=finding.message), Site(source)
        return
    if recipes.is_windows(source):
        text = recipes.of_windows(text, source)
    apart = recipes.is_make(source)
    text = recipes.as_shell(text, source) if apart else text
    script = with_called(read_script(text, source, env={**requested.slurm_variables(text), **env}, ends=True, beside=beside), beside)
    if scenario.is_scenario(script):
        yield from scenario.read(script, source)
        return
    cut, job = (*_windows(text, source), *map(_sourced, script.sourced[:MAX_SOURCED])), requested.of_slurm(text)
    runs, ray = scripts(script, source), any(("ray", "start") in pairwise(w.text for w in one.words) for one in script.commands)
    for start in runs:
        site = Site(name="", host="" if apart else start.host, on=start.on, findings=cut, cluster=ray)  # one recipe or another is run
        yield start, _in_job(start, site, job) if job else site
    for here in script.texts:
        for start, site in _here(here, source, env, beside, runs=any(start.words for start in runs)):
            yield start, site._replace(findings=(*site.findings, *cut))


def _held(held: Item, source: str, env: Mapping[str, Word], beside: ReadBeside) -> Iterator[tuple[Start, Site]]:
    """The engines of YAML that stands in another language: its text, or its mapping."""
    if isinstance(held.value, dict):
        return _document(held, [held], 1, source, env, beside)
    return _block(pages.Block(held.text, True, held.body.line), source, env, beside)


def _block(block: pages.Block, source: str, env: Mapping[str, Word], beside: ReadBeside) -> Iterator[tuple[Start, Site]]:
    """The engines of one block of a page; one that can not be read and names an engine is said."""
    base = Place(block.line)
    try:
        if block.is_yaml:
            found = documents(block.text, source, base)
            yield from [pair for n, document in enumerate(found, 1) for pair in _document(document, found, n, source, env, beside)]
        else:
            script = read_script(block.text, source, base=base, env=env)
            yield from [(start, Site("", on=start.on)) for start in scripts(script, source)]
    except SpecError as error:
        if "it names" in mentions.why_empty(block.text)[0]:
            why = f"the block of line {block.line} is not read: {error.faults[0][1]}"
            yield Start("", (), {}, base, block.line, opaque=why), Site(source)


def _in_job(start: Start, site: Site, job: requested.Job) -> Site:
    """One start of a Slurm job: an engine that takes the devices as they are has those of its node."""
    held, takes = job.hardware, start.engine in engines.served() and engines.arguments(start.engine).takes_devices
    nodes = 1 if job.whole or takes else job.nodes
    n_devices = None if takes and job.whole and job.nodes > 1 else held.n_devices
    return site._replace(device=held.device, n_devices=n_devices, nodes=nodes, why=held.why, place=held.place, shared=job.nodes > 1)


def _scattered(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """What stands in a document of no known kind; one of a known kind starts nothing where its own reader finds nothing."""
    if scattered.options_of(document):
        yield from scattered.read_options(document, n)
    elif not kserve.is_kserve(document) and document.get("kind").text not in kubernetes.OTHERS - {"ConfigMap"}:
        yield from scattered.read(document, n, source)


def _sourced(one: Sourced) -> Finding:
    if one.is_read:
        return Finding("config-read", "note", f"{one.name} is read from beside this file", one.place)
    message = f"{one.name} is taken in (source) and is not at hand: a variable that it sets would stand instead of a default here"
    return Finding("not-read", "note", message, one.place)


def _windows(text: str, source: str) -> tuple[Finding, ...]:
    """A POSIX shell continues no line at a `\\` that a carriage return follows: what is on the next line does not reach the engine."""
    at = text.find("\\\r\n")
    if at < 0:
        return ()
    message = "lines end in CR LF: a shell would cut the command here and hand the engine a stray word; save it with LF"
    return (Finding("carriage-return", "warning", message, Place(text.count("\n", 0, at) + 1), source),)


def _documents(text: str, source: str) -> tuple[list[Item], list[Finding]]:
    """The documents of a YAML text; of one that can not be read, what is wrong with it: the others are read all the same.

    Raises SpecError where none is left, with the words for a Helm template where it is one.
    """
    try:
        return documents(text, source), []
    except SpecError as error:
        if (plain := templates.unmarked(text)) != text and not _TEMPLATE.search(plain):
            message = "another tool fills in its {{NAME}} or %{ if } first: what that puts there, or leaves out, is not read"
            return documents(plain, source), [Finding("template", "note", message, Place(_line_of(_TEMPLATE, text)), source)]
        if _TEMPLATE.search(text) and not re.search(r"^---(\s|$)", text.strip(), re.MULTILINE):
            raise _template(text, source) from None
        whole = error
    found: list[Item] = []
    broken: list[Finding] = []
    lines = text.splitlines(keepends=True)
    marks = [n for n, line in enumerate(lines) if re.match(r"---(\s|$)", line)]
    for start, end in pairwise([0, *marks[:MAX_PARTS], len(lines)]):
        part = "".join(lines[start:end])
        try:
            found += documents(part, source, Place(start + 1))
        except SpecError as error:
            at, message = error.faults[0]
            line = int(at.removeprefix("line ")) if at.removeprefix("line ").isdecimal() else start + 1
            kind = re.search(r"^kind:\s*(\w+)", part, re.MULTILINE)
            aside = kind is not None and kind[1] in ASIDE
            message = f"the document of line {start + 1} is not read: {message}"
            broken.append(Finding("unreadable", "warning" if aside else "error", message, Place(line, 1), source))
    if not found:
        if _TEMPLATE.search(text):
            raise _template(text, source)
        raise whole
    return found, broken


def _template(text: str, source: str) -> SpecError:
    message = "a Helm template, not a manifest: check its values file, or what `helm template` prints"
    return SpecError(source, [(f"line {_line_of(_TEMPLATE, text)}", message)])


def _here(here: Text, source: str, env: Mapping[str, Word], beside: ReadBeside, *, runs: bool) -> Iterator[tuple[Start, Site]]:
    """A manifest that a script hands to kubectl or writes to a file, a unit that it writes, or a script that one which `runs` no engine
    itself writes; other texts start nothing."""
    try:
        if here.text.startswith("#!"):
            inner = [] if runs else scripts(read_script(here.text, source, base=here.place, env=env), source)
            pairs: Iterator[tuple[Start, Site]] = ((start, Site("")) for start in inner)
        elif units.is_unit(here.text, ""):
            pairs = units.read(here.text, source, beside, here.place)
        else:
            found = documents(here.text, source, here.place)
            pairs = (pair for n, document in enumerate(found, 1) for pair in _document(document, found, n, source, env, beside))
    except SpecError:
        return
    for start, site in pairs:
        yield left_open(start, here.missing), site


def _document(
    document: Item, others: list[Item], n: int, source: str, env: Mapping[str, Word], beside: ReadBeside
) -> Iterator[tuple[Start, Site]]:
    own = list(ray.read(document, others, n, source, beside)) if ray.is_ray(document) else []
    yield from own
    for values in helm.inner(document, source):
        yield from _document(values, others, n, source, env, beside)
    if shaped.is_shaped(document):
        yield from shaped.read(document, n, source)
    elif services.is_service(document):
        yield from services.read(document, [one for other in others for one in kubernetes.objects(other)], n, source)
    elif kubernetes.is_object(document):
        every = [one for other in others for one in kubernetes.objects(other)]
        for one in kubernetes.objects(document):
            for start, site in (kserve if kserve.is_kserve(one) else kubernetes).read(one, every, n, source):
                if not (own and start.opaque):  # pods of the cluster that an application runs on
                    yield start, site
    elif document.get("services") and not rented.is_akash(document) and compose.is_compose(document):
        yield from compose.read(document, n, source, env, beside)
    elif reader := next((reader for is_one, reader in KINDS if is_one(document)), None):
        yield from reader(document, n, source)


def _is_yaml(text: str, source: str) -> bool:
    """By its name; a text without one that says so is YAML when its first line that says anything is a key, a list or a document mark."""
    if _YAML_NAME.search(source):
        return True
    if "." in source.rsplit("/", 1)[-1].removeprefix(".") or text.startswith("#!"):
        return False
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(_YAML_START.match(first))


def _line_of(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else 1


def _pragmas(found: list[Found], text: str, source: str) -> list[Found]:
    """`# kvplan: device=h100 batch=16` comments: inside an engine's lines they are its own; before all engines of their YAML document
    (or before a command of a script) they hold for those that follow."""
    many = list(islice(PRAGMA.finditer(text), MAX_COMMENTS + 1))
    if len(many) > MAX_COMMENTS:
        raise SpecError(source, [(f"line {text.count(chr(10), 0, many[-1].start()) + 1}", f"more than {MAX_COMMENTS} kvplan comments")])
    lines = text.splitlines()
    parts = [0]
    for line in lines:
        parts.append(parts[-1] + bool(re.match(r"---(\s|$)", line)))
    is_script = not _YAML_NAME.search(templates.plain_name(found[0].file)) and parts[-1] == 0 if found else False
    for number, line in enumerate(lines, 1):
        match = PRAGMA.search(line)
        if match is None or any(line[: match.start()].count(quote) % 2 for quote in "'\""):
            continue  # none, or inside a quoted word
        inside = [n for n, f in enumerate(found) if f.span[0] <= number <= f.span[1]]
        after = [n for n, f in enumerate(found) if f.span[0] > number and parts[f.span[0]] == parts[number]]
        place = Place(number, match.start() + 1)
        given, faults = comment(match[1], place)
        for n in inside or (after[:1] if is_script else after):
            found[n] = told(found[n], given, [fault._replace(file=found[n].file) for fault in faults])
            faults = []  # said once
    return found


def _without_repeats(found: list[Found]) -> list[Found]:
    """A leader and a worker that run the same command are one engine."""
    kept: list[Found] = []
    for one in found:
        same = any(
            k.name.rsplit("/", 1)[0] == one.name.rsplit("/", 1)[0]
            and one.name.startswith("LeaderWorkerSet/")
            and (k.engine, k.model, k.question) == (one.engine, one.model, one.question)
            for k in kept
        )
        if not same:
            kept.append(one)
    return kept
