"""The end of a controller: the messages its guard receives at an orderly end, and what the guard must still do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.guard.channel import GuardChannel
from controller.guard.heartbeat import MAX_END_S, Guarded
from controller.guard.liveness import SILENCE_S, TICK_S, Look
from controller.guard.wire import Message
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.ending import FALL_BACK_S
from controller.rig.loading import load_rig
from controller.safety.terms import Intent
from drivers.commands import Command, Dispense, Switch
from sim.lab import SimulatedLab

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.virtual_time


class RecordingGuard:
    """A guard in virtual time that keeps what it receives, and when (loop s). `mute` makes it answer nothing."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.closed = False
        self.killed = False
        self.mute = False
        self.last_s = self.now_s()
        self.longest_silence_s = 0.0
        self.progress = 0
        self._tell: Callable[[list[Message] | None], None] = lambda messages: None

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def listen(self, receive: Callable[[list[Message] | None], None]) -> None:
        self._tell = receive

    def say(self, message: Message) -> None:
        now_s = self.now_s()
        if "verified" in message or "counted" in message:
            return  # what a rescue would need
        if "beat" not in message:
            self.received.append(message)
        elif message["tick"] != self.progress or self.progress == 0:
            self.longest_silence_s = max(self.longest_silence_s, now_s - self.last_s) if self.progress else 0.0
            self.progress, self.last_s = message["tick"], now_s
        if not self.mute:
            asyncio.get_running_loop().call_soon(self._tell, [{"beat": message.get("beat", 0)}])

    def order(self, message: Message) -> None:
        self._tell([message])

    def observe(self, at_s: float, lag_s: float) -> Look:
        return Look(at_s, "S", 0.0, lag_s)

    def kill(self) -> None:
        self.killed = True

    def close(self) -> None:
        self.closed = True
        self.longest_silence_s = max(self.longest_silence_s, self.now_s() - self.last_s)


async def no_other() -> RecordingGuard:
    raise ConnectionRefusedError("no other guard")


@asynccontextmanager
async def with_guard(
    data: Path, restore: Callable[[], Awaitable[GuardChannel]] = no_other
) -> AsyncIterator[tuple[Controller, SimulatedLab, RecordingGuard]]:
    """Yield a controller with a guard after one minute; it ends in order with the block."""
    lab = SimulatedLab(RIG, seed=1)
    guard = RecordingGuard()
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(
        rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=clock, guard=Guarded(guard, restore)
    )
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    try:
        yield controller, lab, guard
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


async def ask(controller: Controller, actuator: str, command: Command) -> None:
    outcome = await controller.gate.submit(Intent(actuator, command, "test", "a test"))
    assert outcome.ok, outcome


async def give_back(controller: Controller) -> None:
    """Begin a return."""
    await ask(controller, "dose_fresh.pump", Dispense(6000.0, 10_000.0, "f"))
    await asyncio.sleep(60.0)
    controller.ledger.moved("feed", 6000.0, 50.0, "test")
    await asyncio.sleep(2.0)
    await ask(controller, "relay.return_valve", Switch(True))
    await ask(controller, "reglo.return", Dispense(5000.0, 4000.0, "r"))


async def test_a_goodbye_is_said_when_everything_is_in_its_basal_state(tmp_path: Path) -> None:
    async with with_guard(tmp_path) as (controller, _, guard):
        await give_back(controller)
        assert guard.received == []
    assert guard.received == [{"goodbye": True}], "and nothing after it, because the guard has ended"


async def test_A1_what_could_not_be_brought_to_rest_is_left_to_the_guard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_guard(tmp_path) as (controller, lab, guard):
        await give_back(controller)
        lab.lines["sim:reglo"].unplug()
        lab.lines["sim:gas"].unplug()
    assert guard.closed, "the guard sees the connection close"
    assert guard.received == [{"leave": True}]
    left = next(record.getMessage() for record in caplog.records if "basal state" in record.getMessage())
    for name in ("reglo.heart", "reglo.return", "gas_air.flow", "gas_co2.flow"):
        assert name in left


async def test_A1_an_end_that_does_not_come_to_one_leaves_the_rest_to_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_guard(tmp_path) as (controller, _, guard):
        monkeypatch.setattr(controller.gate, "fall_back", lambda reason, ending: asyncio.sleep(1000.0))
        begun_s = asyncio.get_running_loop().time()
    assert guard.closed
    assert guard.received == [{"leave": True}]
    assert guard.last_s - begun_s > FALL_BACK_S - 1.0, "it beats until then"
    assert guard.longest_silence_s < TICK_S + SILENCE_S, "a slow end is no hang: it would be killed for it"


async def test_an_end_that_hangs_falls_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_guard(tmp_path) as (controller, lab, guard):
        lab.lines["sim:gas"].unplug()
        close = controller.devices.close

        async def hang() -> None:
            await asyncio.sleep(MAX_END_S + 60.0)
            await close()

        monkeypatch.setattr(controller.devices, "close", hang)
    assert guard.longest_silence_s > TICK_S + SILENCE_S


async def test_U2_a_guard_that_does_not_answer_is_killed_and_replaced_within_five_seconds(tmp_path: Path) -> None:
    other: list[RecordingGuard] = []

    async def another() -> RecordingGuard:
        other.append(RecordingGuard())
        return other[-1]

    async with with_guard(tmp_path, another) as (controller, _, guard):
        guard.mute = True
        await asyncio.sleep(5.0)
        assert guard.killed
        assert guard.closed
        assert len(other) == 1
        assert other[0].progress > 0, "it is under the new guard's watch"
        assert "guard_lost:guard" in {alarm.id for alarm in controller.alarms.active()}
    assert other[0].received == [{"goodbye": True}]


async def test_U2_another_guard_is_asked_for_until_there_is_one(tmp_path: Path) -> None:
    tries: list[float] = []

    async def another() -> RecordingGuard:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 4:
            raise ConnectionRefusedError("no guard yet")
        return RecordingGuard()

    async with with_guard(tmp_path, another) as (controller, _, guard):
        guard.order({"nonsense": 1})
        guard._tell(None)
        await asyncio.sleep(30.0)
        assert len(tries) == 4
        assert controller.health().ok, "the rig lives on without a guard"


async def test_A9_an_emergency_stop_from_the_guard_is_carried_out_and_confirmed(tmp_path: Path) -> None:
    async with with_guard(tmp_path) as (controller, _, guard):
        guard.order({"stop": "smoke", "who": "anna", "number": 7})
        await asyncio.sleep(0.4)
        assert guard.received[0] == {"stopping": 7}
        await asyncio.sleep(5.0)
        assert {"stopped": 7} in guard.received
        assert controller.gate.emergency == "anna: smoke"


async def test_A9_an_emergency_stop_that_fails_is_the_guards_to_carry_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_guard(tmp_path) as (controller, _, guard):

        async def fail(who: str, reason: str) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(controller._heartbeat, "_stop", fail)
        guard.order({"stop": "smoke", "who": "anna", "number": 7})
        await asyncio.sleep(1.0)
        assert any(message.get("unstopped") == 7 for message in guard.received)


async def test_U3_a_controller_whose_guard_is_told_to_end_ends_in_order(tmp_path: Path) -> None:
    async with with_guard(tmp_path) as (controller, _, guard):
        assert not controller.ended_by_guard.is_set()
        guard.order({"end": "SIGTERM"})
        assert controller.ended_by_guard.is_set()
