"""A bench for the runner's tests: real journal, ledger, gate and kernel over pumps that count for themselves.

The world (vessels, pumps, balance) goes on when the controller is gone; `Controller` is everything that dies with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.gate.gate import Gate
from controller.journal.context import RigContext
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.runs.catalogue import ProtocolCatalogue
from controller.runs.runner import Runner
from controller.safety.limits import limits_of
from controller.safety.terms import Intent
from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Quality, Run, Status, Stop, Switch, SwitchStatus
from drivers.device import Actuator
from drivers.errors import NoReply
from protocols.registry import PROTOCOLS, Recipe
from protocols.tissue_loss import TissueLoss

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
RIG = load_rig(BENCH)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
OPENED: list[Journal] = []
"""Journals of the running test."""


class Killed(BaseException):
    """SIGKILL, as far as a test can have one: nothing after it reaches journal or devices."""


class World:
    """The bench itself."""

    def __init__(self, rig: Rig = RIG) -> None:
        self.rig = rig
        self.loop = asyncio.get_running_loop()
        self.volumes = {name: vessel.volume_ul for name, vessel in rig.vessels.items()}
        self.pumps = {line.pump: Pump(self, name) for name, line in rig.lines.items() if line.pump}
        valves = {line.valve for line in rig.lines.values() if line.valve}
        self.valves = {valve: Valve(self) for valve in sorted(valves)}
        self.readings = {
            "ph_loop.ph": ("pH", 7.35),
            "ph_spent.ph": ("pH", 7.33),
            "do_loop.oxygen": ("%", 90.0),
            "t_chamber.temperature": ("degC", 37.0),
            "p_heart.pressure": ("kPa", 5.0),
            "p_filter.pressure": ("kPa", 10.0),
            "p_dialysate.pressure": ("kPa", 5.0),
            "gas_air.flow": ("mL/min", 47.0),
            "gas_co2.flow": ("mL/min", 3.0),
            "gas_o2.flow": ("mL/min", 0.0),
        }
        self.balance_works = True
        self.mass_error_g = 0.0
        self.mass_jitter_g = 0.0
        self.stuck_g: float | None = None
        """What a jammed balance goes on to show."""
        self.clock_step_s = 0.0

    def advance(self) -> None:
        for pump in self.pumps.values():
            pump.advance()

    @property
    def mass_g(self) -> float:
        self.advance()
        if self.stuck_g is not None:
            return self.stuck_g
        jitter_g = self.mass_jitter_g * (self.loop.time() % 5.0 - 2.0)
        return self.volumes["spent"] / 1000.0 + self.mass_error_g + jitter_g


class Pump(Actuator):
    """Delivers by itself and counts, in steps of `step_ul`, whatever happens to the controller."""

    kind = "pump"
    unit = "uL/min"
    guarantee = Guarantee.DEVICE

    def __init__(self, world: World, line: str) -> None:
        self.world = world
        self.line = world.rig.lines[line]
        self.name = line
        model = world.rig.devices[(self.line.pump or "").partition(".")[0]].model
        self.step_ul = 1000.0 if model == "ismatec-reglo-icc" else 10.0
        self.min_ul = 50.0 if model == "ismatec-reglo-icc" else 500.0
        self.gain = 1.0
        self.counted_ul = 0.0
        self.moved_ul = 0.0
        self.flow_ul_min = 0.0
        self.left_ul = 0.0
        self.at_s = world.loop.time()
        self.doses: list[Dispense] = []
        self.slipped = False
        """Its tube has slipped out of the vessel."""
        self.silent = False
        self.dead_start = False

    def advance(self) -> None:
        now_s = self.world.loop.time()
        ul = min(self.flow_ul_min * (now_s - self.at_s) / 60.0, self.left_ul)
        self.at_s = now_s
        self.counted_ul += ul
        self.left_ul -= ul
        if self.line.valve and not self.world.valves[self.line.valve].on:
            ul = 0.0  # it turns against a closed valve
        self.moved_ul += ul * self.gain
        if self.name != "heart":
            self.world.volumes[self.line.from_] -= ul * self.gain
            if not self.slipped:
                self.world.volumes[self.line.to] += ul * self.gain
        if self.left_ul <= 1e-9:
            self.flow_ul_min = self.left_ul = 0.0

    def lose_power(self) -> None:
        self.advance()
        self.flow_ul_min = self.left_ul = self.counted_ul = 0.0

    def stop_by_hand(self) -> None:
        self.advance()
        self.flow_ul_min = self.left_ul = 0.0

    async def apply(self, command: Command) -> None:
        await asyncio.sleep(0.02)
        if self.silent:
            raise NoReply("no answer", where=self.name, cause="test", action="none")
        self.world.advance()
        match command:
            case Dispense(volume_ul=volume, flow_ul_min=flow):
                assert self.flow_ul_min == 0.0, "a dose over a running one"
                assert volume >= self.min_ul - 1e-6, "a dose below the pump's minimum"
                self.doses.append(command)
                if not self.dead_start:
                    self.left_ul, self.flow_ul_min = volume, flow
            case Run(flow_ul_min=flow):
                self.left_ul, self.flow_ul_min = float("inf"), flow
            case Stop():
                self.flow_ul_min = self.left_ul = 0.0
            case _:
                raise AssertionError(command)

    async def status(self) -> Status:
        await asyncio.sleep(0)
        if self.silent:
            raise NoReply("no answer", where=self.name, cause="test", action="none")
        return self.present()

    def present(self) -> Status:
        self.advance()
        counted = self.counted_ul // self.step_ul * self.step_ul
        return PumpStatus(self.flow_ul_min > 0, self.flow_ul_min, counted, self.step_ul)


class Valve(Actuator):
    """A switch without a memory of its own."""

    kind = "switch"
    unit = ""
    guarantee = Guarantee.GUARD

    def __init__(self, world: World) -> None:
        self.world = world
        self.on = False

    async def apply(self, command: Command) -> None:
        await asyncio.sleep(0.02)
        self.world.advance()
        self.on = isinstance(command, Switch) and command.on

    async def status(self) -> Status:
        await asyncio.sleep(0.02)
        return self.present()

    def present(self) -> Status:
        return SwitchStatus(self.on)


class StepClock(Clock):
    """Virtual UTC that the world can step."""

    def __init__(self, world: World) -> None:
        super().__init__(follow_system=False, epoch=EPOCH + timedelta(seconds=world.loop.time()))
        self.world = world

    def utc_us(self) -> int:
        return super().utc_us() + round(self.world.clock_step_s * 1e6)


class MortalJournal(Journal):
    """Dies before or after the n-th row, and is deaf from then on."""

    def __init__(self, path: Path, clock: Clock, *, durable: bool, die_at: int | None, before: bool) -> None:
        super().__init__(path, clock, durable=durable)
        self._die_at = die_at
        self._before = before
        self.rows = 0
        self.dead = False
        OPENED.append(self)

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        if self.dead:
            raise Killed
        self.rows += 1
        if self.rows == self._die_at and self._before:
            self.dead = True
            raise Killed
        seq = super().append(kind, body, run=run)
        if self.rows == self._die_at:
            self.dead = True
            raise Killed
        return seq


class MortalActuator(Actuator):
    """The controller's end of a device: once the controller is dead, nothing passes."""

    def __init__(self, inner: Actuator, journal: MortalJournal) -> None:
        self.inner = inner
        self.journal = journal
        self.kind, self.unit, self.guarantee = inner.kind, inner.unit, inner.guarantee

    async def apply(self, command: Command) -> None:
        if self.journal.dead:
            raise Killed
        await self.inner.apply(command)

    async def status(self) -> Status:
        if self.journal.dead:
            raise Killed
        return await self.inner.status()


