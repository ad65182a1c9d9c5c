"""The engine's core on the simulated array, stepped in virtual time (N1, N3, N4, N5, N8, N9)."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from choroid.running.simulated_card import SimulatedCard
from nerves import ledger
from nerves.cards.contract import FrameBlock, Phase
from nerves.commands import Busy, LeaseCommand, StimulateCommand
from nerves.core import MAX_WAITING, Core
from nerves.detections import Spikes
from nerves.detector import LOW_DELAY, SETTLE_S, Detection, ElectrodeState, SpikeFilter
from nerves.envelope import Envelope
from nerves.governor import Request
from nerves.leases import LeaseRefused
from nerves.ledger import StimulationLedger
from nerves.permit import OPEN, Permit, PermitReview, Tissue
from sim.neurons.conditions import TissueConditions
from tests.nerves.bench import PULSE, Bench, VirtualCrystal, bench

RATE = 25_000
SMALL = (Phase(100.0, -0.4), Phase(100.0, 0.4))
"""0.04 nC: may come a hundred times a second."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stimulation.db"


def ask(lease: str, *electrodes: int, **changes: object) -> Request:
    return replace(Request("agent", lease, electrodes, PULSE), **changes)  # type: ignore[arg-type]


def test_N4_an_accepted_pulse_is_delivered_at_its_frame_and_written_down(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, 1)
        at = lab.core.next_frame + 1_234
        outcome = lab.ask(ask(lease.id, 0, 1, at_frame=at, purpose="a test"))
        assert outcome.decision.accepted
        lab.run(0.1)
        assert lab.begun() == [at, at]
        assert outcome.finished
        assert set(outcome.fates.values()) == {("delivered", at, "")}
    (record,) = ledger.read(path)
    assert (record.requester, record.lease, record.purpose) == ("agent", lease.id, "a test")
    assert record.accepted
    assert record.electrodes == (0, 1)
    assert record.phases == ((200.0, -1.0), (200.0, 1.0))
    assert record.charge_nc == pytest.approx(0.4)
    assert [(p.electrode, p.at_frame, p.state, p.delivered_frame) for p in record.pulses] == [
        (0, at, "delivered", at),
        (1, at, "delivered", at),
    ]


def test_N1_an_unbalanced_pulse_is_refused_with_the_reason_and_nothing_is_delivered(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0)
        outcome = lab.ask(ask(lease.id, 0, phases=(Phase(200, -1.0), Phase(200, 0.5))))
        lab.run(0.1)
        assert not outcome.decision.accepted
        assert outcome.decision.limiting == "net_charge"
        assert lab.begun() == []
    (record,) = ledger.read(path)
    assert not record.accepted
    assert record.limiting == "net_charge"
    assert "pC" in record.reasons[0]
    assert record.pulses == ()


def test_N2_the_arrays_open_electrode_is_refused(path: Path) -> None:
    with bench(path) as lab:
        broken = int(np.argmax([kohm or 0 for kohm in lab.core.impedances()]))
        lease = lab.lease(broken)
        assert lab.ask(ask(lease.id, broken)).decision.limiting == "impedance"


@pytest.mark.parametrize("how", ["expired", "released"])
def test_N3_within_10_ms_of_a_lost_lease_nothing_more_is_delivered(path: Path, how: str) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=0.3)
        train = ask(lease.id, 0, phases=SMALL, pulses=100, period_frames=250)  # every 10 ms for a second
        assert lab.ask(train).decision.accepted
        lab.run(0.1)
        before = len(lab.begun())
        assert before >= 9
        if how == "released":
            lab.command("release", lease)
            lost_at = lab.core.next_frame
        else:
            lost_at = lease.until_frame
        lab.run(1.5)
        assert max(lab.begun()) <= lost_at + 0.010 * RATE
        assert len(lab.begun()) < 100
        assert lab.core.pending == 0
    (record,) = ledger.read(path)
    states = [pulse.state for pulse in record.pulses]
    assert states.count("delivered") == len(lab.begun())
    assert states.count("cancelled") == 100 - len(lab.begun())
    assert all("lease" in pulse.detail for pulse in record.pulses if pulse.state == "cancelled")


def test_N3_a_renewed_lease_goes_on_and_silence_ends_it(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=0.1)
        for _ in range(10):
            lab.run(0.05)
            assert not isinstance(lab.command("renew", lease), LeaseRefused)
        assert lab.ask(ask(lease.id, 0)).decision.accepted
        lab.run(0.12)
        assert isinstance(lab.command("renew", lease), LeaseRefused)
        assert lab.ask(ask(lease.id, 0)).decision.limiting == "lease"


