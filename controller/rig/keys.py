"""Which keys the rig description knows at a place, and how a number there is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.rig.description import Rig
from controller.rig.organs import Organs
from controller.rig.problems import Place
from controller.rig.quantities import InUnit

SHORT_FORMS: Mapping[type[BaseModel], tuple[str, ...]] = {Organs: ("heart",), Rig: ("plates",)}
"""Keys that loading replaces by others (:mod:`controller.rig.forms`, :mod:`controller.rig.plates`)."""


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a part by the name they have in the file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def inner(kind: Any) -> Any:
    """Return `kind` without `| None` and without annotations."""
    if get_origin(kind) is Annotated:
        return inner(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        return inner(options[0]) if len(options) == 1 else kind
    return kind


def kind_at(place: Place) -> Any:
    """Return the type that the description has at `place` (None where it has nothing)."""
    kind: Any = Rig
    for step in place:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = keys_of(kind).get(str(step))
            kind = inner(field.annotation) if field else None
        elif get_origin(kind) is dict:
            kind = inner(get_args(kind)[1])
        elif get_origin(kind) is tuple:
            kind = inner(get_args(kind)[0])
        else:
            return None
    return kind


def known_keys(place: Place) -> list[str]:
    """Return the keys that may stand at `place`; empty where names are free."""
    kind = kind_at(place)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return []
    return sorted([*keys_of(kind), *SHORT_FORMS.get(kind, ())])


def unit_at(place: Place) -> str | None:
    """Return the unit in which the number at `place` is kept; None where no quantity belongs."""
    part = kind_at(place[:-1])
    if not (place and isinstance(part, type) and issubclass(part, BaseModel)):
        return None
    field = keys_of(part).get(str(place[-1]))
    return _unit((*field.metadata, *_annotations(field.annotation))) if field else None


def _annotations(kind: Any) -> Sequence[Any]:
    if get_origin(kind) is Annotated:
        return get_args(kind)[1:]
    if get_origin(kind) in (Union, UnionType):
        return [mark for option in get_args(kind) for mark in _annotations(option)]
    return ()


def _unit(marks: Sequence[Any]) -> str | None:
    return next((mark.unit for mark in marks if isinstance(mark, InUnit)), None)