@dataclass
class Controller:
    """What a process holds."""

    world: World
    path: Path
    die_at: int | None = None
    before: bool = False
    durable: bool = False
    catalogue: Mapping[str, Recipe] = field(default_factory=lambda: PROTOCOLS)
    recipes: Path | None = None
    tick_s: float = 2.0
    rehearsing: bool = True
    tissue_loss: Callable[[], TissueLoss | None] = lambda: None

    def __post_init__(self) -> None:
        world = self.world
        self.clock = StepClock(world)
        self.journal = MortalJournal(
            self.path, self.clock, durable=self.durable, die_at=self.die_at, before=self.before
        )
        self.alarms: list[tuple[str, str, str]] = []
        self.volumes_known = True
        self.store = StateStore()
        self.ledger = Ledger(world.rig, self.journal, self.clock, alarm=self.alarm)
        context = RigContext(world.rig, self.clock, self.store, self.journal, self.alarm)
        self.gate = Gate(
            context,
            actuators={
                name: MortalActuator(inner, self.journal) for name, inner in {**world.pumps, **world.valves}.items()
            },
            limits=limits_of(world.rig),
        )
        self.runs = Runner(
            context,
            gate=self.gate,
            ledger=self.ledger,
            catalogue=ProtocolCatalogue(world.rig, self.journal, known=self.catalogue, recipes=self.recipes),
            rehearsing=self.rehearsing,
            tissue_loss=self.tissue_loss,
        )
        self._sample()
        self.task = asyncio.create_task(self._tick())

    def alarm(self, kind: str, source: str, detail: str) -> None:
        self.alarms.append((kind, source, detail))

    def _sample(self) -> None:
        now_s = self.world.loop.time()
        wobble = 0.001 * (now_s % 7.0)  # a live probe's last digit moves
        for point, (unit, value) in self.world.readings.items():
            self.store.read(point, value + wobble, unit, Quality.GOOD, now_s)
        if self.world.balance_works:
            self.store.read("balance.mass", self.world.mass_g, "g", Quality.GOOD, now_s)
        else:
            self.store.failed("balance.mass", "g", "no answer")
        self.store.volumes(self.ledger.volumes() if self.volumes_known else {})
        self.store.snapshot(now_s, self.clock.utc_text(), self.gate.trips)

    async def _tick(self) -> None:
        try:
            while True:
                await asyncio.sleep(self.tick_s)
                self._sample()
                devices: dict[str, Pump | Valve] = {**self.world.pumps, **self.world.valves}
                for name, device in devices.items():
                    if not getattr(device, "silent", False):
                        self.gate.saw(name, device.present())
                await self.gate.submit(Intent("reglo.heart", Run(2000.0), "heart", "it circulates"))
                await self.gate.tick(())
        except Killed:
            return

    async def gone(self) -> None:
        """The process ends, in whatever state it is."""
        self.journal.dead = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.runs.close()
        self.journal.close()

    async def until(self, true: Callable[[], bool], within_s: float = 7200.0) -> None:
        deadline_s = self.world.loop.time() + within_s
        every_s = max(0.5, self.tick_s / 10)
        while not true():
            if self.world.loop.time() > deadline_s:
                runs = [(view.state, view.step, view.progress[-1:], view.messages) for view in self.runs.list()]
                raise AssertionError(f"it did not come to pass; runs: {runs}")
            await asyncio.sleep(every_s)
