"""The RHX card against the RHX server over TCP: faults are reported, and RHX comes back (N5, N8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nerves.cards.conformance.examine import examine_card
from nerves.cards.conformance.properties import PROPERTIES
from nerves.cards.contract import CardFault, CardState, Delivery, FrameBlock, Phase, Pulse
from nerves.cards.rhx import KEYS, RhxCard
from nerves.cards.rhx_connection import RhxAddress, RhxConnection, RhxProblem
from sim.neurons.array import compiled
from sim.rhx.server import RhxServer, channel_names
from tests.nerves.cards.rhx_bench import RHX
from tests.nerves.cards.simulated_bench import WitnessedArray
from verification.conformance.broken_cards import BROKEN


@pytest.mark.parametrize("name", PROPERTIES)
def test_N5_the_rhx_card_has_every_property(name: str) -> None:
    (verdict,) = examine_card(RHX, {name: PROPERTIES[name]})
    assert verdict.outcome == ("n/a" if name in ("gap", "input-only") else "pass"), verdict.told


@pytest.mark.parametrize("what", ["hides an unplugged headstage", "ignores cancel", "numbers frames three too high"])
def test_J1_a_broken_rhx_card_is_noticed(what: str) -> None:
    (broken,) = (each for each in BROKEN if each.what == what)
    (verdict,) = examine_card(broken.on(RHX), {broken.property: PROPERTIES[broken.property]})
    assert verdict.outcome == "fail"


def until(card: RhxCard, state: CardState, meanwhile: Callable[[], object] = lambda: None) -> FrameBlock:
    for _ in range(2000):
        meanwhile()
        block = card.read()
        if card.state is state and (len(block.samples) or state is CardState.STALLED):
            return block
    raise AssertionError(f"the card never became {state}")


def test_N5_a_card_whose_rhx_is_gone_waits_and_goes_on_at_a_higher_frame() -> None:
    array = WitnessedArray(4, 3)
    server = RhxServer(array, 25_000)
    channels = tuple(channel_names(4))
    card = RhxCard(RhxAddress("127.0.0.1", server.command_port, server.waveform_port, channels))
    try:
        before = until(card, CardState.CONNECTED).first_frame
        for port in (server._command, server._waveform):
            port._client.shutdown(2)  # type: ignore[union-attr]
        gone = until(card, CardState.STALLED)
        assert "RHX" in gone.faults[0].text
        assert not card.self_test()[0].passed
        again = until(card, CardState.CONNECTED, server.press_connect)  # a port in use takes no notice of it
        assert again.first_frame > before
    finally:
        card.close()
        server.close()


def test_J3_an_rhx_that_does_not_listen_is_named_with_the_next_step() -> None:
    server = RhxServer(WitnessedArray(4, 3), 25_000)
    server.close()
    with pytest.raises(RhxProblem, match=r"press Connect in its Remote TCP Control window"):
        RhxCard(RhxAddress("127.0.0.1", server.command_port, server.waveform_port, ("A-000",)))


@contextmanager
def on_rhx(electrodes: int) -> Iterator[tuple[RhxCard, RhxServer, WitnessedArray]]:
    """Open a card on a new server that listens again by itself."""
    compiled()
    array = WitnessedArray(electrodes, 3)
    server = RhxServer(array, 25_000, relisten=True)
    channels = tuple(channel_names(electrodes))
    card = RhxCard(RhxAddress("127.0.0.1", server.command_port, server.waveform_port, channels), simulated=True)
    try:
        yield card, server, array
    finally:
        card.close()
        server.close()


def order(card: RhxCard, number: int, *electrodes: int) -> None:
    """Request one beginning on electrodes as soon as possible."""
    phases = (Phase(200.0, -1.0), Phase(200.0, 1.0))
    now = card.now_frame()
    card.stimulate_together(
        tuple(Pulse(number + k, each, phases, now, now + 50_000) for k, each in enumerate(electrodes))
    )


def fates_of(card: RhxCard, number: int, *electrodes: int) -> dict[int, Delivery]:
    """Request one beginning; return each report by electrode."""
    order(card, number, *electrodes)
    found: dict[int, Delivery] = {}
    for _ in range(2000):
        found |= {each.pulse.electrode: each for each in card.read().deliveries}
        if found.keys() >= set(electrodes):
            return found
    raise AssertionError("the card never reported the pulses")


def told_within(card: RhxCard, blocks: int) -> tuple[dict[int, int | None], list[CardFault]]:
    """Read blocks; return the frame of each report by electrode, and the faults in their order."""
    read = [card.read() for _ in range(blocks)]
    begun = {each.pulse.electrode: each.frame for block in read for each in block.deliveries}
    return begun, list(dict.fromkeys(fault for block in read for fault in block.faults))


def test_N5_a_pulse_with_two_pauses_in_turn_is_dropped_and_not_delivered_without_them() -> None:
    with on_rhx(2) as (card, _, array):
        until(card, CardState.CONNECTED)
        now = card.now_frame()
        phases = (Phase(200.0, -1.0), Phase(200.0, 0.0), Phase(200.0, 0.0), Phase(200.0, 1.0))
        card.stimulate(Pulse(7, 0, phases, now, now + 50_000))
        reports: list[Delivery] = []
        while not reports:
            reports += card.read().deliveries
        assert (reports[0].frame, "one pause" in reports[0].why) == (None, True)
        assert not array.received


def test_N2_after_a_refusal_of_rhx_no_key_triggers_an_electrode_that_was_not_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with on_rhx(12) as (card, _, array):
        until(card, CardState.CONNECTED)
        fates_of(card, 10, 1)
        fates_of(card, 20, 2, 3)
        tell = RhxConnection.tell

        def refuse(self: RhxConnection, *commands: str) -> None:
            if commands[0] == "set A-003.stimenabled false" and len(commands) == 2:
                raise RhxProblem("RHX answers “busy”")
            tell(self, *commands)

        monkeypatch.setattr(RhxConnection, "tell", refuse)
        assert all(each.frame is None for each in fates_of(card, 30, 1, 2).values())
        monkeypatch.setattr(RhxConnection, "tell", tell)
        until(card, CardState.CONNECTED)
        array.received.clear()
        for electrode in range(4, 4 + KEYS):  # each takes the next key, so every key is triggered
            fates_of(card, 100 + electrode, electrode)
        assert [electrode for electrode, _, _ in array.received] == list(range(4, 4 + KEYS))


def test_N2_nothing_is_triggered_between_a_refusal_of_rhx_and_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_rhx(4) as (card, _, array):
        until(card, CardState.CONNECTED)
        first = card._connection
        monkeypatch.setattr(RhxConnection, "tell", _refuse)
        fates_of(card, 10, 1)
        monkeypatch.undo()
        until(card, CardState.CONNECTED)
        assert card._connection is not first
        assert fates_of(card, 20, 1)[1].frame is not None
        assert [electrode for electrode, _, _ in array.received] == [1]


def _refuse(*_: object) -> None:
    raise RhxProblem("RHX answers “busy”")


@pytest.mark.parametrize("apart", [4, 128, 300])
def test_N8_pulses_of_one_trigger_that_begin_apart_are_reported_each_at_its_frame_with_a_fault(
    apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_rhx(4) as (card, server, array):
        until(card, CardState.CONNECTED)
        pulse = server._pulse
        monkeypatch.setattr(server, "_pulse", lambda e, chosen, frame: pulse(e, chosen, frame + apart * (e == 2)))
        order(card, 10, 1, 2)
        begun, faults = told_within(card, 40)
        true = {electrode: frame for electrode, frame, _ in array.received}
        assert true[2] - true[1] == apart
        shift = card._offset - server._first_frame
        if apart < 300:
            assert begun == {electrode: frame + shift for electrode, frame in true.items()}
        else:  # its fate is unknown, and it is muted when its words come
            assert begun == {1: true[1] + shift}
        assert any(set(fault.electrodes) == {1, 2} and "one trigger" in fault.text for fault in faults)
        assert all("does not work" in each.why for each in fates_of(card, 20, 1, 2).values())


def test_N8_a_pulse_that_its_trigger_did_not_begin_is_a_fault_and_the_other_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with on_rhx(4) as (card, server, array):
        until(card, CardState.CONNECTED)
        pulse = server._pulse
        monkeypatch.setattr(server, "_pulse", lambda e, chosen, frame: None if e == 2 else pulse(e, chosen, frame))
        order(card, 10, 1, 2)
        begun, faults = told_within(card, 40)
        ((_, frame, _),) = array.received
        assert begun == {1: frame + card._offset - server._first_frame}
        assert any("1 of them not at all" in fault.text for fault in faults)


def test_N8_words_without_a_pulse_mute_their_electrode() -> None:
    with on_rhx(4) as (card, server, _):
        until(card, CardState.CONNECTED)
        assert fates_of(card, 10, 1)[1].frame is not None
        with server._lock:
            server._pulse(3, server._uploaded["A-001"], server._amplifier.next_frame + 10)
        begun, faults = told_within(card, 40)
        assert not begun
        assert [fault.electrodes for fault in faults] == [(3,)]
        assert "without a pulse" in faults[0].text


def test_N1_the_data_sheet_of_rhx_states_how_late_it_may_begin() -> None:
    with on_rhx(4) as (card, _, _):
        assert card.info.jitter_us == pytest.approx(5_620.0)
