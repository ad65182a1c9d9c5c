"""Attributes of recordings: plain values, as the public reader of the CL API expects them in HDF5.

That reader takes attributes of a mapping or a list from a pickle and from nothing else. They are therefore pickled, but with
plain values only, and what is read here may hold plain values only: a pickle that names a class or function is refused.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from choroid.client.cl.errors import UnsafeOperationError
from choroid.client.errors import optional


def plain_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as they come back from JSON.

    Args:
        values: Values by name; those of numpy become numbers and lists.

    Returns:
        The values; mappings, lists, texts, numbers, booleans and None only.

    Raises:
        TypeError: A value has no form in JSON.
    """
    found: dict[str, Any] = json.loads(json.dumps(dict(values), default=_of_numpy))
    return found


def _of_numpy(value: object) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def stored(value: Any) -> Any:
    """Return a value as it is written into an attribute.

    Args:
        value: A text, number, mapping or list of plain values.

    Returns:
        The value; of a mapping, list or None its pickle, in which all characters are ASCII.
    """
    if isinstance(value, (str, int, float)):
        return value
    return np.bytes_(pickle.dumps(value, protocol=0))


MAX_BYTES = 64_000
"""An attribute in HDF5 may have 64 KiB with its name and header."""


def program_attributes(values: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the attributes of a program as they are kept; check that they can be written.

    Args:
        values: Values by name, those of numpy as well.
        before: Attributes to which these are added.

    Returns:
        All of them, as they come back from JSON.

    Raises:
        TypeError: A value has no form in JSON.
        ValueError: Together they are too large for an attribute of HDF5.
    """
    found = {**(before or {}), **plain_json(values)}
    size = len(stored(found))
    if size > MAX_BYTES:
        raise ValueError(
            f"the attributes have {size} bytes together, and HDF5 takes {MAX_BYTES} at most. Next: append large data to a"
            " data stream (create_data_stream), or write it into a file of its own and keep its name here"
        )
    return found


class AttributesView(Mapping[str, Any]):
    """Shows the attributes of a recording or data stream as a mapping, and each one under its name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Hold values by name."""
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        """Return one value."""
        return self._values[key]

    def __getattr__(self, name: str) -> Any:
        """Return one value."""
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"there is no attribute {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    def __repr__(self) -> str:
        """Return the values as a mapping."""
        return repr(self._values)


def read_attributes(file: str) -> dict[str, AttributesView]:
    """Return the attributes of all groups and arrays of a file, after a check that it holds plain values only.

    Args:
        file: Path of an HDF5 file.

    Returns:
        The attributes by path in the file, such as `/` and `/data_stream/scores`.

    Raises:
        UnsafeOperationError: A reader that unpickles could be made to run code of the file.
        MissingPackage: h5py is not installed.
    """
    h5py = optional("h5py", "cl", "reading a recording")
    found: dict[str, AttributesView] = {}

    def take(name: str, node: Any) -> None:
        where = "/" + name
        values = {key: _value(node.attrs, key, f"{file}: {where}, {key}") for key in node.attrs}
        stored_objects = "PSEUDOATOM" in values or values.get("CLASS") == "VLARRAY"
        if stored_objects or (isinstance(node, h5py.Dataset) and h5py.check_vlen_dtype(node.dtype) is not None):
            raise UnsafeOperationError(f"{file}: {where} may hold Python objects, which are not read. {_NEXT}")
        found[where] = AttributesView(values)

    with h5py.File(file, "r") as opened:
        link = opened.visititems_links(lambda name, link: None if isinstance(link, h5py.HardLink) else name)
        if link is not None:
            raise UnsafeOperationError(f"{file}: /{link} is a link to what was not checked. {_NEXT}")
        take("", opened)
        opened.visititems(take)
    return found


_NEXT = "Next: ask its author for a file without them"


def _value(attributes: Any, key: str, where: str) -> Any:
    h5py = optional("h5py", "cl", "reading a recording")
    try:
        attribute, value = attributes.get_id(key), attributes[key]
    except (OSError, TypeError) as error:
        raise UnsafeOperationError(f"{where} cannot be read: {error}. {_NEXT}") from None
    kind = attribute.get_type()
    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(kind, h5py.h5t.TypeStringID) and attribute.get_space().get_simple_extent_type() == h5py.h5s.SCALAR:
        data = _bytes(attribute, kind, value)
        # what is not marked as UTF-8 may be a pickle to PyTables, whatever it is to h5py
        return data.decode("utf-8", "replace") if kind.get_cset() == h5py.h5t.CSET_UTF8 else _unpickled(data, where)
    return value.item() if isinstance(value, np.generic) else value


def _bytes(attribute: Any, kind: Any, value: Any) -> bytes:
    """Return the bytes of a text as PyTables reads them: those of a fixed length also after a NUL."""
    if kind.is_variable_str():
        return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    data = np.empty((), f"V{kind.get_size()}")
    attribute.read(data, mtype=kind)
    return data.tobytes().rstrip(b"\0")


class _PlainUnpickler(pickle.Unpickler):
    named = ""
    """The first class or function that the pickle names."""

    def find_class(self, module: str, name: str) -> Any:
        self.named = self.named or f"{module}.{name}"
        raise pickle.UnpicklingError


def _unpickled(data: bytes, where: str) -> Any:
    """Return the value of a pickle, or a text; try the encodings of texts that PyTables tries."""
    for encoding in ("ASCII", "latin1", "bytes") if data.endswith(b".") else ():
        unpickler = _PlainUnpickler(io.BytesIO(data), encoding=encoding)
        with contextlib.suppress(Exception):  # another encoding, or a text that ends with a full stop
            return unpickler.load()
        if unpickler.named:
            raise UnsafeOperationError(f"{where}: a pickle that names {unpickler.named}; it is not read. {_NEXT}")
    return data.decode("utf-8", "replace")