def test_S2_a_lease_is_no_use_to_another_requester_and_an_electrode_has_one_holder(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, requester="anna")
        assert lab.ask(replace(ask(lease.id, 0), requester="ben")).decision.limiting == "lease"
        answers: list[object] = []
        lab.core.submit(LeaseCommand("acquire", "ben", answers.append, electrodes=(0, 1), ttl_s=1.0))
        lab.core.submit(LeaseCommand("release", "ben", answers.append, lease=lease.id))
        lab.run(0.001)
        assert "another agent" in str(answers[0])
        assert "anna" not in str(answers[0])
        assert "no living lease of ben" in str(answers[1])
        assert lab.ask(replace(ask(lease.id, 0), requester="anna")).decision.accepted


def test_N5_frames_the_array_loses_are_recorded_and_end_every_lease(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=10.0)
        lab.run(0.5)
        lab.ask(ask(lease.id, 0, at_frame=lab.core.next_frame + RATE))
        expected = lab.core.next_frame
        lab.crystal.stall(2.0)  # longer than the array's own buffer
        lab.run(0.1)
        gap_end = next(block.first_frame for block in lab.blocks if block.first_frame > expected)
        assert lab.core.gaps == 1
        assert lab.core.lost_frames == gap_end - expected > RATE
        gaps, stretch, _ = lab.core.frames.read(expected - 10, 100)
        assert stretch is not None
        assert len(stretch.samples) == 10
        gaps, stretch, _ = lab.core.frames.read(expected, 100)
        assert [(gap.first_frame, gap.end_frame, gap.cause) for gap in gaps] == [(expected, gap_end, "array")]
        assert lab.ask(ask(lease.id, 0)).decision.limiting == "lease"
        lab.run(2.0)
        assert lab.begun() == []
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT first_frame, end_frame FROM gap").fetchall()
    assert rows == [(expected, gap_end)]


def test_N5_a_short_stall_is_caught_up_without_loss_and_late_pulses_are_dropped(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=5.0)
        at = lab.core.next_frame + 500
        outcome = lab.ask(ask(lease.id, 0, at_frame=at, not_after=at + 25))
        lab.crystal.stall(0.2)
        lab.run(0.5)
        assert lab.core.gaps == 0
        assert list(outcome.fates.values()) == [
            ("dropped", None, "the array could not begin it before its latest frame")
        ]
        assert lab.begun() == []


def test_N8_rates_are_corrected_for_blanked_time(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=5.0)
        for _ in range(10):
            assert lab.ask(ask(lease.id, 0, phases=SMALL, pulses=20, period_frames=250)).decision.accepted
            lab.run(0.25)
            lab.command("renew", lease)
        observed = lab.core._rates._observed.sum(axis=0)
        blanked = lab.core._detector.blanked_frames
        assert len(lab.begun()) == 200
        assert blanked[0] >= 200 * 0.005 * RATE
        assert 200 * 0.002 * RATE <= blanked[1] < blanked[0]
        unobserved = lab.core._detector.unobserved_frames
        np.testing.assert_array_equal(observed, lab.core.next_frame - unobserved)
        beyond = unobserved - blanked - SETTLE_S * RATE  # the filter's length after each pulse
        assert (beyond >= 0).all()
        assert (beyond <= 200 * 36 + 4).all()
    with contextlib.closing(sqlite3.connect(path)) as db:
        (frames,) = db.execute("SELECT sum(end_frame - first_frame) FROM blank WHERE electrode = 0").fetchone()
    assert frames == blanked[0]


def test_the_tissue_answers_stimulation_and_not_its_absence(path: Path) -> None:
    """Spikes from 6 to 56 ms after each pulse, against the same array left alone."""
    counts = []
    for stimulate in (True, False):
        with bench(path.with_name(f"{stimulate}.db"), seed=11) as lab:
            lab.run(0.5)
            lease = lab.lease(6, ttl_s=1.0)
            found = 0
            for _ in range(20):
                if stimulate:
                    assert lab.ask(ask(lease.id, 6, phases=(Phase(200, -1.7), Phase(200, 1.7)))).decision.accepted
                else:
                    lab.run(0.001)
                lab.run(0.005)
                found += sum(len(spikes) for spikes in lab.run(0.05))
                lab.run(0.4)
                lab.command("renew", lease)
            counts.append(found)
    assert counts[0] > 1.1 * counts[1]  # network bursts without a pulse are counted as well


