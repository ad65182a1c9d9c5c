"""A gate over outputs that can be made to fail, a journal in memory, and the rig's own limits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

from controller.core.clock import Clock
from controller.core.state import StateStore, Volume
from controller.gate.gate import Gate
from controller.gate.outcome import Outcome
from controller.journal.context import RigContext
from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.safety.limits import limits_of
from controller.safety.terms import Intent, KernelVolume
from drivers.commands import (
    Command,
    Dispense,
    Guarantee,
    Level,
    LevelStatus,
    PumpStatus,
    Quality,
    Run,
    Status,
    Switch,
    SwitchStatus,
)
from drivers.device import Actuator
from drivers.errors import NoReply
from tests.controller.safety.facts import AIR, CO2, O2, RIG

READINGS = {
    "t_chamber.temperature": (37.0, "degC"),
    "p_filter.pressure": (1.0, "kPa"),
    AIR: (47.0, "mL/min"),
    CO2: (3.0, "mL/min"),
    O2: (0.0, "mL/min"),
}
HEART_READING = (5.0, "kPa")


class Output(Actuator):
    """An output with a will of its own: `silent` answers nothing, `deaf` says yes and does nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[Command] = []
        self.silent = False
        self.deaf = False
        self.refuses: type[Command] | None = None
        self.broken = False
        self.takes_s = 0.02
        self.now_s = asyncio.get_running_loop().time

    async def apply(self, command: Command) -> None:
        self.log.append(command)
        await asyncio.sleep(self.takes_s)
        if self.broken:
            raise ZeroDivisionError("a slip in the driver")
        if self.silent or (self.refuses is not None and isinstance(command, self.refuses)):
            raise NoReply("no answer", where=self.name, cause="test", action="none")
        if not self.deaf:
            self.obey(command)

    async def status(self) -> Status:
        await asyncio.sleep(0.01)
        if self.broken:
            raise ZeroDivisionError("a slip in the driver")
        if self.silent:
            raise NoReply("no answer", where=self.name, cause="test", action="none")
        return self.say()

    def obey(self, command: Command) -> None:
        raise NotImplementedError

    def say(self) -> Status:
        raise NotImplementedError


class Pump(Output):
    kind, unit, guarantee = "pump", "uL/min", Guarantee.DEVICE

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.flow = 0.0
        self.until_s = float("inf")
        self.never_ends = False

    def guarantee_for(self, command: Command) -> Guarantee:
        return Guarantee.GUARD if isinstance(command, Run) else Guarantee.DEVICE

    def obey(self, command: Command) -> None:
        self.until_s = float("inf")
        match command:
            case Run(flow_ul_min=flow):
                self.flow = flow
            case Dispense(volume_ul=ul, flow_ul_min=flow):
                self.flow = flow
                self.until_s = float("inf") if self.never_ends else self.now_s() + ul / flow * 60.0
            case _:
                self.flow = 0.0

    def say(self) -> Status:
        if self.now_s() >= self.until_s:
            self.flow = 0.0
        return PumpStatus(self.flow != 0.0, self.flow, 0.0)


class Relay(Output):
    """With `keeps_time` it ends its pulses by itself."""

    kind, unit, guarantee = "switch", "", Guarantee.GUARD
    keeps_time = True

    def guarantee_for(self, command: Command) -> Guarantee:
        timed = isinstance(command, Switch) and command.for_s is not None
        return Guarantee.DEVICE if timed and self.keeps_time else Guarantee.GUARD

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.until_s = float("-inf")
        self.welded = False

    def obey(self, command: Command) -> None:
        on = isinstance(command, Switch) and command.on
        for_s = command.for_s if isinstance(command, Switch) and self.keeps_time else None
        self.until_s = float("-inf") if not on else self.now_s() + (float("inf") if for_s is None else for_s)

    def say(self) -> Status:
        return SwitchStatus(self.welded or self.now_s() < self.until_s)


class Valve(Output):
    kind, unit, guarantee = "level", "mL/min", Guarantee.GUARD

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setpoint = 0.0

    def obey(self, command: Command) -> None:
        self.setpoint = command.value if isinstance(command, Level) else 0.0

    def say(self) -> Status:
        return LevelStatus(self.setpoint, self.setpoint)


