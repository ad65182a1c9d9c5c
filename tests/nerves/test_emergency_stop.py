"""The emergency stop of stimulation: in the core, through the engine's process, and by the controller (A9)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc.aio
import pytest

from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.running import listening
from choroid.running.listening import EngineNerves
from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarm, AlarmState
from controller.core.clock import Clock
from controller.gate.latch import Latch, StopRecord
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_nerves
from controller.rig.loading import load_rig
from nerves import ledger
from nerves.brake import Brake, BrakeOrder
from nerves.commands import StimulateCommand
from sim.lab import SimulatedLab
from tests.nerves.bench import bench
from tests.nerves.test_core import ask
from tests.nerves.test_gateway import PULSE
from tests.nerves.test_process import until

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")


def test_A9_a_stop_cancels_waiting_pulses_and_refuses_until_it_is_over(tmp_path: Path) -> None:
    brake, confirmed = Brake(), []
    path = tmp_path / "stimulation.db"
    with bench(path, brake=brake) as lab:
        lease = lab.lease(0, 1)
        lab.ask(ask(lease.id, 0, at_frame=lab.core.next_frame + 60))
        far = lab.ask(ask(lease.id, 1, at_frame=lab.core.next_frame + 5_000))
        while not lab.core._handed:
            lab.run(0.001)
        brake.order(BrakeOrder("smoke", lambda: confirmed.append(len(lab.begun()))))
        lab.run(0.01)
        assert confirmed == [1], "confirmed only when what the array had already is over"
        assert list(far.fates.values()) == [("cancelled", None, "smoke")]
        assert lab.core.leases == 0
        lease = lab.lease(0)
        refused = lab.ask(ask(lease.id, 0))
        assert not refused.decision.accepted
        assert "smoke" in " ".join(reason.text for reason in refused.decision.reasons)
        lab.run(2.0)
        assert len(lab.begun()) == 1
        assert lab.core.trouble == "smoke"
        brake.order(BrakeOrder("", lambda: confirmed.append(0)))
        lease = lab.lease(2)
        assert lab.ask(ask(lease.id, 2)).decision.accepted
        assert confirmed == [1, 0]
    assert "smoke" in ledger.read(path)[1].pulses[0].detail


def test_A9_a_stop_goes_before_commands_that_wait(tmp_path: Path) -> None:
    """The queue of commands may be full of requests: the stop of the same block still comes first."""
    brake = Brake()
    with bench(tmp_path / "stimulation.db", brake=brake) as lab:
        lease = lab.lease(0)
        answers: list[bool] = []
        for _ in range(100):
            lab.core.submit(
                StimulateCommand(
                    ask(lease.id, 0), lambda o: answers.append(o.decision.accepted), lambda _: None, lambda: False
                )
            )
        brake.order(BrakeOrder("smoke", lambda: None))
        lab.run(0.1)
        assert answers == [False] * 100
        assert lab.begun() == []


class Agent:
    """A remote agent, connected to the engine."""

    def __init__(self, data: Path) -> None:
        said = json.loads((data / "nerves.json").read_text())
        self._channel = grpc.aio.insecure_channel(said["address"], options=[("grpc.use_local_subchannel_pool", 1)])
        self._stub: pb_grpc.NervesAsyncStub = pb_grpc.NervesStub(self._channel)
        self._metadata = (("authorization", f"Bearer {said['token']}"),)

    async def lease(self, *electrodes: int) -> str:
        request = pb.AcquireLeaseRequest(electrodes=electrodes, ttl_ms=10_000)
        return (await self._stub.AcquireLease(request, metadata=self._metadata)).lease

    async def stimulate(self, lease: str, electrode: int, in_frames: int = 0) -> pb.StimulateReply:
        now = (await self._stub.Status(pb.StatusRequest(), metadata=self._metadata)).next_frame
        request = pb.StimulateRequest(lease=lease, electrodes=[electrode], phases=PULSE)
        if in_frames:
            request.at_frame, request.not_after = now + in_frames, now + in_frames + 250
        return await self._stub.Stimulate(request, metadata=self._metadata)

    async def delivered(self) -> int:
        return (await self._stub.Status(pb.StatusRequest(), metadata=self._metadata)).pulses_delivered

    async def events(self) -> list[pb.Event]:
        """Everything that the engine has reported so far."""
        stream = self._stub.StreamEvents(pb.StreamEventsRequest(after=0), metadata=self._metadata)
        found: list[pb.Event] = []
        with contextlib.suppress(TimeoutError):
            while True:
                found.append(await asyncio.wait_for(stream.read(), 1.0))  # type: ignore[arg-type]
        stream.cancel()
        return found

    async def close(self) -> None:
        await self._channel.close(None)


HANGS_S = 5.0
"""A stop that takes longer waits for something. `choroid verify bench estop` measures how long it really takes."""


@asynccontextmanager
async def living(data: Path) -> AsyncIterator[tuple[Controller, EngineNerves]]:
    """A controller in real time over a lab, with an electrode engine that is ready to stimulate or to refuse."""
    lab = SimulatedLab(RIG, seed=1)
    nerves = EngineNerves(RIG, data, 3)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(
        rig=RIG,
        opener=lab.opener,
        storage=Storage(data, durable=False),
        clock=clock,
        stimulator=nerves,
        parts=(with_nerves(nerves),),
    )
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    nerves.start(controller.edges)
    try:
        await until(lambda: bool(nerves.recent_spikes()))
        yield controller, nerves
    finally:
        stop.set()
        await ticking
        await controller.close()
        await nerves.close()
        await lab.close()


async def test_A9_an_emergency_stop_ends_stimulation_and_stands_over_restarts_of_engine_and_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reproduction: one pulse was accepted and delivered after an emergency stop."""
    monkeypatch.setattr(listening, "FIRST_PAUSE_S", 0.1)
    async with living(tmp_path) as (controller, nerves):
        agent = Agent(tmp_path)
        lease = await agent.lease(1)
        waiting = asyncio.create_task(agent.stimulate(lease, 1, in_frames=12_500))
        await asyncio.sleep(0.1)
        began_s = time.monotonic()
        await controller.emergency_stop("anna", "smoke")
        assert time.monotonic() - began_s < HANGS_S
        reply = await waiting
        assert reply.accepted, reply.reasons
        (fate,) = reply.pulses
        assert fate.state == pb.PulseFate.CANCELLED
        before = await agent.delivered()
        refused = await agent.stimulate(await agent.lease(2), 2)
        assert not refused.accepted
        assert "anna: smoke" in refused.reasons[0].text
        assert await agent.delivered() == before
        await agent.close()

        first = nerves.engine
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)  # an engine that comes back is not allowed to stimulate either
        await until(lambda: nerves.engine is not first and nerves.engine is not None)
        await until(lambda: bool(nerves.recent_spikes()))
        agent = Agent(tmp_path)
        assert not (await agent.stimulate(await agent.lease(2), 2)).accepted
        await agent.close()
        rows = [row.body["how"] for row in controller.journal.entries(kinds=("safety.stimulation_stopped",))]
        assert rows == ["confirmed"]

    async with living(tmp_path) as (controller, nerves):
        assert controller.gate.emergency == "anna: smoke"
        agent = Agent(tmp_path)
        assert not (await agent.stimulate(await agent.lease(2), 2)).accepted
        await controller.emergency_reset("ben", "only toast")
        assert (await agent.stimulate(await agent.lease(3), 3)).accepted
        await agent.close()


