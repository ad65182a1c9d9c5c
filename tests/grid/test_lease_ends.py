"""X2, X8: what ends a lease at the laboratory: alarm, welfare, permit, a ledger that cannot be written, ten minutes without
the hub. In virtual time; the electrode engine here is a stand-in that says what a real one says.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from choroid.client.nerves_terms import NervesEvent
from choroid.client.wire import nerves_pb2 as nerves_pb
from grid.errors import GridRefused
from grid.identity.keys import IdentityKey
from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess
from grid.member.membership import HubAddress, Membership
from grid.wire import grid_pb2 as pb

TTL_S = 15.0
AGENT = "grid-l1"
ALLOWED = SimpleNamespace(level="envelope", reason="", response_lost=False)
pytestmark = pytest.mark.virtual_time


class Desk:
    """Keeps the names of agents, as the rig does."""

    def __init__(self) -> None:
        self.agents: dict[str, bool] = {}

    async def issue(self, name: str, role: str, electrodes: list[int] | None, budget: Mapping[str, float]) -> str:
        self.agents[name] = True
        return f"token of {name}"

    async def revoke(self, name: str) -> None:
        self.agents[name] = False

    async def names(self) -> dict[str, bool]:
        return dict(self.agents)

    def valid(self) -> list[str]:
        return [name for name, valid in self.agents.items() if valid]


class EngineWords:
    """What an engine answers; `asked` counts how often its state was asked for."""

    def __init__(self) -> None:
        self.welfare = ALLOWED
        self.trouble = ""
        self.asked = 0
        self.said: asyncio.Queue[NervesEvent | None] = asyncio.Queue()
        self.records: list[Any] = []
        self.pages = 0
        self.reads_s = 0.01

    async def info(self) -> Any:
        return SimpleNamespace(electrodes=32, sample_rate_hz=25_000.0, simulated=True)

    async def summary(self) -> Any:
        return SimpleNamespace(welfare=self.welfare)

    async def status(self) -> Any:
        self.asked += 1
        return SimpleNamespace(trouble=self.trouble)

    async def events(self) -> AsyncGenerator[NervesEvent]:
        while (event := await self.said.get()) is not None:
            yield event

    async def ledger(self, after: int, limit: int) -> AsyncIterator[Any]:
        self.pages += 1
        await asyncio.sleep(self.reads_s)
        for record in [each for each in self.records if each.decision > after][:limit]:
            yield record

    def decided(self, agent: str, charge_nc: float, *, pulses: int = 1) -> None:
        """Record a decision; without a pulse it was a refusal."""
        pulse = SimpleNamespace(state=nerves_pb.PulseFate.DELIVERED)
        number = 1 + (self.records[-1].decision if self.records else 0)
        self.records.append(
            SimpleNamespace(decision=number, requester=agent, charge_nc=charge_nc, pulses=[pulse] * pulses)
        )

    def say(self, kind: str, text: str) -> None:
        self.said.put_nowait(NervesEvent(1, kind, 1, 0, "", (), text, False))


class Laboratory:
    """The real process of a laboratory, without the hub and with another engine."""

    def __init__(self, folder: Path) -> None:
        self.desk, self.words = Desk(), EngineWords()
        access = EngineAccess(folder, self.desk, "grid-")
        access._client = self.words  # type: ignore[assignment]
        hub = HubAddress("hub.invalid", 7700, "0" * 32)
        self.daemon = LabDaemon(Membership(folder, hub, "lab", "lab"), access, "o1")
        self.sent: list[pb.MemberMessage] = []
        self.daemon.link.send = self.sent.append  # type: ignore[method-assign, assignment]
        self.daemon.leases._send = self.sent.append

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Laboratory]:
        daemon = self.daemon
        works = (daemon._follow_state(), daemon._follow_events(), daemon.leases.watch(), daemon._obey())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            await asyncio.sleep(1.1)
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def order(
        self, verb: pb.LeaseOrder.Verb.ValueType, *, lease: str = "l1", mode: str = "stimulate", **more: float
    ) -> None:
        key = IdentityKey.generate()
        info = pb.LeaseInfo(
            lease=lease, member=key.id, organoid="o1", electrodes=[len(lease)], mode=mode, fence=len(lease)
        )
        given: dict[str, float] = {"duration_s": 3600.0, "ttl_s": TTL_S, "nc_s": 50, "charge_nc": 1e6} | more
        order = pb.LeaseOrder(verb=verb, lease=info, member_key=key.public, **given)
        self.daemon._take(pb.HubMessage(lease=order))

    def verdicts(self) -> list[tuple[bool, str]]:
        found = [each.verdict for each in self.sent if each.HasField("verdict")]
        return [(each.accepted, each.reason) for each in found]

    def ends(self) -> list[str]:
        return [each.use.reason for each in self.sent if each.HasField("use") and each.use.ended]


def permit_lapses(words: EngineWords) -> None:
    words.welfare = SimpleNamespace(level="none", reason="the review ran out", response_lost=False)


def response_fails(words: EngineWords) -> None:
    words.welfare = SimpleNamespace(level="envelope", reason="", response_lost=True)


def ledger_fails(words: EngineWords) -> None:
    words.trouble = "the stimulation ledger cannot be written"


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda words: words.say("ALARM", "the tissue hardly answers"), "alarm: the tissue hardly answers"),
        (
            lambda words: words.say("PERMIT_CLOSED", "at most the gentle level"),
            "permit_closed: at most the gentle level",
        ),
        (lambda words: words.say("STIMULATION_STOPPED", "too warm"), "stimulation_stopped: too warm"),
        (lambda words: words.said.put_nowait(None), "the electrode engine has ended the connection"),
        (permit_lapses, "the review ran out"),
        (response_fails, "the response of the tissue is lost"),
        (ledger_fails, "the stimulation ledger cannot be written"),
    ],
    ids=["alarm", "permit event", "stop", "end of events", "permit", "welfare", "ledger"],
)
async def test_X2_what_ends_stimulation_ends_its_leases_and_reading_goes_on(
    tmp_path: Path, happens: Any, reason: str
) -> None:
    async with Laboratory(tmp_path).running() as lab:
        lab.order(pb.LeaseOrder.OFFER)
        lab.order(pb.LeaseOrder.OFFER, lease="reader", mode="read")
        await asyncio.sleep(0.1)
        assert lab.verdicts() == [(True, ""), (True, "")]
        happens(lab.words)
        await asyncio.sleep(1.1)
        assert lab.desk.valid() == ["grid-reader"]
        assert lab.ends() == [reason]
        lab.order(pb.LeaseOrder.RENEW)  # of a hub that does not know yet
        lab.order(pb.LeaseOrder.OFFER, lease="next one")
        await asyncio.sleep(0.1)
        assert AGENT not in lab.desk.valid()
        lasting = bool(lab.daemon.leases.refusal)
        assert lab.verdicts()[2] == ((False, reason) if lasting else (True, ""))


async def test_X8_ten_minutes_without_the_hub(tmp_path: Path) -> None:
    async with Laboratory(tmp_path).running() as lab:
        lab.order(pb.LeaseOrder.OFFER)
        for _ in range(6):
            await asyncio.sleep(5)
            lab.order(pb.LeaseOrder.RENEW)
        assert lab.desk.valid() == [AGENT]
        await asyncio.sleep(TTL_S - 1)
        assert lab.desk.valid() == [AGENT]
        await asyncio.sleep(1.5)
        assert lab.desk.valid() == []
        asked = lab.words.asked
        await asyncio.sleep(600)
        assert lab.words.asked - asked >= 590  # the laboratory goes on
        assert lab.desk.valid() == []
        lab.order(pb.LeaseOrder.RENEW)  # the hub is back: it cannot revive what has ended
        await asyncio.sleep(1)
        assert lab.desk.valid() == []
        assert lab.ends() == ["no renewal from the hub for 15 s"]
        lab.order(pb.LeaseOrder.OFFER, lease="second")
        await asyncio.sleep(0.1)
        assert lab.desk.valid() == ["grid-second"]


async def test_an_agent_that_cannot_be_revoked_is_revoked_again(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path)
    revoke, failures = lab.desk.revoke, iter((1, 2))

    async def failing(name: str) -> None:
        if next(failures, None):
            raise GridRefused("the rig does not answer")
        await revoke(name)

    lab.desk.revoke = failing  # type: ignore[method-assign]
    async with lab.running():
        lab.order(pb.LeaseOrder.OFFER)
        await asyncio.sleep(0.1)
        lab.words.say("ALARM", "a defect")
        await asyncio.sleep(0.5)
        assert lab.desk.valid() == [AGENT]
        await asyncio.sleep(3)
        assert lab.desk.valid() == []


@pytest.mark.parametrize("happens", ["alarm", "order"])
async def test_X2_no_renewal_keeps_a_lease_that_ends_while_the_rig_is_too_busy_to_revoke_its_agent(
    tmp_path: Path, happens: str
) -> None:
    lab = Laboratory(tmp_path)
    revoke, failures = lab.desk.revoke, iter((1, 2, 3))

    async def failing(name: str) -> None:
        if next(failures, None):
            raise GridRefused("the rig is busy")
        await revoke(name)

    lab.desk.revoke = failing  # type: ignore[method-assign]
    async with lab.running():
        lab.order(pb.LeaseOrder.OFFER)
        await asyncio.sleep(0.1)
        assert lab.daemon.leases.find("l1")
        if happens == "alarm":
            lab.words.say("ALARM", "a defect")
        else:
            lab.order(pb.LeaseOrder.END)
        await asyncio.sleep(0.1)
        assert lab.desk.valid() == [AGENT]
        assert lab.daemon.leases.find("l1") is None, "no tunnel opens"
        for _ in range(25):
            lab.order(pb.LeaseOrder.RENEW)
            await asyncio.sleep(0.2)
        assert lab.desk.valid() == []
        assert lab.ends() == ["alarm: a defect" if happens == "alarm" else "the hub has ended it"]


async def test_X2_a_pulse_is_counted_once_when_a_lease_ends_while_the_deliveries_are_read(tmp_path: Path) -> None:
    async with Laboratory(tmp_path).running() as lab:
        lab.order(pb.LeaseOrder.OFFER)
        lab.order(pb.LeaseOrder.OFFER, lease="other")
        await asyncio.sleep(0.1)
        lab.words.decided(AGENT, 3.0)
        leases = lab.daemon.leases
        await asyncio.gather(leases._count(), leases.end("other", "released"))
        found = leases.find("l1")
        assert found is not None
        assert (found.charge_nc, found.pulses) == (3.0, 1)


async def test_X2_a_charge_is_counted_at_once_behind_many_requests_that_were_refused(tmp_path: Path) -> None:
    async with Laboratory(tmp_path).running() as lab:
        lab.order(pb.LeaseOrder.OFFER)
        await asyncio.sleep(0.1)
        for _ in range(5000):
            lab.words.decided(AGENT, 0.0, pulses=0)
        lab.words.decided(AGENT, 2e6)
        await asyncio.sleep(3.0)
        assert lab.ends() == ["its charge of 1e+06 nC is used up"]


async def test_X8_leases_end_in_time_although_the_engine_does_not_read_its_ledger(tmp_path: Path) -> None:
    async with Laboratory(tmp_path).running() as lab:
        lab.words.reads_s = 1e9
        for number in range(1, 6):
            lab.order(pb.LeaseOrder.OFFER, lease="l" * number)
        await asyncio.sleep(0.1)
        assert len(lab.desk.valid()) == 5
        await asyncio.sleep(TTL_S + 8.0)
        assert lab.desk.valid() == []
        assert lab.ends() == 5 * ["no renewal from the hub for 15 s"]


@pytest.mark.parametrize("records", [0, 1, 2, 1000, 5001])
async def test_a_laboratory_does_not_read_what_stands_in_the_ledger_at_its_start(tmp_path: Path, records: int) -> None:
    lab = Laboratory(tmp_path)
    access = lab.daemon._engine
    for _ in range(records):
        lab.words.decided("grid-former", 1.0)
    assert await access._newest() == records
    assert lab.words.pages <= 30
    access._begins_after = records
    lab.words.decided(AGENT, 2.0)
    assert await access.delivered(0) == (records + 1, {AGENT: (2.0, 1)})
