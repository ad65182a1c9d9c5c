"""A scripted far end: what its author does not give, it does not have."""

from __future__ import annotations

import asyncio

import pytest

from drivers.conformance.far_end import FarEndTroubles, ScriptedEnd
from drivers.conformance.peer import Answers

pytestmark = pytest.mark.virtual_time


async def test_a_script_alone_has_no_abilities() -> None:
    end = ScriptedEnd(lambda data: None)
    assert (end.outputs(), end.delivered(), end.measured(), end.memory_writes()) == ({}, {}, {}, None)
    assert (end.doubt("temperature"), end.disturb("temperature"), end.misset()) == (False, False, False)
    end.power_cycle()
    end.measure("temperature", 37.0)
    assert end.measured() == {"temperature": 37.0}, "the last value that was set is the truth"


async def test_the_abilities_that_are_given_are_used() -> None:
    done: list[object] = []

    def did(*what: object) -> bool:
        done.append(what)
        return True

    end = ScriptedEnd(
        lambda data: None,
        outputs=lambda: {"pump": 5.0},
        delivered=lambda: {"pump": 7.0},
        measure=lambda point, value: done.append((point, value)),
        measured=lambda: {"temperature": 36.0},
        troubles=FarEndTroubles(did, did, did),
        power_cycle=lambda: done.append(()),
        memory_writes=lambda: 3,
    )
    end.measure("temperature", 37.0)
    assert (end.outputs(), end.delivered(), end.memory_writes()) == ({"pump": 5.0}, {"pump": 7.0}, 3)
    assert end.measured() == {"temperature": 36.0}
    assert (end.doubt("a"), end.disturb("b"), end.misset()) == (True, True, True)
    end.power_cycle()
    assert done == [("temperature", 37.0), ("a",), ("b",), (), ()]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, []),
        (b"one", [(0.01, b"one")]),
        ([b"one", b"two"], [(0.01, b"one"), (0.010001, b"two")]),
        ([(0.5, b"late"), b"soon"], [(0.010001, b"soon"), (0.5, b"late")]),
    ],
)
async def test_replies_come_after_their_delay_and_in_order(said: object, expected: list[tuple[float, bytes]]) -> None:
    def answers(data: bytes) -> object:
        assert data == b"?"
        return said

    script: Answers = answers  # type: ignore[assignment]
    end = ScriptedEnd(script)
    end.receive(b"?")  # without a receiver
    await asyncio.sleep(1.0)
    replies: list[tuple[float, bytes]] = []
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    end.connect(lambda data: replies.append((round(loop.time() - begun_s, 6), data)))
    end.receive(b"?")
    await asyncio.sleep(1.0)
    assert replies == expected
