"""The rig during commissioning: its devices behind the safety gate, and readings before, during and after a stimulus.

There is no regulator: only what is tested moves. Interlocks, leases and limits hold as in operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, nan

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.gate.gate import Gate
from controller.gate.outcome import Outcome
from controller.journal.context import RigContext
from controller.journal.journal import Journal
from controller.links.connected_rig import ConnectedRig
from controller.rig.description import Rig
from controller.rig.families import PRESSURE, points_of
from controller.rig.graph import entering
from controller.safety.limits import limits_of
from controller.safety.terms import Intent
from controller.transfers.weighing import MASS_PATIENCE_S, MASS_SPREAD_G, settled
from drivers.commands import Command, Dispense, LevelStatus, PumpStatus, Quality, Switch
from drivers.device import Identity
from drivers.transport.opener import Opener

TICK_S = 1.0
POLL_S = 1.0
WHO = "commissioning"
UNSURE_UL = 50.0
"""Uncertainty of a vessel's volume after a person has filled it (standard deviation, µL)."""


@dataclass(slots=True)
class KnownVolume:
    """Estimated volume of a vessel during commissioning (µL)."""

    ul: float
    sd_ul: float


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of a dose: change of the balance (g), maximum rise of each gauge (kPa), and why it was refused, if it was."""

    mass_g: float
    rise_kpa: Mapping[str, float]
    refused: str | None = None


class CommissioningRig:
    """A connected rig without regulators. Create it with :meth:`open`; :meth:`close` brings it to its basal state."""

    def __init__(
        self, rig: Rig, devices: ConnectedRig, gate: Gate, store: StateStore, volumes: dict[str, KnownVolume]
    ) -> None:
        self.rig = rig
        self.gate = gate
        self.store = store
        self.volumes = volumes
        self.ticks = 0
        self._devices = devices
        self._limits = limits_of(rig)
        self._doses = 0
        self._commanded = False
        self._ticking = asyncio.create_task(self._tick(), name="commissioning")
        kidney = rig.organs.kidney
        self.scale = None if kidney is None else kidney.mass
        self.weighed = None if kidney is None else kidney.vessel
        """The vessel on the balance; None on a rig whose doses are not weighed."""
        self.gauges = tuple(
            point
            for point, kind in points_of(rig).items()
            if kind == PRESSURE and rig.devices[point.partition(".")[0]].at in rig.lines
        )

    @classmethod
    async def open(
        cls, rig: Rig, opener: Opener, journal: Journal, clock: Clock, alarm: Callable[[str, str, str], None]
    ) -> CommissioningRig:
        """Connect the rig and its gate.

        Raises:
            ConnectError: no device answers.
        """
        store = StateStore()
        devices = await ConnectedRig.connect(rig, opener, store)
        limits = limits_of(rig)
        volumes = {name: KnownVolume(vessel.volume_ul, UNSURE_UL) for name, vessel in rig.vessels.items()}
        gate = Gate(
            RigContext(rig, clock, store, journal, alarm),
            actuators=devices.hand_over_actuators(),
            limits=limits,
            volumes=lambda: dict(volumes),
        )
        await devices.begin(gate.poll)
        return cls(rig, devices, gate, store, volumes)

    def verified(self) -> dict[str, Identity]:
        """Return the devices that are verified now; see :meth:`controller.links.connected_rig.ConnectedRig.verified`."""
        return self._devices.verified()

    def counted(self) -> dict[str, float]:
        """Return what the pumps have counted; see :meth:`controller.links.connected_rig.ConnectedRig.counted`."""
        return self._devices.counted()

    @property
    def unreachable(self) -> tuple[str, ...]:
        """The devices that do not answer."""
        return tuple(failure.device for failure in self._devices.failures)

    async def _tick(self) -> None:
        """Evaluate and enforce every interlock once a second, as the controller does."""
        loop = asyncio.get_running_loop()
        while True:
            trips = self.gate.observe()
            self.store.snapshot(loop.time(), "", trips)
            if self.gate.enforce(trips):
                await self.gate.settle()
            self.ticks += 1
            await asyncio.sleep(TICK_S)

    async def close(self) -> tuple[str, ...]:
        """Bring everything to its basal state and close the links. Return the outputs that failed.

        Without any command before, nothing is commanded: a rig that was not prepared stays as it is.
        """
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)
        owing = await self.gate.fall_back("commissioning ends") if self._commanded else ()
        await self._devices.close()
        return owing

    # --- commands and readings ---------------------------------------------------------------------------

    async def command(
        self, actuator: str, command: Command, why: str, *, positions: Mapping[str, float] | None = None
    ) -> Outcome:
        """Send a command through the gate; a dose through selectors names their `positions` (levels, by valve)."""
        self._commanded = True
        return await self.gate.submit(Intent(actuator, command, WHO, why, positions or {}))

    async def keep(self, actuator: str, command: Command, seconds: float, why: str) -> Outcome:
        """Send a command and renew its lease for `seconds`."""
        outcome = await self.command(actuator, command, why)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        while outcome.ok and loop.time() < end_s:
            await asyncio.sleep(POLL_S)
            outcome = await self.command(actuator, command, why)
        return outcome

    async def value(self, point: str) -> float:
        """Return the mean of three fresh readings of `point`, settled if it is a mass; NaN if there is none."""
        every_s = self.rig.devices[point.partition(".")[0]].every_s
        mass = point == self.scale
        found = await settled(
            self.store, point, every_s=every_s, spread=MASS_SPREAD_G if mass else None,
            patience_s=max(MASS_PATIENCE_S, 8.0 * every_s),
        )  # fmt: skip
        return nan if found.value is None else found.value

    async def weight(self) -> float:
        """Return the settled mass on the balance (g); 0 on a rig whose doses are not weighed."""
        return 0.0 if self.scale is None else await self.value(self.scale)

    def now(self, point: str) -> float:
        """Return the latest reading of `point`; NaN if it is not good."""
        reading = self.store.readings.get(point)
        return reading.value if reading is not None and reading.quality is Quality.GOOD else nan

    def flow(self, pump: str) -> float:
        """Return the flow that a pump reports (µL/min; 0 if it stands; NaN without a report)."""
        view = self.store.actuators.get(pump)
        if view is None or not isinstance(view.status, PumpStatus):
            return nan
        return view.status.flow_ul_min if view.status.running else 0.0

    def level(self, point: str) -> float:
        """Return the set-point of an output; NaN if it is unknown."""
        view = self.store.actuators.get(point)
        return view.status.setpoint if view is not None and isinstance(view.status, LevelStatus) else nan

    # --- doses -------------------------------------------------------------------------------------------

    async def dose(self, line: str, volume_ul: float, valves: tuple[str, ...] = ()) -> Effect:
        """Give one dose along `line` with `valves` open, and measure its effect on the balance and every gauge."""
        pump = self.rig.lines[line].pump or ""
        before = await self.weight()
        rest = {gauge: await self.value(gauge) for gauge in self.gauges}
        await self._switch_all(valves, True, f"test of line {line}")
        self._doses += 1
        flow = self._limits.pumps[pump].max_ul_min
        dose = Dispense(volume_ul, flow, f"{WHO}.{self._doses}.{asyncio.get_running_loop().time():.0f}")
        outcome = await self.command(pump, dose, f"test of line {line}")
        refused = None if outcome.ok else outcome.why
        end_s = asyncio.get_running_loop().time() + volume_ul / flow * 60.0 * 1.5 + 10.0
        rise = dict.fromkeys(self.gauges, 0.0)
        if refused is None:
            await self._watch_dose(line, pump, valves, rest, rise, end_s)
        await self.gate.stop(pump, f"test of line {line} ends", requester=WHO)
        await self._switch_all(valves, False, f"test of line {line} ends")
        moved_ul = (await self.weight() - before) * 1000.0
        self._book(line, volume_ul, moved_ul if isfinite(moved_ul) else 0.0, given=refused is None)
        return Effect(moved_ul / 1000.0, rise, refused)

    async def _watch_dose(
        self,
        line: str,
        pump: str,
        valves: tuple[str, ...],
        rest: Mapping[str, float],
        rise: dict[str, float],
        end_s: float,
    ) -> None:
        """Record the maximum rise of each gauge until the dose has ended, at the latest at `end_s` (loop time)."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(POLL_S)
            await self._switch_all(valves, True, f"test of line {line}")
            for gauge in self.gauges:
                if isfinite(now := self.now(gauge) - rest[gauge]):
                    rise[gauge] = max(rise[gauge], now)
            if loop.time() > end_s:
                return
            if (await self._stands(pump)) and loop.time() > end_s - 20.0:
                return

    async def _switch_all(self, valves: tuple[str, ...], on: bool, why: str) -> None:
        for valve in valves:
            await self.command(valve, Switch(on), why)

    async def _stands(self, pump: str) -> bool:
        await self.gate.poll(pump)
        return self.flow(pump) == 0.0

    def _book(self, line: str, volume_ul: float, weighed_ul: float, *, given: bool) -> None:
        """Book the weighed volume; at the other end, the difference to the requested volume is its uncertainty."""
        spec, shares = self.rig.lines[line], entering(self.rig, line)
        if self.weighed is not None:
            self.volumes[self.weighed].ul += weighed_ul
        if not given:
            return
        if self.weighed is not None and self.weighed in (spec.from_, spec.to):
            sign = 1.0 if spec.to == self.weighed else -1.0
            other = spec.from_ if spec.to == self.weighed else spec.to
            self.volumes[other].ul -= weighed_ul
            self.volumes[other].sd_ul += abs(sign * volume_ul - weighed_ul) / 3.0
        else:
            self.volumes[spec.from_].ul -= volume_ul
            for vessel, share in shares.items():
                self.volumes[vessel].ul += share * volume_ul
        self.gate.booked(spec.pump or "")