def test_N9_exhausted_tissue_is_left_alone(path: Path) -> None:
    envelope = Envelope(rest_s=10.0)
    with bench(path, seed=11, envelope=envelope) as lab:
        lease = lab.lease(5, ttl_s=10.0)
        refused = ""
        for k in range(120):
            if k == 60:
                lab.array.set_conditions(TissueConditions(alive=0.0))
            decision = lab.ask(ask(lease.id, 5, phases=(Phase(200, -1.7), Phase(200, 1.7)))).decision
            refused = refused or ("" if decision.accepted else str(decision.limiting))
            lab.run(0.2)
            lab.command("renew", lease)
        assert refused == "response"
        lab.run(10.2)
        again = lab.lease(5)
        assert lab.ask(ask(again.id, 5)).decision.accepted


@pytest.mark.parametrize("cause", ["response", "observation", "review"])
def test_N9_what_was_accepted_is_cancelled_when_nothing_more_would_be(cause: str, path: Path) -> None:
    """A pulse is judged when it is asked for, and again until it begins."""
    tissue = Tissue(age_d=200.0, review=PermitReview("ethics", "2026-01-01", -1.0, 3.0 / 86_400))
    with bench(path, tissue=tissue if cause == "review" else None) as lab:
        lab.run(0.1)
        lease = lab.lease(25, ttl_s=10.0)
        at_frame = lab.core.next_frame + round(4.5 * RATE)
        outcome = lab.ask(ask(lease.id, 25, at_frame=at_frame))
        assert outcome.decision.accepted
        if cause == "response":
            lab.core._monitor.lost = True
        elif cause == "observation":
            unplug(lab, list(range(20)), 2.5)
        lab.run(5.0)
        assert lab.begun() == []
        ((state, _, why),) = outcome.fates.values()
        assert state == "cancelled"
        words = {"response": "hardly answers", "observation": "spikes can be detected", "review": "less is allowed"}
        assert words[cause] in why


class BusyCrystal(VirtualCrystal):
    """A clock that goes on between any two looks at it, as that of a busy machine does."""

    def __call__(self) -> float:
        self.now_s += 30e-6
        return self.now_s


def test_N1_pulses_of_one_request_begin_in_one_frame_or_none_does(path: Path) -> None:
    with bench(path, crystal=BusyCrystal()) as lab:
        begun = 0
        for k in range(200):
            electrodes = tuple(range(k % 7, k % 7 + 2 + k % 5))
            lease = lab.lease(*electrodes)
            outcome = lab.ask(ask(lease.id, *electrodes, phases=SMALL, pulses=1 + k % 2, period_frames=260))
            assert outcome.decision.accepted, outcome.decision.reasons
            lab.run(0.05)
            lab.command("release", lease)
            planned = {pulse.id: pulse.at_frame for pulse in outcome.pulses}
            for start in set(planned.values()):
                fates = [outcome.fates[number] for number, at_frame in planned.items() if at_frame == start]
                assert len(fates) == len(electrodes)
                assert len({(state, frame) for state, frame, _ in fates}) == 1
                begun += fates[0][0] == "delivered"
        assert begun > 200


def test_a_card_of_single_pulses_gets_no_request_for_several_electrodes(path: Path) -> None:
    with bench(path) as lab:
        card, stimulate = lab.array, SimulatedCard.stimulate_together
        single = SimpleNamespace(
            **{name: getattr(card, name) for name in ("info", "now_frame", "read", "cancel", "impedances", "close")},
            stimulate=lambda pulse: stimulate(card, (pulse,)),
        )
        core = Core(single, StimulationLedger(path.with_name("other.db"), card.info, ""), Envelope())
        lab.core._ledger.close()
        lab.core = core
        lease = lab.lease(0, 1)
        refused = lab.ask(ask(lease.id, 0, 1)).decision
        assert refused.limiting == "together"
        assert "single pulses only" in refused.reasons[0].text
        assert lab.ask(ask(lease.id, 1)).decision.accepted
        lab.run(0.02)
        assert len(lab.begun()) == 1


def test_N4_without_a_ledger_nothing_is_stimulated(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=10.0)
        locker = sqlite3.connect(path, isolation_level=None)
        lab.core._ledger._db.execute("PRAGMA busy_timeout=0")
        locker.execute("BEGIN IMMEDIATE")
        outcome = lab.ask(ask(lease.id, 0))
        assert not outcome.decision.accepted
        assert outcome.decision.limiting == "ledger"
        assert lab.ask(ask(lease.id, 0)).decision.limiting == "engine"
        lab.run(0.1)
        assert lab.begun() == []
        locker.execute("ROLLBACK")
        locker.close()
        lab.run(1.1)
        assert lab.core.trouble == ""
        assert lab.ask(ask(lease.id, 0)).decision.accepted


