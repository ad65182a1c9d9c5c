"""The cards of Open Ephys and LSL: properties of any card, lost messages, restarts, and clear refusals (N5, N6, J3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pylsl
import pytest

from nerves.cards import lsl, open_ephys
from nerves.cards.conformance.examine import examine_card
from nerves.cards.conformance.properties import PROPERTIES
from nerves.cards.conformance.stage import CardBench
from nerves.cards.contract import CardRefused, CardState
from nerves.cards.input_only import input_info
from nerves.cards.lsl import LslCard
from nerves.cards.open_ephys import OpenEphysCard
from nerves.cards.replayable import FLOAT_UV, Scaling
from nerves.cards.streamed import StreamedCard
from sim.neurons.array import SAMPLE_RATE_HZ
from sim.open_ephys import ZmqInterface
from tests.nerves.cards.simulated_bench import WitnessedArray
from tests.nerves.cards.streamed_bench import LSL, OPEN_EPHYS
from verification.conformance.broken_cards import BROKEN

EXAMINED = ("data-sheet", "frames", "clock", "stalled", "self-test", "input-only")
"""The others concern cards that stimulate, measure, or know of single headstages."""


@pytest.mark.parametrize("name", EXAMINED)
@pytest.mark.parametrize("bench", [OPEN_EPHYS, LSL], ids=str)
def test_N5_a_streamed_card_has_every_property_that_concerns_it(bench: CardBench, name: str) -> None:
    (verdict,) = examine_card(bench, {name: PROPERTIES[name]})
    assert verdict.outcome == "pass", verdict.told


@pytest.mark.parametrize("what", ["reverses the order of channels", "hides a stall", "claims to stimulate"])
def test_J1_a_broken_streamed_card_is_noticed(what: str) -> None:
    (broken,) = (each for each in BROKEN if each.what == what)
    (verdict,) = examine_card(broken.on(OPEN_EPHYS), {broken.property: PROPERTIES[broken.property]})
    assert verdict.outcome == "fail"


@contextmanager
def publisher(**options: str) -> Iterator[ZmqInterface]:
    server = ZmqInterface(WitnessedArray(4, 3), SAMPLE_RATE_HZ, **options)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()


def test_N5_a_lost_message_of_one_channel_is_a_gap_and_an_event_is_none() -> None:
    with publisher() as server:
        card = OpenEphysCard("127.0.0.1", server.port, electrodes=4)
        try:
            ends = []
            for turn in range(40):
                block = card.read()
                ends.append((block.first_frame, block.first_frame + len(block.samples)))
                if turn == 10:
                    server.lost.add(2)
            gaps = [later[0] - earlier[1] for earlier, later in pairwise(ends)]
            assert [gap for gap in gaps if gap] == [256]
        finally:
            card.close()


def test_J3_an_open_ephys_that_sends_nothing_or_another_stream_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_ephys, "FOUND_WITHIN_S", 0.6)
    with publisher() as server, pytest.raises(CardRefused, match="one of: acquisition_board"):
        OpenEphysCard("127.0.0.1", server.port, electrodes=4, stream="probe_A")
    with pytest.raises(CardRefused, match="press play, compare the port"):
        OpenEphysCard("127.0.0.1", server.port, electrodes=4)


def test_J3_an_lsl_stream_that_is_none_of_voltages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsl, "FOUND_WITHIN_S", 1.0)
    with pytest.raises(CardRefused, match="there is no LSL stream"):
        LslCard(f"none {os.getpid()}")
    for rate, kind, why in ((0.0, pylsl.cf_float32, "no regular samples"), (100.0, pylsl.cf_int16, "write gain")):
        name = f"choroid {os.getpid()} {rate:g}"
        outlet = pylsl.StreamOutlet(pylsl.StreamInfo(name, "Ephys", 2, rate, kind, name))
        with pytest.raises(CardRefused, match=why):
            LslCard(name)
        del outlet
    name = f"choroid {os.getpid()} mixed"
    stream = pylsl.StreamInfo(name, "Ephys", 2, 100.0, pylsl.cf_float32, name)
    channels = stream.desc().append_child("channels")
    for unit in ("microvolts", "volts"):
        channels.append_child("channel").append_child_value("unit", unit)
    outlet = pylsl.StreamOutlet(stream)
    with pytest.raises(CardRefused, match="has samples in “microvolts”, “volts”"):
        LslCard(name)
    del outlet


class Told(StreamedCard):
    """A stream of pieces that a test gives."""

    def __init__(self, *pieces: tuple[int, int] | None) -> None:
        super().__init__(input_info("told", 1, 25_000.0, 1.0, block_frames=100), stalled_after_s=0.0)
        self._pieces = iter(pieces)

    def _piece(self, within_s: float) -> tuple[int, np.ndarray[tuple[int, ...], np.dtype[np.int16]]] | None:
        piece = next(self._pieces)
        return None if piece is None else (piece[0], np.zeros((piece[1], 1), np.int16))


def test_N5_pieces_are_cut_into_blocks_and_a_restart_goes_on_at_a_higher_frame() -> None:
    card = Told((7000, 250), (7350, 100), None, (0, 50))
    blocks = [card.read() for _ in range(5)]
    assert [(block.first_frame, len(block.samples)) for block in blocks[:4]] == [
        (0, 100),
        (100, 100),
        (200, 50),
        (350, 100),
    ]
    assert blocks[4].faults[0].state is CardState.STALLED
    again = card.read()
    assert again.first_frame >= 450
    assert again.faults == ()


def test_N6_samples_of_several_gains_are_rounded_to_one() -> None:
    scaling = Scaling(np.dtype(np.int16), np.array([0.5, 1.0]), np.zeros(2))
    assert scaling.units(np.array([[3, 3]], np.int16)).tolist() == [[2, 3]]
    assert scaling.uv_per_unit == 1.0
    exact = Scaling(np.dtype(np.uint16), np.full(2, FLOAT_UV), np.full(2, -32_768 * FLOAT_UV))
    assert exact.units(np.array([[0, 65_535]], np.uint16)).tolist() == [[-32_768, 32_767]]
