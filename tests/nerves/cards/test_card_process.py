"""The card in its own process: silent when the engine dies, and checked once more by its own limiter (N3)."""

from __future__ import annotations

import os
import signal
import time

import pytest

from choroid.running.card_process import CardProcess
from nerves.cards.contract import MAX_WAIT_S, Delivery, Phase, Pulse
from tests.nerves import card_kill

PULSE = (Phase(200.0, -1.0), Phase(200.0, 1.0))
RATE = 25_000


def read_until(card: CardProcess, frame: int) -> list[Delivery]:
    """Read up to a frame; return what became of pulses."""
    found: list[Delivery] = []
    while True:
        block = card.read()
        found += block.deliveries
        if block.first_frame + len(block.samples) >= frame:
            return found


def test_N3_the_card_is_silent_after_its_engine_is_killed() -> None:
    assert (
        card_kill.kill_once() <= 30.0
    )  # figures of a quiet machine: docs/cards.md; a hung card would go on for 250 ms


def test_N3_a_card_whose_engine_stands_still_delivers_nothing_more() -> None:
    card = CardProcess(card_kill.CONFIG)
    try:
        read_until(card, card.now_frame() + RATE // 10)
        at = card.now_frame() + RATE // 5
        for number in range(4):
            card.stimulate(Pulse(number, number, PULSE, at, at + 250))
        time.sleep(0.5)  # the engine hangs: no sign of life
        found = read_until(card, at + RATE // 20)
        assert [each.frame for each in found] == [None] * 4
        late = card.now_frame() + 2500
        card.stimulate(Pulse(9, 5, PULSE, late, late + 250))
        again = read_until(card, late + 2500)
        assert len(again) == 1  # alive again; on a busy machine it may have been silent once more
    finally:
        card.close()
    assert card.process.returncode == 0


def test_the_engine_gets_no_block_without_frames_while_frames_come() -> None:
    """It would count as a block of a reflex."""
    card = CardProcess(card_kill.CONFIG)
    try:
        read_until(card, card.now_frame() + 250)
        time.sleep(0.05)  # blocks wait, and with them as many signals
        for _ in range(150):
            began = time.monotonic()
            block = card.read()
            assert len(block.samples) or time.monotonic() - began >= MAX_WAIT_S
    finally:
        card.close()


def test_N1_the_second_limiter_refuses_what_the_governor_should_have_refused() -> None:
    card = CardProcess(card_kill.CONFIG)
    try:
        at = card.now_frame() + RATE // 2
        strong = (Phase(500.0, -3.0), Phase(500.0, 3.0))
        unbalanced = (Phase(200.0, -1.0), Phase(200.0, 0.5))
        read_until(card, card.now_frame() + 250)
        for number, phases in enumerate((strong, unbalanced)):
            card.stimulate(Pulse(number, 0, phases, at, at + 250))
        found = {each.pulse.id: each for each in read_until(card, at + RATE // 10)}
        assert {number: each.frame for number, each in found.items()} == {0: None, 1: None}
        assert all("limiter:" in each.why or "silent" in each.why for each in found.values())
    finally:
        card.close()


def test_N3_a_killed_card_process_ends_the_engine_s_reading() -> None:
    card = CardProcess(card_kill.CONFIG)
    try:
        read_until(card, 1000)
        os.kill(card.process.pid, signal.SIGKILL)
        with pytest.raises(ConnectionError, match="has ended"):
            read_until(card, 1 << 60)
        card.stimulate(Pulse(1, 0, PULSE, 0, 10))  # goes nowhere, and raises nothing
    finally:
        card.close()