@pytest.mark.parametrize("replaced", [False, True])
def test_N4_F7_nothing_is_stimulated_when_the_ledger_was_removed_or_replaced(path: Path, replaced: bool) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=10.0)
        kept = path.with_name("kept")
        if replaced:
            shutil.copyfile(path, kept)
            kept.replace(path)
        else:
            path.rename(kept)
        outcome = lab.ask(ask(lease.id, 0))
        assert not outcome.decision.accepted
        assert outcome.decision.limiting == "ledger"
        assert "removed or replaced" in lab.core.trouble
        lab.run(2.5)
        assert lab.begun() == []
        assert "removed or replaced" in lab.core.trouble


def test_N4_what_became_of_pulses_while_the_ledger_was_locked_is_written_afterwards(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, 1, ttl_s=10.0)
        lab.core._ledger._db.execute("PRAGMA busy_timeout=0")
        soon = lab.core.next_frame + 60
        assert lab.ask(ask(lease.id, 0, at_frame=soon)).decision.accepted
        assert lab.ask(ask(lease.id, 1, at_frame=soon + 5_000)).decision.accepted
        lab.run(0.001)  # the first is handed over; it comes while the ledger is locked
        locker = sqlite3.connect(path, isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        refused = lab.ask(ask(lease.id, 0))
        assert not refused.decision.accepted
        lab.run(0.1)
        locker.execute("ROLLBACK")
        locker.close()
        lab.run(1.1)
        assert lab.core.trouble == ""
        assert lab.begun() == [soon]
    records = [[(pulse.electrode, pulse.state) for pulse in record.pulses] for record in ledger.read(path)]
    assert records == [[(0, "delivered")], [(1, "cancelled")]]
    with contextlib.closing(sqlite3.connect(path)) as db:
        orphans = db.execute("SELECT count(*) FROM fate WHERE pulse NOT IN (SELECT id FROM pulse)").fetchone()
    assert orphans == (0,)


def test_N1_a_restart_is_no_way_around_a_budget(path: Path) -> None:
    envelope = Envelope(electrode_pulses_min=10)
    accepted = []
    for _ in range(3):
        with bench(path, envelope=envelope) as lab:
            lease = lab.lease(0, ttl_s=10.0)
            count = 0
            for _ in range(8):
                count += lab.ask(ask(lease.id, 0)).decision.accepted
                lab.run(0.02)
            accepted.append(count)
    assert accepted == [8, 2, 0]


def test_S3_a_flood_of_commands_is_turned_away_and_costs_no_memory(path: Path) -> None:
    with bench(path) as lab:
        command = StimulateCommand(ask("lease-1", 0), lambda _: None, lambda _: None, lambda: False)
        for _ in range(MAX_WAITING):
            lab.core.submit(command)
        with pytest.raises(Busy, match="ask again"):
            lab.core.submit(command)
        lab.run(0.001)
        lab.core.submit(command)


def test_N9_a_permit_that_falls_in_duty_alone_cancels_what_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=10.0)
        outcome = lab.ask(ask(lease.id, 0, at_frame=lab.core.next_frame + 3 * RATE))
        assert outcome.decision.accepted
        lower = Permit(1, replace(OPEN, duty=0.01), "a test")
        monkeypatch.setattr("nerves.core.permit", lambda *_: lower)
        lab.run(3.2)
        assert [state for state, *_ in outcome.fates.values()] == ["cancelled"]
        assert lab.begun() == []


def test_a_withdrawn_request_is_never_decided(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0)
        answers: list[object] = []
        lab.core.submit(StimulateCommand(ask(lease.id, 0), answers.append, answers.append, lambda: True))
        lab.run(0.1)
        assert answers == []
        assert lab.begun() == []


def test_a_reflex_answers_within_the_same_block(path: Path) -> None:
    """A closed loop inside the engine: the pulse begins at most a block and the lead after the spike's
    block.
    """
    with bench(path) as lab:
        lease = lab.lease(0, ttl_s=10.0)
        first: list[int] = []

        def reflex(spikes: object, now: int) -> list[Request]:
            if len(spikes) and not first:  # type: ignore[arg-type]
                first.append(now)
                return [ask(lease.id, 0)]
            return []

        lab.core.reflexes.append(reflex)
        lab.run(1.0)
        assert lab.begun() == [first[0] + lab.array.info.lead_frames]


