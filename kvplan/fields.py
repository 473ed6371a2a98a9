"""Records: classes whose annotations are checked by pydantic's core.

`pydantic.BaseModel` takes longer to import, and to build its classes, than a whole estimate takes. A Record is what remains of it for
plain data: strict types, bounds, unknown keys refused, frozen, every fault with its path. The validator of a class is built when the
first value of it is checked.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from pydantic_core import CoreSchema, SchemaValidator, core_schema

_NOTHING: Any = object()


class Between(NamedTuple):
    """Bounds of a number, both included; of a text or a list: of its length. Use in Annotated."""

    low: int | float
    high: int | float


class Matching(NamedTuple):
    """A pattern that a whole text matches. Use in Annotated."""

    pattern: str


class Record:
    """Base of checked records. Fields are annotations; a class attribute is a default. Construct by `check` or with keywords."""

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
    _validator: ClassVar[SchemaValidator]
    model_config: ClassVar[dict[str, str]] = {"extra": "forbid"}  # what the JSON Schema generator reads of a class

    def __init__(self, **data: Any) -> None:
        type(self).validator().validate_python(data, self_instance=self)

    @classmethod
    def check(cls, data: Any) -> Self:
        """A checked record from a mapping (or a record already). Raises pydantic_core.ValidationError with every fault."""
        checked: Self = cls.validator().validate_python(data)
        return checked

    def agree(self, _: Any) -> None:
        """What must hold between fields; raises ValueError. A subclass that adds to it calls its parent's."""

    @classmethod
    def hints(cls) -> dict[str, tuple[Any, Any]]:
        """Field -> annotation and default (_NOTHING: required)."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: (hint, getattr(cls, name, _NOTHING)) for name, hint in hints.items() if get_origin(hint) is not ClassVar}

    @classmethod
    def validator(cls) -> SchemaValidator:
        """The validator of this class, built once."""
        if "_validator" not in cls.__dict__:
            cls._validator = SchemaValidator(_record(cls))
        return cls._validator

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of this class, by pydantic's own generator."""
        from pydantic.json_schema import GenerateJsonSchema

        return GenerateJsonSchema().generate(_record(cls))

    def changed(self, **changes: Any) -> Self:
        """A copy with other values, checked like the first."""
        return type(self).check({**self.__dict__, **changes})

    def plain(self) -> dict[str, Any]:
        """What was declared, as plain data: defaults left out, tuples as lists."""
        cls = type(self)
        return {name: _plain(value) for name, value in self.__dict__.items() if value != getattr(cls, name, _NOTHING)}

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.__dict__)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(v for v in self.__dict__.values() if not isinstance(v, dict))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.plain().items())})"


def _restore(cls: type[Record], values: dict[str, Any]) -> Record:
    record = object.__new__(cls)
    record.__dict__.update(values)
    return record


def _record(cls: type[Record]) -> CoreSchema:
    fields = {}
    for name, (hint, default) in cls.hints().items():
        schema = _core(hint)
        if default is not _NOTHING:
            schema = core_schema.with_default_schema(schema, default=default)
        fields[name] = core_schema.model_field(schema)
    model_fields = core_schema.model_fields_schema(fields, extra_behavior="forbid")
    return core_schema.model_schema(cls, model_fields, post_init="agree", frozen=True)


_SCALARS: dict[Any, CoreSchema] = {
    int: core_schema.int_schema(strict=True),
    bool: core_schema.bool_schema(strict=True),
    str: core_schema.str_schema(strict=True),
    float: core_schema.float_schema(strict=True, allow_inf_nan=False),
    Any: core_schema.any_schema(),
}
_BOUNDS = {"int": ("ge", "le"), "float": ("ge", "le"), "str": ("min_length", "max_length"), "tuple": ("min_length", "max_length")}


def _core(hint: Any) -> CoreSchema:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return core_schema.literal_schema(list(args))
    if origin is Annotated:
        schema: Any = dict(_core(args[0]))
        for limit in args[1:]:
            if isinstance(limit, Between):
                low, high = _BOUNDS.get(schema["type"], ("min_length", "max_length"))
                schema |= {low: limit.low, high: limit.high}
            else:
                schema["pattern"] = f"^(?:{limit.pattern})$"
        return schema  # type: ignore[no-any-return]
    if origin in (UnionType, Union):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return core_schema.nullable_schema(_core(inner))
    if origin is tuple:
        return core_schema.tuple_variable_schema(_core(args[0]))
    if origin is dict:
        return core_schema.dict_schema(_core(args[0]), _core(args[1]))
    if isinstance(hint, type) and issubclass(hint, Record):
        return _record(hint)
    raise TypeError(f"no schema for {hint!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.plain()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
