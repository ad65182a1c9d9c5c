"""One channel of a Reglo ICC: its settings, its motor, its dose and its running totals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from sim.devices.ismatec_numbers import MAX_RPM, MAX_VOLUME_ML, RPM_STEP, ml_per_revolution, volume_1


class Mode(StrEnum):
    """Operating modes, by their letter on the wire."""

    RPM = "L"
    FLOW = "M"
    VOLUME = "O"
    VOLUME_OVER_TIME = "G"
    VOLUME_PAUSE = "Q"
    TIME = "N"
    TIME_PAUSE = "P"


VOLUME_MODES = frozenset({Mode.VOLUME, Mode.VOLUME_OVER_TIME, Mode.VOLUME_PAUSE})
CYCLIC_MODES = frozenset({Mode.VOLUME_PAUSE, Mode.TIME_PAUSE})


@dataclass(slots=True)
class Settings:
    """Settings of a user, which `*` saves: tubing in 1/100 mm, mL, mL/min, rpm, s."""

    tubing: int
    mode: Mode = Mode.RPM
    clockwise: bool = True
    rpm: float = 10.0
    flow_ml_min: float = 0.0
    by_flow: bool = True
    """Whether modes other than L and M go by flow (`f`) or by speed (`S`): command `xf`."""
    volume_ml: float = 1.0
    run_s: float = 10.0
    pause_s: float = 0.0
    cycles: int = 1
    backsteps: int = 0
    rollers: int = 8
    calibration: float = 1.0
    """Measured over charted volume per revolution."""
    calibration_clockwise: bool = True
    calibration_volume_ml: float = 1.0
    calibration_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.flow_ml_min:
            self.flow_ml_min = 10.0 * self.ml_per_rev

    @property
    def ml_per_rev(self) -> float:
        """Return the volume of a revolution by the pump's calibration (mL)."""
        return ml_per_revolution(self.tubing) * self.calibration

    @property
    def max_flow_ml_min(self) -> float:
        """Return the maximum flow at these settings (mL/min)."""
        return self.ml_per_rev * MAX_RPM

    def copy(self) -> Settings:
        """Return an independent copy."""
        return replace(self)


class ChannelState(StrEnum):
    """States of a channel, by their letter in a status event."""

    PUMPING = "A"
    PAUSED = "B"
    """Between two cycles."""
    STOPPED = "C"
    CALIBRATING = "D"
    CALIBRATION_PENDING = "E"