@pytest.mark.long
async def test_A9_an_engine_that_does_not_confirm_the_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "FIRST_PAUSE_S", 60.0)
    async with living(tmp_path) as (controller, nerves):
        engine = nerves.engine
        assert engine is not None
        os.kill(engine.pid, signal.SIGSTOP)
        began_s = time.monotonic()
        await controller.emergency_stop("anna", "smoke")
        assert time.monotonic() - began_s < HANGS_S
        with pytest.raises(ProcessLookupError):
            os.kill(engine.pid, 0)
        (row,) = controller.journal.entries(kinds=("safety.stimulation_stopped",))
        assert "killed" in row.body["how"]


class Stimulated:
    """A stimulator that records its orders; it may fail."""

    ledger_problem = ""
    card_problem = ""
    recording_problem = ""

    def __init__(self, failing: bool = False) -> None:
        self.orders: list[str] = []
        self._failing = failing

    def forbid_stimulation(self, why: str) -> None:
        self.orders.append(f"forbidden: {why}")

    async def stop_stimulation(self, why: str) -> str:
        if self._failing:
            raise RuntimeError("no such engine")
        self.orders.append(f"stopped: {why}")
        return "confirmed"

    async def allow_stimulation(self) -> None:
        self.orders.append("allowed")


def made(data: Path, lab: SimulatedLab, stimulated: Stimulated) -> Controller:
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    return Controller(
        rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=clock, stimulator=stimulated
    )


@pytest.mark.virtual_time
async def test_A11_a_ledger_that_cannot_be_used_is_an_alarm_for_as_long(tmp_path: Path) -> None:
    stimulated = Stimulated()
    lab = SimulatedLab(RIG, seed=1)
    controller = made(tmp_path, lab, stimulated)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        stimulated.ledger_problem = "stimulation.db cannot be used"
        await asyncio.sleep(5.0)
        (alarm,) = [each for each in controller.alarms.active() if each.kind == "stimulation_ledger_lost"]
        assert alarm.detail == stimulated.ledger_problem
        assert not [each for each in controller.alarms.active() if each.kind == "defect"]
        stimulated.ledger_problem = ""
        await asyncio.sleep(DEFINITIONS["stimulation_ledger_lost"].off_delay_s + 5.0)
        (alarm,) = [each for each in controller.alarms.active() if each.kind == "stimulation_ledger_lost"]
        assert alarm.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
    finally:
        stop.set()
        await ticking
        await controller.close()


