"""Where, among the words of ssh, tmux, docker and their like, the command stands that they run: a name before it is none. What a shell
loses of one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvplan.engines.common.words import Finding, Word
from kvplan.manifests.programs import CONTAINERS, LAUNCHERS, RUNS, base
from kvplan.manifests.words import Command

#: Programs that run none of the names that they are told.
IDLE = frozenset({
    "systemctl", "service", "rc-service", "journalctl", "supervisorctl", "launchctl", "loginctl", "pkill", "pgrep", "kill", "killall",
    "pidof", "ps", "ss", "lsof", "fuser", "cp", "mv", "ln", "ls", "rm", "install", "chmod", "chown", "chgrp", "setcap", "restorecon",
    "chcon", "tail", "head", "cat", "less", "grep", "sed", "awk", "tee", "touch", "mkdir", "rmdir", "test", "stat", "file", "ldd",
    "strip", "which", "whereis", "curl", "wget", "tar", "unzip", "rsync", "scp", "git", "cmake", "ninja", "apt", "apt-get", "dnf",
    "yum", "pacman", "zypper", "brew", "ufw", "useradd", "usermod", "groupadd", "update-alternatives",
})  # fmt: skip
_TMUX = re.compile(r"new(-session|-window|w)?|split(-window|w)|respawn(-pane|-window|p|w)|send(-keys)?")
#: Options that take a word, by program: those of containers before and behind the verb.
_TAKES = {
    "ssh": re.compile(r"-[BbcDEeFIiJLlmOopQRSWw]"),
    "screen": re.compile(r"-\w*S|-[hprsTtc]"),
    "systemd-run": re.compile(r"-[upEMHt]|--(unit|property|slice|description|uid|gid|setenv|working-directory)"),
    "tmux": re.compile(r"-\w*[tsncxyFefLS]"),
    "docker": re.compile(r"-[euwfplv]|--(env|env-file|user|workdir|detach-keys|file|project-name|project-directory|profile|volume|name)"),
}


def runs_from(found: Sequence[Word]) -> int | None:
    """The first word that may be a command which the words before it run; None where they run none of these words."""
    at = n = 0
    while n < len(found):
        name, rest = base(found[n].text), found[n + 1 :]
        if name in CONTAINERS and [w.text for w in rest if w.text != "container"][:1] in ([run] for run in RUNS):
            return at
        behind = _behind(name, rest)
        if behind is not None and behind < 0:
            return None
        if behind is None and not (name in LAUNCHERS or re.match(r"-|\d|[A-Za-z_]\w*=", name) or (n > at and found[n - 1].text[:1] == "-")):
            return None if name in IDLE else at
        at, n = (at, n + 1) if behind is None else (n + 1 + behind, n + 1 + behind)
    return at


def _behind(name: str, rest: Sequence[Word]) -> int | None:
    """How many words of its own such a program has; -1: it runs none of them, None: it is none such."""
    if name in ("ssh", "systemd-run"):
        return _past(rest, 0, int(name == "ssh"), name)
    if name in ("kubectl", "oc"):
        return next((n + 1 for n, w in enumerate(rest) if w.text == "--"), -1)
    if name == "screen":
        sent = next((n + 1 for n, w in enumerate(rest) if w.text == "stuff"), -1)
        return sent if any(w.text == "-X" for w in rest) else _past(rest, 0, 0, name)
    if name == "tmux":
        verb = _past(rest, 0, 0, name)
        return _past(rest, verb + 1, 0, name) if verb < len(rest) and _TMUX.fullmatch(rest[verb].text) else -1
    if name in (*CONTAINERS, "docker-compose", "podman-compose"):
        verb = _past(rest, 0, 0, "docker")
        if verb < len(rest) and rest[verb].text in ("compose", "container"):
            verb = _past(rest, verb + 1, 0, "docker")
        if verb >= len(rest) or rest[verb].text not in ("exec", "run"):
            return -1
        own = _past(rest, verb + 1, 0, "docker")  # `compose run vllm serve MODEL`: the service's image begins the command
        return own if [w.text for w in rest[own + 1 : own + 2]] == ["serve"] else _past(rest, own, 1, "docker")
    return None


def _past(rest: Sequence[Word], n: int, names: int, program: str) -> int:
    """Where the words stand that come behind options, their values and so many names."""
    while n < len(rest) and (rest[n].text.startswith("-") or names):
        names -= not rest[n].text.startswith("-")
        n += 2 if _TAKES[program].fullmatch(rest[n].text) else 1
    return n


def lost_behind(after: Sequence[Command]) -> tuple[Finding, ...]:
    """A command that is an option: the line before it was to go on, and does not."""
    first = after[0].words[0] if after else Word("")
    if not re.match(r"--[a-z]", first.text):
        return ()
    message = f"the shell takes {first.text[:60]} for a command: the line before does not end in a lone \\, and the engine never sees it"
    return (Finding("cut-command", "warning", message, first.place),)


def in_a_remark(text: Word) -> tuple[Finding, ...]:
    """An option behind a `#` of a shell's text that YAML has folded to one line: the shell takes no notice of it."""
    match = re.search(r"(?<=\s)#[^\n]*?\s(--[a-z][\w-]*)", text.text) if text.breaks else None
    if match is None:
        return ()
    message = f"{match[1]} stands behind a # in a text that is folded to one line: the shell skips it and all that follows on it"
    return (Finding("cut-command", "warning", message, text.place),)