@pytest.mark.parametrize(
    ("block_frames", "band", "longest_ms"), [(25, None, 2.0), (25, LOW_DELAY, 1.4), (5, LOW_DELAY, 0.6)]
)
def test_a_loop_is_as_fast_as_its_blocks_and_its_filter(
    path: Path, block_frames: int, band: SpikeFilter | None, longest_ms: float
) -> None:
    """From the trough to the pulse, by the array's clock, without waits for a processor."""
    with bench(path, block_frames=block_frames, detection=Detection(reflex_filter=band)) as lab:
        lease = lab.lease(0, ttl_s=10.0)
        asked: list[int] = []

        def reflex(spikes: Spikes, now: int) -> list[Request]:
            if not len(spikes) or (asked and now - asked[-1] < 2_500):
                return []
            asked.append(int(spikes.frames.max()))
            return [ask(lease.id, 0)]

        lab.core.reflexes.append(reflex)
        lab.run(4.0)
        begun = lab.begun()
        assert len(begun) >= 20
        late_ms = [(frame - spike) / 25.0 for frame, spike in zip(begun, asked, strict=False)]
        assert np.percentile(late_ms, 99) <= longest_ms
        assert lab.core.reflex_latency_frames == (19 if band is None else 5)


def test_the_detector_of_reflexes_is_blanked_and_restarted_as_the_other_is(path: Path) -> None:
    with bench(path, detection=Detection(reflex_filter=LOW_DELAY)) as lab:
        seen: list[int] = []
        lab.core.reflexes.append(lambda spikes, _: seen.extend(spikes.frames.tolist()) or [])  # type: ignore[func-returns-value]
        lease = lab.lease(0, ttl_s=10.0)
        lab.run(0.5)
        lab.ask(ask(lease.id, 0))
        lab.run(0.1)
        both = lab.core._detector, lab.core._reflex_detector
        assert both[0] is not both[1]
        assert both[0].blanked_frames.sum() > 0
        assert np.array_equal(both[0].blanked_frames, both[1].blanked_frames)
        pulse = lab.begun()[0]
        assert not [frame for frame in seen if pulse <= frame < pulse + 50]
        assert seen
        lab.crystal.stall(1.0)
        lab.run(0.15)
        gap = lab.core.next_frame - round(0.15 * 25_000)
        assert lab.core.gaps == 1
        assert not [frame for frame in seen if frame > gap], "the noise level is not known yet"


def test_same_seed_and_same_pulses_give_the_same_spikes(path: Path) -> None:
    runs = []
    for k in range(2):
        lab = Bench(path.with_name(f"{k}.db"))
        lease = lab.lease(3, ttl_s=5.0)
        lab.ask(ask(lease.id, 3, pulses=10, period_frames=500))
        runs.append([spikes.frames.tolist() for spikes in lab.run(1.0)])
        lab.core.close()
    assert runs[0] == runs[1]


def test_N8_a_flat_channel_is_muted_and_counts_neither_as_silent_nor_as_active(path: Path) -> None:
    with bench(path) as lab:
        lab.run(2.0)
        before = lab.core.firing()
        assert before.observed == 32
        busiest = int(np.argmax(before.rates_hz))
        unplug(lab, [busiest], 30.0)
        firing = lab.core.firing()
        assert firing.states[busiest] == ElectrodeState.DEAD
        assert firing.states.count(ElectrodeState.OK) == 31
        assert firing.observed == 31
        assert firing.rates_hz[busiest] == 0.0
        others = [rate for k, rate in enumerate(firing.rates_hz) if k != busiest and rate >= 5 / 60]
        assert firing.mean_active_hz == pytest.approx(np.mean(others))


def test_N9_an_array_that_is_not_observed_is_not_stimulated(path: Path) -> None:
    with bench(path) as lab:
        lab.run(1.0)
        unplug(lab, list(range(20)), 2.5)
        lease = lab.lease(25, ttl_s=10.0)
        outcome = lab.ask(ask(lease.id, 25))
        assert not outcome.decision.accepted
        assert "38% of the electrodes" in outcome.decision.reasons[0].text
        assert "38%" in lab.core.trouble
        lab.run(3.0)
        lease = lab.lease(26, ttl_s=10.0)
        assert lab.core.trouble == ""
        assert lab.ask(ask(lease.id, 26)).decision.accepted


def unplug(lab: Bench, electrodes: list[int], seconds: float) -> None:
    """Step the core with frames in which these electrodes are flat."""
    for _ in range(round(seconds * 1_000)):
        block = lab.array.read()
        samples = block.samples.copy()
        samples[:, electrodes] = 0
        lab.core.step(FrameBlock(block.first_frame, samples, block.deliveries))