class PumpChannel:
    """Turns settings into motion and ends finite work by itself.

    `drive` receives the flow that the fitted tubing gives by the manufacturer's chart (µL/min, signed) at each change;
    `ended` gets the cause of a natural end: "A" pumping done, "B" calibration done.
    """

    def __init__(
        self,
        *,
        fitted: int,
        drive: Callable[[float], None],
        ended: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.fitted = fitted
        self.settings = Settings(tubing=fitted)
        self.saved = self.settings.copy()
        self.state = ChannelState.STOPPED
        self.refusal = ""
        """Why the last start was refused: the answer to `xe`."""
        self.total_ml = self.total_revolutions = self.total_s = 0.0
        self.since_calibration_s = 0.0
        self._drive = drive
        self._ended = ended
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._rpm = 0.0
        self._moved_s = 0.0
        self._dispensed_ml = 0.0
        self._left_ml: float | None = None
        self._left_s: float | None = None
        self._cycles_left = 0
        self._held = False

    # --- what it does -----------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Return whether a pumping operation is under way (a pause between cycles is part of it)."""
        return self.state in (ChannelState.PUMPING, ChannelState.PAUSED, ChannelState.CALIBRATING)

    def start(self) -> bool:
        """Begin, or continue after :meth:`pause`; return False for impossible settings. Without effect while running."""
        if self.running:
            return True
        if not self.startable():
            return False
        if not self._held:
            self._dispensed_ml = 0.0
            self._cycles_left = self.settings.cycles if self.settings.mode in CYCLIC_MODES else 1
            self._load()
        self._held = False
        self.state = ChannelState.PUMPING
        self._go()
        return True

    def startable(self) -> bool:
        """Return whether these settings are possible; if not, `refusal` gives the reason."""
        settings = self.settings
        self.refusal = ""
        if settings.mode in VOLUME_MODES and not 0.0 < settings.volume_ml <= MAX_VOLUME_ML:
            self.refusal = f"V {volume_1(MAX_VOLUME_ML)}"
        elif settings.mode in CYCLIC_MODES and settings.cycles == 0:
            self.refusal = "C 0000E+0"
        elif not RPM_STEP <= self._wanted_rpm() <= MAX_RPM:
            self.refusal = f"R {volume_1(settings.max_flow_ml_min)}"
        elif settings.mode in (Mode.TIME, Mode.TIME_PAUSE) and settings.run_s <= 0.0:
            self.refusal = "V 0000E+0"
        return not self.refusal

    def stop(self) -> None:
        """Stop, and drop the rest of the work."""
        self._rest()
        self._held = False
        if self.state is not ChannelState.CALIBRATION_PENDING:
            self.state = ChannelState.STOPPED

    def trip(self, cause: str) -> None:
        """Stop by itself and report the cause (a fault): "1" stopped at the pump, "2" too hot, "3" overcurrent."""
        self.stop()
        self._ended(cause)

    def pause(self) -> None:
        """Stop; a later start does the rest (in the modes L and M there is no rest)."""
        finite = self.settings.mode not in (Mode.RPM, Mode.FLOW)
        if self.state is ChannelState.PUMPING and finite:
            self._rest()
            self._held = True
            self.state = ChannelState.STOPPED
        else:
            self.stop()

    def respeed(self, *, rpm: float | None = None, flow_ml_min: float | None = None) -> bool:
        """Set the speed or the flow; a running channel follows at once. Return False, without a change, if it cannot."""
        settings = self.settings
        before = settings.rpm, settings.flow_ml_min
        settings.rpm = before[0] if rpm is None else rpm
        settings.flow_ml_min = before[1] if flow_ml_min is None else flow_ml_min
        if self.state is ChannelState.PUMPING and self._wanted_rpm() != self._rpm:
            if not RPM_STEP <= self._wanted_rpm() <= MAX_RPM:
                settings.rpm, settings.flow_ml_min = before
                return False
            self._account()
            self._go()
        return True

    def configure(self, **values: float | bool | Mode) -> bool:
        """Set the named settings of a channel at rest, which drops paused work; return False while it runs.

        Other tubing than before discards the calibration. Setting what is already set changes nothing, ever.
        """
        settings = self.settings
        if all(getattr(settings, name) == value for name, value in values.items()):
            return True
        if self.running:
            return False
        if "tubing" in values:
            settings.calibration = 1.0
        for name, value in values.items():
            setattr(settings, name, value)
        self._held = False
        return True

    # --- calibration ------------------------------------------------------------------------------------

    def calibrate(self) -> bool:
        """Pump the target volume in the calibration time, then wait for the measured volume."""
        settings = self.settings
        if self.running or settings.calibration_s <= 0.0:
            return False
        rpm = settings.calibration_volume_ml / (settings.calibration_s / 60.0) / settings.ml_per_rev
        if not RPM_STEP <= rpm <= MAX_RPM:
            return False
        self._held = False
        self._dispensed_ml = 0.0
        self._left_ml, self._left_s = None, settings.calibration_s
        self.state = ChannelState.CALIBRATING
        self._turn(rpm if settings.calibration_clockwise else -rpm)
        self._timer = self._loop.call_later(settings.calibration_s, self._calibrated)
        return True

    def measured(self, volume_ml: float) -> None:
        """Take the volume that the user measured during the calibration; ignored when none is pending."""
        if self.state is ChannelState.CALIBRATION_PENDING and volume_ml > 0.0:
            self.settings.calibration *= volume_ml / self.settings.calibration_volume_ml
            self.since_calibration_s = 0.0
            self.state = ChannelState.STOPPED

    def cancel_calibration(self) -> None:
        """Stop calibrating, or waiting for the measured volume."""
        if self.state in (ChannelState.CALIBRATING, ChannelState.CALIBRATION_PENDING):
            self._rest()
            self.state = ChannelState.STOPPED

    def _calibrated(self) -> None:
        self._rest()
        self.state = ChannelState.CALIBRATION_PENDING
        self._ended("B")

    # --- what it tells ----------------------------------------------------------------------------------

    def totals(self) -> tuple[float, float, float]:
        """Return volume (mL), revolutions and pumping time (s) since power-up."""
        self._account()
        return self.total_ml, self.total_revolutions, self.total_s

    def progress(self) -> tuple[float, float, int]:
        """Return the fields of a status event: time left (s) and volume dispensed (mL) in this cycle, cycles left."""
        self._account()
        left = self._timer.when() - self._loop.time() if self._timer is not None else 0.0
        return max(0.0, left), self._dispensed_ml, self._cycles_left if self.running else 0

    def power_off(self) -> None:
        """Stop everything; lose totals and unsaved settings."""
        self.stop()
        self.state = ChannelState.STOPPED
        self.settings = self.saved.copy()
        self.total_ml = self.total_revolutions = self.total_s = 0.0

    # --- the motor --------------------------------------------------------------------------------------

    def _wanted_rpm(self) -> float:
        """Return the motor speed for these settings, in the motor's steps of 0.01 rpm."""
        settings = self.settings
        if settings.mode is Mode.RPM:
            return settings.rpm
        if settings.mode is Mode.VOLUME_OVER_TIME:
            flow = settings.volume_ml / (settings.run_s / 60.0) if settings.run_s > 0.0 else 0.0
        elif settings.mode is Mode.FLOW or settings.by_flow:
            flow = settings.flow_ml_min
        else:
            return settings.rpm
        return round(flow / settings.ml_per_rev / RPM_STEP) * RPM_STEP

    def _load(self) -> None:
        """Load the work of a new cycle."""
        settings = self.settings
        self._left_ml = settings.volume_ml if settings.mode in VOLUME_MODES else None
        self._left_s = settings.run_s if settings.mode in (Mode.TIME, Mode.TIME_PAUSE) else None

    def _go(self) -> None:
        """Turn at the wanted speed, and set the end of finite work again."""
        self._cancel()
        rpm = self._wanted_rpm()
        self._turn(rpm if self.settings.clockwise else -rpm)
        if self._left_ml is not None:
            self._timer = self._loop.call_later(
                self._left_ml / (rpm * self.settings.ml_per_rev) * 60.0, self._cycle_done
            )
        elif self._left_s is not None:
            self._timer = self._loop.call_later(self._left_s, self._cycle_done)

    def _turn(self, signed_rpm: float) -> None:
        self._rpm = abs(signed_rpm)
        self._moved_s = self._loop.time()
        self._drive(signed_rpm * ml_per_revolution(self.fitted) * 1000.0)

    def _rest(self) -> None:
        self._cancel()
        if self._rpm:
            self._account()
            self._turn(0.0)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _account(self) -> None:
        """Count what moved since last time."""
        now = self._loop.time()
        elapsed, self._moved_s = now - self._moved_s, now
        if self._rpm:
            revolutions = self._rpm * elapsed / 60.0
            volume = revolutions * self.settings.ml_per_rev
            self.total_revolutions += revolutions
            self.total_ml += volume
            self.total_s += elapsed
            self.since_calibration_s += elapsed
            self._dispensed_ml += volume
            if self._left_ml is not None:
                self._left_ml = max(0.0, self._left_ml - volume)
            if self._left_s is not None:
                self._left_s = max(0.0, self._left_s - elapsed)

    def _cycle_done(self) -> None:
        self._timer = None
        self._rest()
        self._cycles_left -= 1
        if self._cycles_left > 0:
            self.state = ChannelState.PAUSED
            self._timer = self._loop.call_later(self.settings.pause_s, self._next_cycle)
        else:
            self.state = ChannelState.STOPPED
            self._ended("A")

    def _next_cycle(self) -> None:
        self._timer = None
        self._dispensed_ml = 0.0
        if not self.startable():  # the speed was changed during the pause
            self.state = ChannelState.STOPPED
            return
        self.state = ChannelState.PUMPING
        self._load()
        self._go()
