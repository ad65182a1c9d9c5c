"""Faults of the card as the engine sees them: muted, reported, refused, recovered (N5, N8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nerves.cards.contract import CardState
from nerves.cards.rhx import RhxCard
from nerves.cards.rhx_connection import RhxAddress
from nerves.core import Core
from nerves.detector import ElectrodeState
from nerves.envelope import Envelope
from nerves.events import EngineEvent, EventKind
from nerves.governor import Request
from nerves.ledger import StimulationLedger
from sim.neurons.array import SAMPLE_RATE_HZ
from sim.rhx.server import RhxServer, channel_names
from tests.nerves.bench import PULSE, Bench, bench
from tests.nerves.cards.simulated_bench import WitnessedArray

HALF = tuple(range(12))


def events(lab: Bench, *kinds: EventKind) -> list[EngineEvent]:
    return [event for event in lab.core.events.read(0, None)[1] if event.kind in kinds]


def step_stalled(lab: Bench, steps: int) -> None:
    for _ in range(steps):
        lab.core.step(lab.array.read())


def test_N8_an_unplugged_headstage_mutes_its_electrodes_only_and_recovers(tmp_path: Path) -> None:
    with bench(tmp_path / "ledger.db") as lab:
        lab.run(1.0)
        lab.array.fail(CardState.HEADSTAGE_UNPLUGGED, HALF)
        found = lab.run(2.0)
        assert not any(np.isin(spikes.electrodes, HALF).any() for spikes in found[1:])
        states = lab.core.firing().states
        assert {states[e] for e in HALF} <= {ElectrodeState.DEAD, ElectrodeState.BLANKED}
        muted = events(lab, EventKind.CHANNEL_MUTED)
        assert muted[0].electrodes == HALF
        assert "headstage unplugged: the headstage is unplugged; plug it in" in muted[0].text
        assert any("unplugged" in event.text for event in events(lab, EventKind.ALARM))
        lease = lab.lease(0, 20)
        refused = lab.ask(Request("agent", lease.id, (0,), PULSE))
        assert refused.decision.limiting == "impedance"
        usable = next(e for e in range(13, 32) if 10 < (lab.core.impedances()[e] or 0) < 800)
        other = lab.lease(usable, requester="other")
        assert lab.ask(Request("other", other.id, (usable,), PULSE)).decision.accepted
        lab.array.repair()
        later = lab.run(3.0)
        assert any(np.isin(spikes.electrodes, HALF).any() for spikes in later)
        assert any(event.electrodes == HALF for event in events(lab, EventKind.CHANNEL_RESTORED))


@pytest.mark.parametrize("state", [CardState.DEAD, CardState.STALLED])
def test_N5_a_card_that_gives_nothing_ends_leases_is_reported_and_recovers(tmp_path: Path, state: CardState) -> None:
    with bench(tmp_path / "ledger.db") as lab:
        lab.run(0.5)
        lab.lease(1, 2)
        lab.array.fail(state)
        step_stalled(lab, 3)
        assert lab.core.leases == 0
        assert lab.core.trouble
        assert any(lab.core.trouble in event.text for event in events(lab, EventKind.ALARM))
        before = lab.core.next_frame
        step_stalled(lab, 3)
        assert (lab.core.next_frame == before) is (state is CardState.STALLED)
        lab.array.repair()
        lab.run(3.0)
        assert not lab.core.trouble
        lease = lab.lease(1)
        assert lease.id
        assert (lab.core.gaps > 0) is (state is CardState.STALLED)


@contextmanager
def behind_rhx(tmp_path: Path) -> Iterator[tuple[RhxServer, Core]]:
    """A core on an RHX card of two chips and its server."""
    server = RhxServer(WitnessedArray(32, 3), SAMPLE_RATE_HZ)
    channels = tuple(channel_names(32))
    card = RhxCard(RhxAddress("127.0.0.1", server.command_port, server.waveform_port, channels))
    core = Core(card, StimulationLedger(tmp_path / "ledger.db", card.info, "2026-01-01T00:00:00Z"), Envelope())
    try:
        yield server, core
    finally:
        core.close()
        server.close()


def step_until(core: Core, seen: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> None:
    for _ in range(5000):
        meanwhile()
        core.step(core._card.read())
        if seen():
            return
    raise AssertionError([event.text for event in core.events.read(0, None)[1]])


def test_N8_faults_of_rhx_are_muted_reported_and_over_again(tmp_path: Path) -> None:
    with behind_rhx(tmp_path) as (server, core):

        def told() -> list[EngineEvent]:
            return core.events.read(0, None)[1]

        step_until(core, lambda: core.next_frame > 1000)
        chip = tuple(range(16, 32))
        server.unplug(chip)
        step_until(core, lambda: bool(core.card_faults))
        assert [(fault.state, fault.electrodes) for fault in core.card_faults] == [(CardState.DEAD, chip)]
        assert any(event.kind is EventKind.CHANNEL_MUTED and event.electrodes == chip for event in told())
        server.unplug(())
        step_until(core, lambda: not core.card_faults)
        assert any(event.kind is EventKind.CHANNEL_RESTORED and event.electrodes == chip for event in told())
        server.stall(True)
        step_until(core, lambda: bool(core.card_faults))
        assert core.card_faults[0].state is CardState.STALLED
        assert "see whether it still runs" in core.trouble
        server.stall(False)
        step_until(core, lambda: not core.card_faults)
        for port in (server._command, server._waveform):
            port._client.shutdown(2)  # type: ignore[union-attr]
        step_until(core, lambda: bool(core.card_faults))
        assert any(event.kind is EventKind.ALARM and "press Connect" in event.text for event in told())
        step_until(core, lambda: not core.card_faults, server.press_connect)
        assert core.gaps >= 2
