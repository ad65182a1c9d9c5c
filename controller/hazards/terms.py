"""The terms of the hazard table: a hazard, what detects it, what acts on it, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from controller.rig.description import Accepted, DeviceSpec, Rig
from controller.rig.problems import Finding
from controller.safety.terms import Interlock, Limits


class HazardVerdict(StrEnum):
    """What the table says about one hazard."""

    COVERED = "covered"
    """A sensor at its place and an action in time."""
    GAP = "gap"
    """Something is missing; the rig is rejected."""
    ACCEPTED = "accepted"
    """Something is missing, and the rig file names who accepted it and why."""
    RESIDUAL = "residual"
    """No software can remove it; `note` names the hardware that does."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """One row of the table.

    `detection_s` is the longest time from the limit to the action at the device; `harm_s` the shortest time from the
    limit to harm (`inf`: it develops over hours). `note` says where the estimate comes from.
    """

    id: str
    place: str
    sensor: str
    interlock: str
    actuators: tuple[str, ...]
    limits: str
    detection_s: float
    harm_s: float
    note: str
    gaps: tuple[Finding, ...] = ()
    accepted: Accepted | None = None
    residual: bool = False

    @property
    def verdict(self) -> HazardVerdict:
        """Whether the hazard is covered."""
        if self.gaps:
            return HazardVerdict.GAP if self.accepted is None else HazardVerdict.ACCEPTED
        return HazardVerdict.RESIDUAL if self.residual else HazardVerdict.COVERED


@dataclass(frozen=True, slots=True)
class Subject:
    """The rig and the limits derived from it: all that a hazard is judged by."""

    rig: Rig
    limits: Limits

    def device(self, point: str) -> DeviceSpec:
        """Return the device that has `point`."""
        return self.rig.devices[point.partition(".")[0]]

    def at(self, point: str) -> str | None:
        """Return the vessel or line where the probe of `point` sits."""
        return self.device(point).at

    def every_s(self, point: str) -> float:
        """Return how often `point` is read (s)."""
        return self.device(point).every_s

    def interlock(self, name: str) -> Interlock | None:
        """Return the interlock called `name`."""
        return next((rule for rule in self.limits.interlocks if rule.name == name), None)

    @property
    def heart(self) -> str:
        """The pump that circulates the medium."""
        return self.limits.heart

    def max_flow_ul_min(self, pump: str) -> float:
        """Return the greatest flow that the gate lets `pump` move (µL/min)."""
        return self.limits.pumps[pump].max_ul_min


NEVER_S = inf
"""Time to harm of what develops over hours or days: a person has time to act."""
