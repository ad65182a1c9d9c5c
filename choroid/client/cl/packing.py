"""Data of data streams as MessagePack, with arrays in the form of the package msgpack-numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from choroid.client.errors import optional


def to_msgpacked(value: Any) -> bytes:
    """Return a value as MessagePack.

    Args:
        value: Any value of mappings, lists, texts, numbers, booleans, bytes, None, and arrays and numbers of numpy.

    Returns:
        The bytes.

    Raises:
        TypeError: It holds something else.
        MissingPackage: msgpack is not installed.
    """
    packed: bytes = optional("msgpack", "cl", "a data stream").packb(value, default=_packable)
    return packed


def from_msgpacked(data: Any) -> Any:
    """Return a value that was packed as MessagePack.

    Args:
        data: The bytes, or an array of them.

    Returns:
        The value. Arrays of Python objects stay as they were packed: they would have to be unpickled.

    Raises:
        ValueError: The bytes are no MessagePack.
        MissingPackage: msgpack is not installed.
    """
    return optional("msgpack", "cl", "a data stream").unpackb(bytes(data), object_hook=_unpacked, strict_map_key=False)


def _packable(value: object) -> dict[bytes, Any]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSUmM":
        return {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape, b"data": value.tobytes()}
    if isinstance(value, np.generic):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    raise TypeError(f"{type(value).__name__} cannot be put into a data stream")


def _unpacked(found: dict[Any, Any]) -> Any:
    if b"nd" not in found or found.get(b"kind", b"") not in (b"", ""):
        return found
    values = np.frombuffer(found[b"data"], np.dtype(found[b"type"]))
    return values.reshape(found[b"shape"]).copy() if found[b"nd"] else values[0]
