"""Arguments as an engine prints them in its start-up log, against its table: `{'max_model_len': 8192}`, `ServerArgs(tp_size=2)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kvplan.engines.common.arguments import Argument, Arguments
from kvplan.engines.common.kinds import KINDS, truth, written
from kvplan.engines.common.words import Given, Place

#: Printed values that mean: not chosen.
UNSET = (None, "", "None", "auto")


def by_printed(table: Arguments) -> dict[str, Argument]:
    """Printed names -> rows: every spelling without its dashes, the names that only logs have, and keys of the configuration file."""
    found: dict[str, Argument] = {}
    for one in table.rows:
        for name in (*one.names, *one.printed, *((one.key,) if one.key else ())):
            found.setdefault(name.lstrip("-").replace("-", "_"), one)
    return found


def read_printed(table: Arguments, pairs: Mapping[str, Any], inner: Callable[[str], Mapping[str, Any]], line: int = 1) -> dict[str, Given]:
    """Options by what they set. What is not chosen, has no memory in it or is no value of its option is left out.

    inner   reads the text of an object inside: `KvCacheConfig(dtype='fp8')` -> its pairs
    """
    rows = by_printed(table)
    groups = {name.partition(".")[0] for name in rows if "." in name}
    flat: dict[str, Any] = {}
    for name, value in pairs.items():
        held = inner(value) if name in groups and isinstance(value, str) else value
        flat |= {f"{name}.{key}": one for key, one in held.items()} if name in groups and isinstance(held, Mapping) else {name: value}
    given: dict[str, Given] = {}
    for name, value in flat.items():
        one = rows.get(name)
        if one is None or not one.to:
            continue
        empty = value is None and one.kind == "json" and bool(one.key)  # in a file, nothing is a value
        if value in UNSET and not empty and not (value == "auto" and one.kind == "on_off_auto"):
            continue
        try:
            read = None if empty else _value(one, value)
        except ValueError:
            continue
        if read is not None or empty:
            given[one.to] = Given(read, name, Place(line))
    return given


def _value(row: Argument, value: Any) -> Any:
    """A printed value as the option's kind reads it; None for an option that is off as it is by itself. Raises ValueError."""
    if row.takes in ("flag", "switch"):
        on = value if isinstance(value, bool) else truth(str(value))
        return row.value if on else None if row.takes == "flag" else not row.value
    if row.takes == "many":
        return [str(part) for part in value] if isinstance(value, (list, tuple)) else [str(value)]
    if isinstance(value, (dict, list, tuple)):
        if row.kind in ("json", "limits"):
            return value
        return KINDS[row.kind].read(",".join(str(part) for part in value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a finite number")
    return KINDS[row.kind].read(written(value))
