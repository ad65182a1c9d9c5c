"""History series of the outputs: the mean flow of each pump and the duty of each switch, once a minute.

An output is polled every few seconds and also read at each command, so the plain samples of its status are unevenly spaced
and their mean is biased. Here each status counts for its duration: the minute's value is a mean over time. A pulse that the
device ends counts to its commanded end, not to the next poll.

Series: `<pump>.flow` (uL/min, 0 while it stands), `<pump>.delivered` (uL, the pump's own running total, at each change),
`<switch>.duty` (%). An output that does not answer gives no points: the gap stays a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.core.state import ActuatorView, Reading, State
from drivers.commands import Command, PumpStatus, Quality, Switch, SwitchStatus

EVERY_S = 60.0
MIN_KNOWN = 0.5
"""Minimum known share of a minute for a point."""

Keep = Callable[[float, str, Mapping[str, Reading]], None]
"""Stores readings as :meth:`controller.memory.history.History.add` does."""


class _Track:
    """One output: its state since `at_s`, and the sums of this minute."""

    __slots__ = (
        "at_s",
        "command",
        "delivered_ul",
        "known_s",
        "level",
        "off_s",
        "point",
        "stored_ul",
        "total",
        "unit",
        "view",
    )

    def __init__(self, point: str, unit: str, now_s: float) -> None:
        self.point = point
        self.unit = unit
        self.view: ActuatorView | None = None
        self.command: Command | None = None
        self.at_s = now_s
        self.level: float | None = None
        self.off_s: float | None = None
        self.total = self.known_s = 0.0
        self.delivered_ul: float | None = None
        self.stored_ul: float | None = None

    def update(self, view: ActuatorView, now_s: float) -> None:
        """Apply the status `view` from `now_s` on."""
        self.advance(now_s)
        status = None if view.fault else view.status
        if isinstance(status, PumpStatus):
            self.level = status.flow_ul_min if status.running else 0.0
            self.delivered_ul = status.delivered_ul
        elif isinstance(status, SwitchStatus):
            command = view.commanded
            if command is not self.command:
                pulse_s = command.for_s if isinstance(command, Switch) and command.on else None
                self.off_s = None if pulse_s is None else view.at_s + pulse_s
            self.level = 100.0 if status.on else 0.0
        else:
            self.level = None
        self.command = view.commanded
        self.view = view

    def advance(self, now_s: float) -> None:
        """Add the time until `now_s` to the sums."""
        if self.level is not None:
            on_until_s = now_s if self.off_s is None else min(max(self.off_s, self.at_s), now_s)
            self.total += self.level * (on_until_s - self.at_s)
            self.known_s += now_s - self.at_s
        self.at_s = now_s


class OutputSeries:
    """Computes the series. Call `observe` once a tick; `keep` stores the points."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._tracks: dict[str, _Track] = {}
        self._begun_s: float | None = None
        self._actuators: Mapping[str, ActuatorView] = {}
        """Those of the last state: the same object again has the same content."""

    def observe(self, state: State) -> None:
        """Process the outputs of this tick; store the points when a minute is over."""
        now_s = state.at_s
        if state.actuators is not self._actuators:
            self._look(state.actuators, now_s)
            self._actuators = state.actuators
        if self._begun_s is None:
            self._begun_s = now_s
        elif now_s - self._begun_s >= EVERY_S:
            self._hand_on(state, self._begun_s)
            self._begun_s += EVERY_S * int((now_s - self._begun_s) / EVERY_S)

    def _look(self, actuators: Mapping[str, ActuatorView], now_s: float) -> None:
        tracks = self._tracks
        for name, view in actuators.items():
            track = tracks.get(name)
            if track is None:
                track = tracks[name] = _Track(*_series_of(name, view), now_s)
            if track.view is not view:
                if not track.point:
                    track.point, track.unit = _series_of(name, view)
                track.update(view, now_s)

    def _hand_on(self, state: State, begun_s: float) -> None:
        readings: dict[str, Reading] = {}
        middle_s = (begun_s + state.at_s) / 2
        for name, track in self._tracks.items():
            track.advance(state.at_s)
            if track.point and track.known_s >= MIN_KNOWN * (state.at_s - begun_s):
                readings[track.point] = Reading(
                    track.total / track.known_s, track.unit, Quality.GOOD, middle_s, same_since_s=middle_s
                )
            if track.delivered_ul is not None and track.delivered_ul != track.stored_ul:
                track.stored_ul = track.delivered_ul
                readings[f"{name}.delivered"] = Reading(track.delivered_ul, "uL", Quality.GOOD, middle_s)
            track.total = track.known_s = 0.0
        self._keep(state.at_s, state.utc, readings)


def _series_of(name: str, view: ActuatorView) -> tuple[str, str]:
    """Return series and unit; empty for an output that never answered, and for levels, whose sensor is read anyway."""
    if isinstance(view.status, PumpStatus):
        return f"{name}.flow", "uL/min"
    if isinstance(view.status, SwitchStatus):
        return f"{name}.duty", "%"
    return "", ""
