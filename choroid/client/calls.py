"""Requests of the controller's HTTP API, and how their answers are read. Nothing is sent here.

A field that a newer controller adds is ignored; one that an older controller does not send is an error that names it.
"""

from __future__ import annotations

import types
from collections.abc import Generator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from choroid.client.errors import ClientError, ConnectionFailed
from choroid.client.methods import ClientRequest
from choroid.client.transport import ApiCall

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dialogue(ClientRequest[T]):
    """Makes one answer of several calls: `steps` yields each call and is sent what it was answered."""

    steps: Generator[ApiCall[Any], Any, T]


def get(path: str, kind: type[T]) -> ApiCall[T]:
    """Return a question with one answer.

    Args:
        path: Path and query, such as `/api/state`.
        kind: Dataclass of the answer.

    Returns:
        The request.
    """
    return ApiCall("GET", path, lambda answer: parsed(kind, answer, path))


def get_list(path: str, key: str, kind: type[T]) -> ApiCall[list[T]]:
    """Return a question whose answer is an object with a list.

    Args:
        path: Path and query.
        key: Key of the answer under which the list is.
        kind: Dataclass of each entry of the list.

    Returns:
        The request; its answer is the list.
    """
    return ApiCall("GET", path, lambda answer: [parsed(kind, each, path) for each in answer[key]])


def post(path: str, body: Mapping[str, Any], kind: type[T], seen: str = "") -> ApiCall[T]:
    """Return a command.

    Args:
        path: Path and query.
        body: JSON body.
        kind: Dataclass of the answer.
        seen: `utc` of the state on which the command was decided; empty to leave its age unchecked.

    Returns:
        The request.
    """
    return ApiCall("POST", path, lambda answer: parsed(kind, answer, path), body, seen)


def anything(method: str, path: str, body: Mapping[str, Any] | None, seen: str) -> ApiCall[dict[str, Any]]:
    """Return a request to any path of the API, with the answer as decoded JSON.

    Args:
        method: GET, POST, PUT or DELETE.
        path: Path and query, such as `/api/vessels`.
        body: JSON body; None sends none.
        seen: `utc` of the state on which a command was decided; empty to leave its age unchecked.

    Returns:
        The request.

    Raises:
        ClientError: The path does not begin with a slash.
    """
    if not path.startswith("/"):
        raise ClientError(f"the path “{path}” does not begin with a slash. Next: write it as /api/… has it")
    return ApiCall(method, path, dict, body, seen)


def quoted(name: str) -> str:
    """Quote a name, so that it can be one part of a path.

    Args:
        name: Any text; a slash in it is quoted as well.

    Returns:
        The quoted name.
    """
    return quote(name, safe="")


def parsed(kind: type[T], value: Any, where: str) -> T:
    """Build a dataclass from decoded JSON.

    Args:
        kind: The dataclass.
        value: The JSON object.
        where: The address of the request, for the error.

    Returns:
        The object; keys that the dataclass does not have are ignored.

    Raises:
        ConnectionFailed: The value is not of this form.
    """
    try:
        built: T = _built(kind, value)
        return built
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConnectionFailed(
            f"the answer of {where} has another form than expected ({type(error).__name__}: {error}). Likely cause: the"
            " controller is of another release than this client, or another program has its port. Next: install the same"
            " release on both sides"
        ) from None


def _built(kind: Any, value: Any) -> Any:
    """Convert `value` to the annotation `kind`: dataclasses, list, dict and optional ones of them; all else is kept."""
    if is_dataclass(kind) and isinstance(kind, type):
        known = _fields(kind).items()
        return kind(**{name: _built(of, value[name]) for name, (of, needed) in known if needed or name in value})
    return _built_generic(kind, value)


def _built_generic(kind: Any, value: Any) -> Any:
    """Convert `value` to an optional, a list or a dict of dataclasses; return any other value unchanged."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _built(next(each for each in inner if each is not type(None)), value)
    if origin is list:
        return [_built(inner[0], each) for each in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _built(inner[1], each) for key, each in value.items()}
    return value


@cache
def _fields(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Return the annotation of each field, and whether it has to be there."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    }
