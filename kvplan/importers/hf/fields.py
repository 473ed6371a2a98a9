"""A config read key by key. A key is there, or has the class default of its transformers class (noted), or is a fault."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kvplan.errors import SpecError
from kvplan.importers.hf.as_read import as_read
from kvplan.importers.hf.classes import class_defaults, class_part, in_words
from kvplan.spec import MAX_LAYERS

MOST = 1 << 24
#: Without any of these a flat config says nothing about its model: it is not the file of a checkpoint.
SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
#: Keys that transformers itself takes for one another in many classes (attribute_map).
SAME = {
    "num_experts": ("num_experts", "num_local_experts"),
    "num_local_experts": ("num_local_experts", "num_experts"),
    "n_routed_experts": ("n_routed_experts", "num_local_experts"),
}


class Fields:
    """One mapping of a config with its dotted path.

    file      what the file has; data: the same as the configuration class of `model_type` has it once read
    chosen    patterns of layers in `data` that the class chose, in words
    names     canonical key -> the names this family uses, first one first
    defaults  class defaults; what is taken from them goes into `assumed`, which all parts of one config share
    """

    def __init__(
        self, data: Mapping[str, Any], source: str, *, model_type: str = "", path: str = "", assumed: dict[str, Any] | None = None
    ) -> None:
        self.file, self.source, self.model_type, self.path = data, source, model_type, path
        self.data: Mapping[str, Any]
        self.data, self.chosen = as_read(data, model_type)
        self.assumed: dict[str, Any] = {} if assumed is None else assumed
        self.names: Mapping[str, tuple[str, ...]] = SAME
        self.defaults: Mapping[str, Any] = class_defaults().get(model_type, {})

    def named(self, names: Mapping[str, tuple[str, ...]], defaults: Mapping[str, Any]) -> Fields:
        """The same mapping under a family's names, with the family's own defaults before the class's."""
        view = copy.copy(self)
        view.names, view.defaults = {**self.names, **names}, {**self.defaults, **defaults}
        return view

    def of_class(self, model_type: str) -> Fields:
        """The same mapping of the file as another class reads it."""
        return Fields(self.file, self.source, model_type=model_type, path=self.path, assumed=self.assumed)

    def over(self, own: Mapping[str, Any]) -> Fields:
        """The same mapping with what one layer says for itself over it."""
        view = copy.copy(self)
        view.data = {**self.data, **own}
        return view

    def part(self, key: str, model_type: str = "") -> Fields:
        """A nested config. Its class: what this class fixes, else what its own `model_type` says, else `model_type`.

        Absent, it is what this class makes of it. Raises SpecError where it is no mapping and the class makes none.
        """
        data = self.data.get(key)
        declared = class_part(self.model_type, key)
        if data is None and declared:
            model_type, data = declared[0], declared[3]
            self.assumed[self.dotted(key)] = f"the class's own ({model_type})"
        if not isinstance(data, dict):
            raise self.fault(key, "missing; this architecture keeps its settings there" if data is None else "must be a mapping")
        own = data.get("model_type")
        if declared and not declared[1]:
            model_type = declared[0]
        elif isinstance(own, str) and own in class_defaults():
            model_type = own
        elif declared and declared[0] in class_defaults():
            model_type = declared[0]
        return Fields(data, self.source, model_type=model_type, path=self.dotted(key), assumed=self.assumed)

    def dotted(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def fault(self, key: str, message: str) -> SpecError:
        return SpecError(self.source, [(self.dotted(key), message)])

    @property
    def shaped(self) -> bool:
        """Whether the file says anything of the model's size, under any name."""
        return any(name in self.data for key in SHAPE for name in (key, *self.names.get(key, ())))

    def _spellings(self, key: str) -> tuple[str, ...]:
        """The names under which `key` may stand: the class's own where the file is of that class, since it reads past all others."""
        names = self.names.get(key, (key,))
        if self.file.get("model_type", self.model_type) != self.model_type:
            return names
        return tuple(name for name in names if name in self.defaults) or names

    def name_of(self, key: str) -> str:
        """The name under which the config has `key`, or the first it could have."""
        names = self._spellings(key)
        return next((name for name in names if name in self.data), names[0])

    def given(self, key: str) -> bool:
        """Whether the config itself says it (and not null)."""
        return self.data.get(self.name_of(key)) is not None

    def raw(self, key: str) -> Any:
        """The value, null included. Raises SpecError when it is neither in the config nor a class default."""
        names = self._spellings(key)
        for name in names:
            if name in self.data:
                if name in self.chosen:
                    self.assumed[self.dotted(name)] = self.chosen[name]
                return self.data[name]
        for name in (key, *names):
            if name in self.defaults and (self.path or key not in SHAPE or self.shaped):
                value = self.defaults[name]
                if value is not None:
                    self.assumed[self.dotted(names[0])] = value
                return value
        spelled = " or ".join(names)
        where = f" in {self.path}" if self.path else ""
        raise SpecError(self.source, [(self.dotted(names[0]), f"missing{where}; a {self.model_type or 'config'} states {spelled}")])

    def opt(self, key: str) -> Any:
        """The value, or None where neither the config nor the class has one."""
        names = self._spellings(key)
        stated = any(name in self.data for name in names)
        if stated or any(self.defaults.get(name) is not None for name in (key, *names)):
            return self.raw(key)
        return None

    def dim(self, key: str) -> int:
        """A positive whole number."""
        return self._whole(key, self.raw(key), 1)

    def dim_or(self, key: str, otherwise: int) -> int:
        """A positive whole number, or `otherwise` where the config has none or null."""
        value = self.opt(key)
        return otherwise if value is None else self._whole(key, value, 1)

    def count(self, key: str) -> int:
        """A whole number, zero too; null and absent are zero."""
        value = self.opt(key)
        return 0 if value is None else self._whole(key, value, 0)

    def flag(self, key: str) -> bool:
        """true or false; null and absent are false."""
        value = self.opt(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.fault(self.name_of(key), f"must be true or false (is {value!r:.60})")

    def text(self, key: str) -> str | None:
        value = self.opt(key)
        if value is None or isinstance(value, str):
            return value
        raise self.fault(self.name_of(key), f"must be text (is {value!r:.60})")

    def items(self, key: str, n: int | None = None, *, nested: bool = False) -> list[Any] | None:
        """A list, of `n` entries where `n` is given, or None. Raises SpecError for another length, and for entries that are no single
        values where they are not to be `nested`."""
        value = self.opt(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.fault(self.name_of(key), f"must be a list (is {value!r:.60})")
        if n is not None and len(value) != n:
            raise self.fault(self.name_of(key), f"has {len(value)} entries for {n} layers; correct one of them")
        if n is not None and not nested and any(isinstance(item, list | dict) for item in value):
            raise self.fault(self.name_of(key), "must hold one word or number for each layer, no lists or mappings")
        return value

    def listed(self, key: str, n: int, rule: list[Any], by: str = "") -> list[Any]:
        """`items`, else what the class's `rule` makes: noted, unless it follows the file's own key `by`."""
        found = self.items(key, n)
        if found is None and rule and not (by and self.given(by)):
            self.assumed[self.dotted(key)] = in_words(rule)
        return found or rule

    def dims(self, key: str, n: int) -> list[int]:
        """A list of exactly `n` positive whole numbers. Raises SpecError where there is none."""
        values = self.items(key, n)
        if values is None:
            raise self.fault(self.name_of(key), f"missing; it must be {n} numbers")
        return [self._whole(key, value, 1) for value in values]

    def whole(self, value: Any, key: str, least: int = 0) -> int:
        """`value`, taken from inside `key`, as a whole number."""
        return self._whole(key, value, least)

    def _whole(self, key: str, value: Any, least: int) -> int:
        most = MAX_LAYERS if "layers" in key else MOST
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        what = "a positive whole number" if least else "a whole number"
        raise self.fault(self.name_of(key), f"must be {what} of at most {most} (is {value!r:.60})")

    def divided(self, whole_key: str, part_key: str) -> int:
        """whole / part, which must come out even."""
        whole, part = self.dim(whole_key), self.dim(part_key)
        if whole % part:
            raise self.fault(self.name_of(part_key), f"{part} does not divide {self.name_of(whole_key)} ({whole})")
        return whole // part
