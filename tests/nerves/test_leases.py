"""Leases: names that cannot be guessed, heartbeats, fencing tokens, idempotency keys, events (N3, X2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nerves import ledger
from nerves.brake import Brake, BrakeOrder
from nerves.commands import CutOffCommand, LeaseCommand, RevokeCommand, StimulateCommand, StimulationOutcome
from nerves.detector import ElectrodeState
from nerves.envelope import AgentBudget
from nerves.events import EVENTS_KEPT, EventKind, EventLog
from nerves.governor import Request
from nerves.leases import Lease, LeaseRefused, Leases
from nerves.permit import OPEN, Permit, PermitReview, Tissue
from nerves.reporter import Reporter
from tests.nerves.bench import Bench, bench
from tests.nerves.test_core import SMALL, ask

RATE = 25_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stimulation.db"


def hold(lab: Bench, *electrodes: int, requester: str = "agent", ttl_s: float = 1.0) -> Lease:
    answers: list[Lease | LeaseRefused] = []
    command = LeaseCommand("acquire", requester, answers.append, electrodes=electrodes, ttl_s=ttl_s, held=True)
    lab.core.submit(command)
    lab.run(0.001)
    assert isinstance(answers[0], Lease), answers
    return answers[0]


def train(lease: Lease, electrode: int = 0) -> Request:
    """Every 10 ms for a second."""
    return replace(ask(lease.id, electrode), phases=SMALL, pulses=100, period_frames=250, requester=lease.requester)


def submit(lab: Bench, request: Request, *, awaited: bool = True) -> tuple[StimulateCommand, list[StimulationOutcome]]:
    decided: list[StimulationOutcome] = []
    command = StimulateCommand(request, decided.append, decided.append, lambda: False, awaited=awaited)
    lab.core.submit(command)
    lab.run(0.001)
    return command, decided


def test_X2_names_cannot_be_guessed_and_fences_grow_over_restarts(path: Path) -> None:
    with bench(path) as lab:
        first, second = lab.lease(0), lab.lease(1)
        assert len({first.id, second.id}) == 2
        assert all(len(each.id) == 32 and int(each.id, 16) for each in (first, second))
        assert first.fence < second.fence
    with bench(path) as lab:
        assert lab.lease(0).fence > second.fence


def test_names_come_from_an_injected_source() -> None:
    leases = Leases(4, RATE, new_id=iter("ab").__next__)
    assert [leases.acquire("anna", [k], 1.0, 0).id for k in (0, 1)] == ["a", "b"]


def test_X2_a_request_with_an_older_fence_is_refused(path: Path) -> None:
    with bench(path) as lab:
        old = lab.lease(0)
        lab.command("release", old)
        new = lab.lease(0)
        late = replace(ask(old.id, 0), fence=old.fence)
        assert lab.ask(late).decision.limiting == "lease"
        assert lab.ask(replace(late, lease=new.id)).decision.limiting == "fence"
        assert lab.ask(replace(late, lease=new.id, fence=new.fence)).decision.accepted
        lab.run(0.05)
        assert lab.ask(replace(late, lease=new.id, fence=0)).decision.accepted  # a client that names none


def test_N3_a_silent_holder_stimulates_no_more_within_50_ms_and_goes_on_with_its_heartbeats(path: Path) -> None:
    with bench(path) as lab:
        lease = hold(lab, 0)
        assert lab.ask(train(lease)).decision.accepted
        for _ in range(20):
            lab.command("renew", lease)
            lab.run(0.01)
        silent_from = lab.core.next_frame
        lab.run(0.3)
        later = [frame for frame in lab.begun() if frame > silent_from]
        assert later
        assert max(later) <= silent_from + 0.05 * RATE
        lab.command("renew", lease)  # its time to live is not over
        resumed = lab.core.next_frame
        lab.run(0.05)
        assert max(lab.begun()) > resumed
    (record,) = ledger.read(path)
    details = {pulse.detail for pulse in record.pulses if pulse.state == "cancelled"}
    assert any("no heartbeat" in detail for detail in details)


def test_N3_a_lease_without_a_heartbeat_reaches_no_further_than_its_open_call(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, 1, ttl_s=5.0)
        _, (refused, *_) = submit(lab, train(lease), awaited=False)
        assert not refused.decision.accepted
        assert "HoldLease" in refused.decision.reasons[0].text
        near = replace(train(lease), pulses=3)
        assert submit(lab, near, awaited=False)[1][0].decision.accepted
        command, (outcome, *_) = submit(lab, train(lease, 1))
        assert outcome.decision.accepted
        lab.run(0.1)
        lab.core.submit(CutOffCommand(command))
        lab.run(0.002)
        cut = len(lab.begun())
        lab.run(0.5)
        assert len(lab.begun()) <= cut + 1
        assert outcome.finished


def test_a_cut_off_call_leaves_the_pulses_of_a_held_lease(path: Path) -> None:
    with bench(path) as lab:
        lease = hold(lab, 0)
        command, _ = submit(lab, train(lease))
        lab.core.submit(CutOffCommand(command))
        for _ in range(20):
            lab.command("renew", lease)
            lab.run(0.01)
        assert len(lab.begun()) > 15


def test_S2_a_revoked_agent_loses_its_leases_and_no_other_does(path: Path) -> None:
    with bench(path) as lab:
        anna, ben = lab.lease(0, requester="anna"), lab.lease(1, requester="ben")
        outcome = lab.ask(train(anna))
        done: list[bool] = []
        lab.core.submit(RevokeCommand("anna", lambda: done.append(True), "anna may not stimulate any more"))
        lab.run(0.01)
        assert done == [True]
        assert outcome.finished
        assert isinstance(lab.command("renew", anna), LeaseRefused)
        assert isinstance(lab.command("renew", ben), Lease)
        assert (lab.core.leases_of("anna"), lab.core.leases_of("ben")) == (0, 1)


def test_N1_an_agents_own_budget_binds_before_the_envelopes(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0, requester="anna")
        few = replace(train(lease), budget=AgentBudget(pulses_min=20.0))
        refused = lab.ask(few)
        assert refused.decision.limiting == "pulse_budget"
        assert "anna" in refused.decision.reasons[0].text
        assert lab.ask(replace(few, pulses=20)).decision.accepted
        lab.run(0.3)
        assert lab.ask(replace(few, pulses=1)).decision.limiting == "pulse_budget"
        little = replace(train(lab.lease(1, requester="ben"), 1), budget=AgentBudget(nc_s=0.5))
        assert lab.ask(little).decision.limiting == "charge_budget"
    with bench(path) as lab:  # a restart is no way around it
        lab.run(0.3)
        again = replace(few, lease=lab.lease(0, requester="anna").id, pulses=1)
        assert lab.ask(again).decision.limiting == "pulse_budget"


def keyed(lease: Lease, key: str = "k", **changes: object) -> Request:
    return replace(ask(lease.id, 0), idempotency_key=key, **changes)  # type: ignore[arg-type]


def test_a_repeat_with_the_same_key_is_answered_as_the_first_and_stimulates_no_second_time(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0)
        first = lab.ask(keyed(lease))
        lab.run(0.05)
        command, answers = submit(lab, keyed(lease))
        assert command.repeated
        assert [each.number for each in answers] == [first.number] * 2  # decided and finished
        assert answers[0].fates == first.fates
        assert len(lab.begun()) == 1
        assert lab.ask(keyed(lease, "other", at_frame=lab.core.next_frame + 500)).number > first.number
        other = replace(keyed(lease), requester="ben")  # keys belong to their requester
        assert lab.ask(other).decision.limiting == "lease"
    with bench(path) as lab:
        lease = lab.lease(0)
        command, (answer, finished) = submit(lab, keyed(lease))
        assert command.repeated
        assert answer is finished
        assert answer.number == first.number
        assert answer.decision.accepted
        assert list(answer.fates.values()) == list(first.fates.values())
        lab.run(0.1)
        assert lab.begun() == []
    assert len(ledger.read(path)) == 3


def test_a_repeat_before_the_first_is_done_waits_for_the_same_pulses(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0)
        request = keyed(lease, at_frame=lab.core.next_frame + 500)
        answers: list[list[StimulationOutcome]] = [[], []]
        for each in answers:
            lab.core.submit(StimulateCommand(request, each.append, each.append, lambda: False))
        lab.run(0.001)
        assert [len(each) for each in answers] == [1, 1]
        lab.run(0.05)
        assert answers[0] == answers[1]
        assert len(answers[0]) == 2
        assert len(lab.begun()) == 1


def test_a_key_that_names_another_request_is_refused(path: Path) -> None:
    with bench(path) as lab:
        lease = lab.lease(0)
        first = lab.ask(keyed(lease))
        refused = lab.ask(keyed(lease, phases=SMALL))
        assert refused.decision.limiting == "idempotency"
        assert str(first.number) in refused.decision.reasons[0].text
        refused_first = lab.ask(keyed(lease, "bad", pulses=0))
        assert not refused_first.decision.accepted
        assert lab.ask(keyed(lease, "bad", pulses=0)).number == refused_first.number


def kinds(lab: Bench, requester: str | None = None) -> list[EventKind]:
    return [event.kind for event in lab.core.events.read(0, requester)[1]]


def test_events_tell_of_ended_leases_stops_gaps_and_only_its_holder_sees_a_lease(path: Path) -> None:
    brake = Brake()
    with bench(path, brake=brake) as lab:
        lease = lab.lease(0, 3, requester="anna", ttl_s=0.1)
        lab.run(0.2)
        (ended,) = [event for event in lab.core.events.read(0, "anna")[1] if event.kind is EventKind.LEASE_ENDED]
        assert (ended.lease, ended.electrodes) == (lease.id, (0, 3))
        assert ended.frame >= lease.until_frame
        assert EventKind.LEASE_ENDED not in kinds(lab, "ben")
        brake.order(BrakeOrder("smoke", lambda: None))
        lab.run(0.002)
        brake.order(BrakeOrder("", lambda: None))
        lab.run(0.002)
        lab.crystal.stall(2.0)
        lab.run(0.01)
        assert kinds(lab, "ben") == [
            EventKind.ENGINE_STARTED,
            EventKind.STIMULATION_STOPPED,
            EventKind.STIMULATION_ALLOWED,
            EventKind.GAP,
        ]
        gap = lab.core.events.read(0, None)[1][-1]
        assert (gap.end_frame - gap.frame) == lab.core.lost_frames > 0


def test_events_tell_when_a_permit_closes(path: Path) -> None:
    review = PermitReview("ethics", "2026-01-01", -1.0, 3.0 / 86_400)
    with bench(path, tissue=Tissue(age_d=200.0, review=review)) as lab:
        lab.run(5.0)
        told = [event for event in lab.core.events.read(0, "agent")[1] if event.kind is EventKind.PERMIT_CLOSED]
        assert "gentle" in told[-1].text


def test_a_reader_resumes_after_its_last_number_and_learns_what_it_has_lost() -> None:
    log = EventLog(3)
    for k in range(10):
        log.add(EventKind.ALARM, k, requester="anna" if k % 2 else "")
    lost, events, number = log.read(log.last - 4, "ben")
    assert not lost
    assert [event.frame for event in events] == [6, 8]
    assert number == log.last
    assert log.read(number, None) == (False, [], number)
    for k in range(EVENTS_KEPT):
        log.add(EventKind.ALARM, k)
    lost, events, _ = log.read(number - 5, None)
    assert lost
    assert len(events) == EVENTS_KEPT
    assert EventLog(4).last > log.last
    assert EventLog(4).read(number, None)[0]  # an engine that was started again does not know what came before


def test_events_tell_which_channels_are_muted_and_restored() -> None:
    log = EventLog(1)
    reporter = Reporter(log, Permit(1, OPEN))
    states = np.full(4, ElectrodeState.OK, np.int8)
    states[1], states[2], states[3] = ElectrodeState.DEAD, ElectrodeState.BLANKED, ElectrodeState.NOISY
    for _ in range(2):  # once is enough
        reporter.update(100, states, Permit(1, OPEN), False, "")
    states[1] = ElectrodeState.OK
    reporter.update(200, states, Permit(1, OPEN), False, "")
    _, events, _ = log.read(0, "agent")
    told = [(event.kind, event.electrodes) for event in events]
    assert sorted(told[:2], key=lambda each: each[1]) == [
        (EventKind.CHANNEL_MUTED, (1,)),
        (EventKind.CHANNEL_MUTED, (3,)),
    ]
    assert told[2:] == [(EventKind.CHANNEL_RESTORED, (1,))]