@pytest.mark.virtual_time
async def test_a_recording_with_gaps_is_an_alarm_for_as_long(tmp_path: Path) -> None:
    stimulated = Stimulated()
    controller = made(tmp_path, SimulatedLab(RIG, seed=1), stimulated)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        stimulated.recording_problem = "the recording evening lacks 17444 frames"
        await asyncio.sleep(5.0)
        (alarm,) = [each for each in controller.alarms.active() if each.kind == "recording_incomplete"]
        assert alarm.detail == stimulated.recording_problem
        stimulated.recording_problem = ""
        await asyncio.sleep(DEFINITIONS["recording_incomplete"].off_delay_s + 5.0)
        (alarm,) = [each for each in controller.alarms.active() if each.kind == "recording_incomplete"]
        assert alarm.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
    finally:
        stop.set()
        await ticking
        await controller.close()


@pytest.mark.virtual_time
async def test_A11_a_fault_of_the_electrode_card_is_an_alarm_for_as_long(tmp_path: Path) -> None:
    stimulated = Stimulated()
    lab = SimulatedLab(RIG, seed=1)
    controller = made(tmp_path, lab, stimulated)

    def alarm() -> Alarm | None:
        found = [each for each in controller.alarms.active() if each.source == "electrode card"]
        return found[0] if found else None

    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        stimulated.card_problem = "dead (16 electrodes): chip 1 of port A stands still; exchange the headstage"
        await asyncio.sleep(DEFINITIONS["device_lost"].on_delay_s + 5.0)
        raised = alarm()
        assert raised is not None
        assert (raised.kind, raised.detail) == ("device_lost", stimulated.card_problem)
        stimulated.card_problem = ""
        await asyncio.sleep(DEFINITIONS["device_lost"].off_delay_s + 5.0)
        over = alarm()
        assert over is None or over.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
    finally:
        stop.set()
        await ticking
        await controller.close()


@pytest.mark.virtual_time
async def test_A9_a_stop_that_only_its_file_knows_stands_is_recorded_and_can_be_reset(tmp_path: Path) -> None:
    """The guard leaves the file for a controller that hung; the journal was lost; the disk was full."""
    Latch(tmp_path).set("guard", "choroid stop")
    stimulated = Stimulated()
    lab = SimulatedLab(RIG, seed=1)
    controller = made(tmp_path, lab, stimulated)
    await controller.start()
    try:
        assert controller.gate.emergency == "guard: choroid stop"
        assert stimulated.orders == [
            "forbidden: emergency stop by guard: choroid stop; a person must reset it",
        ]
        assert [row.body["user"] for row in controller.journal.entries(kinds=("safety.estop",))] == ["guard"]
        assert "emergency_stop" in {alarm.kind for alarm in controller.alarms.active()}
        await controller.emergency_reset("ben", "seen to")
        assert controller.gate.emergency is None
        assert stimulated.orders[-1] == "allowed"
        assert Latch(tmp_path).read() is None
    finally:
        await controller.close()
        await lab.close()


@pytest.mark.virtual_time
async def test_A9_a_stop_during_the_start_stands_when_the_gate_is_there(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    stimulated = Stimulated()
    controller = made(tmp_path, lab, stimulated)
    await controller.emergency_stop("anna", "smoke")
    await controller.start()
    try:
        assert controller.gate.emergency == "anna: smoke"
        assert stimulated.orders[0].startswith("stopped")
    finally:
        await controller.close()
        await lab.close()


@pytest.mark.virtual_time
async def test_A9_a_controller_that_starts_in_an_emergency_stop_brings_what_was_left_on_to_its_basal_state(
    tmp_path: Path,
) -> None:
    lab = SimulatedLab(RIG, seed=1)
    before = made(tmp_path, lab, Stimulated())
    await before.start()
    assert lab.plant.truth().flows_ul_min["heart"] > 1900.0
    await before.close(leave_running=True)
    Latch(tmp_path).set("guard", "choroid stop")
    controller = made(tmp_path, lab, Stimulated())
    await controller.start()
    try:
        await asyncio.sleep(2.0)
        assert 900.0 < lab.plant.truth().flows_ul_min["heart"] < 1900.0
    finally:
        await controller.close()
        await lab.close()


@pytest.mark.virtual_time
async def test_A9_perfusion_stops_though_stimulation_cannot_be_stopped_and_a_person_is_notified(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    controller = made(tmp_path, lab, Stimulated(failing=True))
    await controller.start()
    try:
        await controller.emergency_stop("anna", "smoke")
        assert controller.gate.emergency == "anna: smoke"
        assert [alarm.source for alarm in controller.alarms.active() if alarm.kind == "command_failed"] == ["nerves"]
    finally:
        await controller.close()
        await lab.close()


def test_a_spoilt_latch_file_counts_as_a_stop(tmp_path: Path) -> None:
    latch = Latch(tmp_path)
    assert latch.read() is None
    for text in ("", "{}", "[]", '{"who": 1}', "\0"):
        (tmp_path / "emergency-stop.json").write_text(text)
        assert latch.read() is not None, text
    latch.set("anna", "„Rauch“ \n")
    assert latch.read() == StopRecord("anna", "„Rauch“ \n")
    latch.clear()
    latch.clear()
    assert latch.read() is None
