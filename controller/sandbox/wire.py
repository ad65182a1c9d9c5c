"""The messages between the sandbox and its owner, over one stream socket. Both sides distrust the other's lengths.

A message is a header (kind, sequence number, length of the body) and a body. Tensors are written one after another: number of
dimensions, the dimensions, the elements in row-major order; their types are agreed when the model is opened.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = struct.Struct("=IIQ")
MAX_DIMENSIONS = 8
MAX_TEXT = 64 * 1024

Tensor = NDArray[Any]

TYPES: Mapping[str, str] = {
    "tensor(float)": "<f4",
    "tensor(double)": "<f8",
    "tensor(float16)": "<f2",
    "tensor(int8)": "|i1",
    "tensor(int16)": "<i2",
    "tensor(int32)": "<i4",
    "tensor(int64)": "<i8",
    "tensor(uint8)": "|u1",
    "tensor(uint16)": "<u2",
    "tensor(uint32)": "<u4",
    "tensor(uint64)": "<u8",
    "tensor(bool)": "|b1",
}
"""Types of inputs and outputs by their name in the runtime, and in numpy."""


class Kind(IntEnum):
    """What a message is."""

    LOCKED = 1  # worker: the layers are in force
    MODEL = 2  # owner: the bytes of the model
    OPENED = 3  # worker: inputs and outputs, as JSON
    CALL = 4  # owner: inputs
    ANSWER = 5  # worker: outputs
    FAILED = 6  # worker: why; it ends after this


class BadTensors(ValueError):
    """Tensors do not fit what was agreed."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a model: name, type of its elements, and size of each dimension (None: any)."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None

    def require(self, tensor: Tensor) -> None:
        """Raise BadTensors when a tensor does not fit."""
        if tensor.dtype != np.dtype(self.dtype):
            raise BadTensors(f"{self.name!r} must be of type {np.dtype(self.dtype)}, not {tensor.dtype}")
        if self.shape is None:
            return
        if len(tensor.shape) != len(self.shape) or any(
            want is not None and want != size for want, size in zip(self.shape, tensor.shape, strict=True)
        ):
            raise BadTensors(f"{self.name!r} must have the shape {self.shape}, not {tensor.shape}")


def header(kind: Kind, number: int, body_bytes: int) -> bytes:
    """Return the header of a message."""
    return HEADER.pack(kind, number, body_bytes)


def pack(tensors: Sequence[Tensor]) -> bytes:
    """Return the body that carries tensors."""
    parts = []
    for tensor in tensors:
        parts.append(struct.pack(f"={1 + tensor.ndim}q", tensor.ndim, *tensor.shape))
        parts.append(tensor.tobytes())
    return b"".join(parts)


def unpack(body: bytes | bytearray, ports: Sequence[Port]) -> dict[str, Tensor]:
    """Return the tensors of a body by name.

    Raises:
        BadTensors: The body does not hold exactly these tensors.
    """
    at = 0
    tensors = {}
    for port in ports:
        shape, at = _shape(body, at)
        dtype = np.dtype(port.dtype)
        elements = prod(shape)
        if elements * dtype.itemsize > len(body) - at:
            raise BadTensors(f"{port.name!r} is cut off")
        tensors[port.name] = np.frombuffer(body, dtype, elements, at).reshape(shape)
        at += elements * dtype.itemsize
    if at != len(body):
        raise BadTensors("there are more bytes than tensors")
    return tensors


def _shape(body: bytes | bytearray, at: int) -> tuple[tuple[int, ...], int]:
    if len(body) - at < 8:
        raise BadTensors("a shape is cut off")
    (dimensions,) = struct.unpack_from("=q", body, at)
    if not 0 <= dimensions <= MAX_DIMENSIONS or len(body) - at < 8 * (1 + dimensions):
        raise BadTensors(f"a tensor claims {dimensions} dimensions")
    shape = struct.unpack_from(f"={dimensions}q", body, at + 8)
    if any(size < 0 for size in shape):
        raise BadTensors("a tensor has a negative size")
    return shape, at + 8 * (1 + dimensions)