@dataclass
class Rows:
    """A journal in memory, whose disk may be full."""

    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    full: bool = False
    slow_s: float = 0.0
    """How long a row takes to reach the disk."""
    unwritten: Exception | None = None

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        self.rows.append((kind, dict(body)))
        return len(self.rows)

    def on_disk(self, seq: int) -> bool:
        return self.slow_s == 0.0 and self.unwritten is None

    async def durable(self, seq: int) -> None:
        await asyncio.sleep(self.slow_s)
        if self.unwritten is not None:
            raise self.unwritten

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [body for kind, body in self.rows if kind in kinds]


class Bench:
    """Every output of the bench rig, or of one like it, behind a real gate."""

    def __init__(
        self, *, books: bool = False, rig: Rig = RIG, real: Mapping[str, Actuator] = MappingProxyType({})
    ) -> None:
        """`real` actuators take the place of the bench's own."""
        self.loop = asyncio.get_running_loop()
        self.limits = limits_of(rig)
        self.hearts = tuple(heart.pump for heart in self.limits.hearts)
        self.outputs: dict[str, Output] = {}
        for name in self.limits.basal:
            kind = Pump if name in self.limits.pumps else Valve if name in self.limits.levels else Relay
            self.outputs[name] = kind(name)
        self.store = StateStore()
        self.rows = Rows()
        self.alarms: list[tuple[str, str, str]] = []
        self.volumes: dict[str, KernelVolume] = {
            name: Volume(20_000.0 if name == "spent" else vessel.volume_ul, 50.0)
            for name, vessel in rig.vessels.items()
        }
        gauges = (heart.pressure for heart in rig.organs.hearts.values() if heart.pressure is not None)
        self.said = READINGS | dict.fromkeys(gauges, HEART_READING)
        self.readings: dict[str, float | None] = {point: value for point, (value, _) in self.said.items()}
        self.gate = Gate(
            RigContext(
                rig,
                Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)),
                self.store,
                cast(Journal, self.rows),
                lambda kind, source, detail: self.alarms.append((kind, source, detail)),
            ),
            actuators={**self.outputs, **real},
            limits=self.limits,
            volumes=self._volumes if books else None,
        )
        self.store.volumes({name: Volume(volume.ul, volume.sd_ul) for name, volume in self.volumes.items()})
        self.sample()
        self.store.snapshot(self.loop.time(), "", ())

    def _volumes(self) -> Mapping[str, KernelVolume]:
        return self.volumes

    def pump(self, name: str) -> Pump:
        output = self.outputs[name]
        assert isinstance(output, Pump)
        return output

    def relay(self, name: str) -> Relay:
        output = self.outputs[name]
        assert isinstance(output, Relay)
        return output

    def level(self, name: str) -> Valve:
        output = self.outputs[name]
        assert isinstance(output, Valve)
        return output

    def sample(self) -> None:
        for point, value in self.readings.items():
            unit = self.said[point][1]
            if value is None:
                self.store.failed(point, unit, "no answer")
            else:
                # A live probe is never quite still.
                self.store.read(point, value + 1e-9 * self.loop.time(), unit, Quality.GOOD, self.loop.time())

    async def live(self, seconds: float, *, poll_every: int = 5) -> None:
        """So many seconds of a controller's life: samples, polls, ticks."""
        for second in range(int(seconds)):
            self.sample()
            if second % poll_every == 0:
                for name in self.outputs:
                    await self.gate.poll(name)
            await self.gate.tick(self.gate.observe())
            await asyncio.sleep(1.0)

    async def ask(self, actuator: str, command: Command) -> Outcome:
        return await self.gate.submit(Intent(actuator, command, "test", "a test"))

    async def circulate(self) -> None:
        """Every heart flows, and everybody has been asked how it stands."""
        for heart in self.hearts:
            assert (await self.ask(heart, Run(2000.0))).ok
        for name in self.outputs:
            await self.gate.poll(name)

    async def circulate_refused(self) -> None:
        """The heart may not flow now."""
        assert not (await self.ask("reglo.heart", Run(2000.0))).accepted
        assert not self.pump("reglo.heart").log

    def raised(self, kind: str) -> list[str]:
        return [source for alarm, source, _ in self.alarms if alarm == kind]
