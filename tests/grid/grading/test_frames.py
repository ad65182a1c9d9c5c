"""X6: frames between grader and task process."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.grading.frames import LENGTH, MAX_HEAD, FrameError, TaskFrame, decode_head, encode, head_length


def test_X6_a_frame_survives_the_way() -> None:
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 4), np.float32)}
    sent = encode(TaskFrame("action", {"seed": 2**61}, tensors))
    length = head_length(sent[: LENGTH.size])
    head = decode_head(sent[LENGTH.size : LENGTH.size + length])
    body = sent[LENGTH.size + length :]
    assert head.body_bytes == len(body)
    found = head.with_body(body)
    assert found.kind == "action"
    assert found.fields == {"seed": 2**61}
    assert all(np.array_equal(found.tensors[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("length", [0, 1, MAX_HEAD + 1, 2**32 - 1])
def test_X6_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(FrameError):
        head_length(LENGTH.pack(length))


@given(st.one_of(st.binary(max_size=60), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_X6_rubbish_is_refused(text: bytes | str) -> None:
    with pytest.raises(FrameError):
        decode_head(text if isinstance(text, bytes) else text.encode())


def test_X6_huge_and_negative_shapes_are_refused() -> None:
    for shape in ([2**40], [-1], [-2, -(2**30)]):
        head = json.dumps({"kind": "action", "fields": {}, "tensors": [["x", shape]]}).encode()
        with pytest.raises(FrameError):
            decode_head(head)
