"""As much of a rig as can be read from a file that is not sound.

Parts that do not fit the description are simply absent, so that the rules over the whole rig can still judge the rest
and a reader sees every mistake at once. A sketch never leaves the loading room: nothing is run from it.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeGuard, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from controller.rig.description import Rig
from controller.rig.keys import inner, keys_of


def sketch(data: dict[str, Any]) -> Rig:
    """Build a rig from data that may be incomplete or wrong; a part that is raises AttributeError when it is used."""
    return cast(Rig, _part(Rig, data))


def _part(model: type[BaseModel], data: object) -> BaseModel:
    given = data if isinstance(data, dict) else {}
    good: dict[str, Any] = {}
    bad: list[str] = []
    for key, field in keys_of(model).items():
        if key in given:
            try:
                good[key] = _value(field, given[key])
            except ValidationError:
                bad.append(key)
    part = model.model_construct(**good)
    for name, field in model.model_fields.items():
        if (field.alias or name) in bad:
            part.__dict__.pop(name, None)  # a default must not stand in for what was meant otherwise
    return part


def _value(field: FieldInfo, raw: object) -> Any:
    kind = inner(field.annotation)
    if _is_model(kind):
        return None if raw is None and not field.is_required() else _part(kind, raw)
    if get_origin(kind) is dict and isinstance(raw, dict):
        item = inner(get_args(kind)[1])
        if _is_model(item):
            return {str(name): _part(item, value) for name, value in raw.items()}
    whole: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(whole).validate_python(raw)


def _is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
