"""launchd's property lists (launchd.plist(5)): ProgramArguments with EnvironmentVariables. No shell: the words are as they stand."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Iterator
from xml.parsers.expat import ExpatError

from kvplan.engines.common.words import Place, Word
from kvplan.errors import SpecError
from kvplan.manifests.command import Start, scripts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.script import read_script
from kvplan.manifests.words import Command


def is_plist(source: str) -> bool:
    """By its name."""
    return source.lower().endswith(".plist")


def read(text: str, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines that the agent or daemon starts. Raises SpecError where it is no property list.

    A comment may have `--` in it, which XML forbids and launchd takes (CoreFoundation's CFPropertyList.c, skipXMLComment).
    """
    text = re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    try:
        job = plistlib.loads(text.encode(), fmt=plistlib.FMT_XML)
    except (ExpatError, plistlib.InvalidFileException, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise SpecError(source, [("", f"not a property list: {error}")]) from None
    job = job if isinstance(job, dict) else {}
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines, 1) if "ProgramArguments" in line), 1)
    arguments, variables = job.get("ProgramArguments"), job.get("EnvironmentVariables")
    said = arguments if isinstance(arguments, list) else []
    env = {str(key): Word(str(value), Place(at)) for key, value in variables.items()} if isinstance(variables, dict) else {}
    command = Command(tuple(Word(str(part), Place(at)) for part in said), env, Place(at), max(len(lines), 1))
    for start in scripts(read_script("", source)._replace(commands=(command,) if said else ()), source):
        yield start, Site(str(job.get("Label") or ""), why=NO_DEVICE, place=Place(at), span=(1, max(len(lines), 1)))
