"""What a text says of engines beside starting them: the release that it installs, and what to say where it starts none."""

from __future__ import annotations

import re
from itertools import islice

from kvplan.engines.common.words import Finding, Place
from kvplan.manifests import images

MOST = 200  # places in a text that are looked at
_PACKAGES = {"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "tensorrt-llm": "tensorrt[-_]llm"}
_ENGINES = re.compile(
    r"\b(vllm|sglang(?:_router)?|trtllm-serve|tensorrt[-_]llm|llama[-.](?:server|cpp|swap)|ollama|kserve|lmdeploy|mlx_lm)\b", re.IGNORECASE
)


_OTHER = r"pip3? uninstall [^\n\"']{0,80}\b%s\b"
_OFF = re.compile(r"^[ ]*(?:- )?enabled:[ ]*false\b", re.MULTILINE)
_REGISTRY = re.compile(r"[\"']([\w./-]+:[\w.-]+)[\"']")
#: Programs of one's own that a script or a unit runs.
_RUNS = re.compile(
    r"^(?![ \t]*#).*?(?:\b(?:bash|sh|source)\s+[\"']?([\w./${}-]+\.sh)\b|^(?:exec\s+)?(\./[\w./-]+)[ \t]*$|^ExecStart=-?(/[\w./-]+)"
    r"|\b(?:envsubst\b[^\n|;]*?<|kubectl\b[^\n|;]*?\bapply\b[^\n|;]*?(?:-f|--filename)[ =])\s*[\"']?([\w./${}-]+\.ya?ml)"
    r"|\bpython[\d.]*\s+(?:-[uB]\s+)*(?:-m\s+((?:src|app|api|server|scripts)\.[\w.]+)|([\w./-]+\.py)))",
    re.MULTILINE,
)


def why_empty(text: str) -> tuple[str, int]:
    """What to say of a text that starts no engine, and on which line: it may name one all the same."""
    kustomization = re.search(r"^kind:\s*Kustomization\b", text, re.MULTILINE)
    if kustomization:
        return "a kustomization, which holds parts of manifests; check what `kustomize build` prints", 1 + text.count(
            "\n", 0, kustomization.start()
        )
    lines = ((n, line.split("#")[0]) for n, line in enumerate(text.splitlines(), 1))
    every_name = list(islice(((n, match[1]) for n, line in lines if (match := _ENGINES.search(line))), MOST))
    named = next((one for one in every_name if one[1].lower() != "kserve"), every_name[0] if every_name else None)
    if named is None:
        return "no command of an inference engine in it", 1
    every = [next(filter(None, match.groups())) for match in islice(_RUNS.finditer(text), MOST)]
    runs = [one for one in dict.fromkeys(every) if not one.endswith(("setvars.sh", "conda.sh", "nvm.sh"))]
    first = sorted(runs, key=lambda one: _ENGINES.search(one) is None)[:3]  # those whose name says an engine
    other = f"; {' and '.join(one[:80] for one in first)}, which it runs, {'are' if len(first) > 1 else 'is'} not read" if first else ""
    off = "; a part with `enabled: false` starts nothing" if _OFF.search(text) else ""
    return f"no command of an inference engine in it that can be followed, though it names {named[1]}{other}{off}", named[0]


def pinned(text: str) -> dict[str, tuple[str | None, Finding]]:
    """Engine -> the release that the file itself installs (`pip install vllm==0.11.0`, Modal's from_registry), where it names only one;
    None: it takes out the one of an image, and what it puts in its place has no number."""
    found: dict[str, tuple[str | None, Finding]] = {}
    images_ = {match[1]: match for match in islice(_REGISTRY.finditer(text), MOST)} if "from_registry(" in text else {}
    known = [(one, match) for name, match in images_.items() if (one := images.find(name)) and one.version]
    for one, match in known:
        if len({other.version for other, _ in known if other.engine == one.engine}) == 1 and one.version:
            message = f"{match[1]} is the one image of it in the file: taken to be what runs"
            found[one.engine] = (one.version, Finding("note", "note", message, Place(text.count("\n", 0, match.end()) + 1)))
    for engine, name in _PACKAGES.items():
        if (engine in found or re.search(r"^FROM ", text, re.MULTILINE)) and (out := re.search(_OTHER % name, text)):
            message = (
                f"the image's {engine} is taken out and another put in: which release that is does not stand here; give --engine-version"
            )
            found[engine] = (None, Finding("tag", "note", message, Place(text.count("\n", 0, out.end()) + 1)))
    for engine, name in _PACKAGES.items():
        pattern = re.compile(rf"^(?![ \t]*#).*?(?<![\w-]){name}(?:\[[\w,-]+\])?==v?(\d[\w.]*\d|\d)(?![\w.*])", re.MULTILINE)
        many = list(islice(pattern.finditer(text), MOST))
        if len({match[1] for match in many}) == 1:
            message = f"{name.replace('[-_]', '-')}=={many[0][1]} is installed: taken to be what runs"
            found[engine] = (many[0][1], Finding("note", "note", message, Place(text.count("\n", 0, many[0].end()) + 1)))
    return found
