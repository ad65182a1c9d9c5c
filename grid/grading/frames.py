"""Messages between a grader and a task process: a JSON head and raw arrays, with lengths in front.

A frame is the length of the head (4 bytes, little-endian), the head, and the arrays of the head's tensors in their order. The
grader sends `begin` and `action`; the task answers each with `observation`, `score` or `failure`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[np.float32]]
Kind = Literal["begin", "action", "observation", "score", "failure"]
KINDS = ("begin", "action", "observation", "score", "failure")
LENGTH = struct.Struct("<I")
MAX_HEAD = 65_536
MAX_BODY = 64 * 2**20


class FrameError(Exception):
    """Bytes that are no frame."""


@dataclass(frozen=True, slots=True)
class TaskFrame:
    """One message: its kind, plain fields, and named arrays of float32."""

    kind: Kind
    fields: Mapping[str, Any] = field(default_factory=dict)
    tensors: Tensors = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameHead:
    """The head of a frame whose arrays are still to be read."""

    kind: Kind
    fields: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def body_bytes(self) -> int:
        """Return how many bytes of arrays follow."""
        return sum(4 * math.prod(shape) for shape in self.shapes.values())

    def with_body(self, body: bytes) -> TaskFrame:
        """Return the whole frame."""
        tensors: dict[str, NDArray[np.float32]] = {}
        offset = 0
        for name, shape in self.shapes.items():
            count = math.prod(shape)
            tensors[name] = np.frombuffer(body, "<f4", count, offset).reshape(shape).astype(np.float32)
            offset += 4 * count
        return TaskFrame(self.kind, self.fields, tensors)


def encode(frame: TaskFrame) -> bytes:
    """Return the bytes of a frame; raise :class:`FrameError` for one that is too large."""
    arrays = {name: np.ascontiguousarray(array, "<f4") for name, array in frame.tensors.items()}
    head = {
        "kind": frame.kind,
        "fields": dict(frame.fields),
        "tensors": [[name, list(array.shape)] for name, array in arrays.items()],
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    body = b"".join(array.tobytes() for array in arrays.values())
    if len(text) > MAX_HEAD or len(body) > MAX_BODY:
        raise FrameError(f"a frame of {len(text)} + {len(body)} bytes is too large (at most {MAX_HEAD} + {MAX_BODY})")
    return LENGTH.pack(len(text)) + text + body


def head_length(prefix: bytes) -> int:
    """Return the length of the head that follows; raise :class:`FrameError` if it cannot be one."""
    (length,) = LENGTH.unpack(prefix)
    if not 2 <= length <= MAX_HEAD:
        raise FrameError(f"a head of {length} bytes is none. Likely cause: the task process printed something")
    return int(length)


def decode_head(text: bytes) -> FrameHead:
    """Return the head of a frame; raise :class:`FrameError` for anything else."""
    try:
        head = json.loads(text)
        kind, fields, tensors = head["kind"], head["fields"], head["tensors"]
        shapes = {str(name): tuple(int(size) for size in shape) for name, shape in tensors}
    except (ValueError, KeyError, TypeError) as error:
        raise FrameError(f"the head of a frame is malformed ({error!r})") from None
    known = kind in KINDS and isinstance(fields, dict)
    if not known or any(size < 0 for shape in shapes.values() for size in shape):
        raise FrameError("the head of a frame is malformed")
    found = FrameHead(kind, fields, shapes)
    if found.body_bytes > MAX_BODY:
        raise FrameError(f"a frame of {found.body_bytes} bytes is too large (at most {MAX_BODY})")
    return found
