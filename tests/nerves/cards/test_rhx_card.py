"""The RHX card against the RHX server over TCP: faults are reported, and RHX comes back (N5, N8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nerves.cards.conformance.examine import examine_card
from nerves.cards.conformance.properties import PROPERTIES
from nerves.cards.contract import CardState, FrameBlock
from nerves.cards.rhx import RhxCard
from nerves.cards.rhx_connection import RhxAddress, RhxProblem
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
