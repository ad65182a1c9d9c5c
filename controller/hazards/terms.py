"""Data types of the hazard table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from controller.rig.description import Accepted, DeviceSpec, Rig
from controller.rig.problems import Finding
from controller.safety.terms import HeartLimits, Interlock, Limits


class HazardVerdict(StrEnum):
    """The verdict of the table on one hazard."""

    COVERED = "covered"
    """A sensor in the right place and an action in time."""
    GAP = "gap"
    """Something is missing; the rig is rejected."""
    ACCEPTED = "accepted"
    """Something is missing, and the rig file names who accepted it and why."""
    RESIDUAL = "residual"
    """No software can remove it; `note` names the hardware that does."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """One row of the table.

    `detection_s` is the maximum time from the limit to the action at the device. `harm_s` is the minimum time from the limit
    to harm (`inf`: it develops over hours). `note` gives the basis of the estimate.
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
    group: str = ""
    """Id under which a person may accept the same hazard of all hearts or of all branches."""

    @property
    def verdict(self) -> HazardVerdict:
        """Whether the hazard is covered."""
        if self.gaps:
            return HazardVerdict.GAP if self.accepted is None else HazardVerdict.ACCEPTED
        return HazardVerdict.RESIDUAL if self.residual else HazardVerdict.COVERED


@dataclass(frozen=True, slots=True)
class Subject:
    """The rig and the limits derived from it."""

    rig: Rig
    limits: Limits

    def device(self, point: str) -> DeviceSpec:
        """Return the device that has `point`."""
        return self.rig.devices[point.partition(".")[0]]

    def at(self, point: str) -> str | None:
        """Return the vessel or line of the probe of `point`."""
        return self.device(point).at

    def every_s(self, point: str) -> float:
        """Return the sampling period of `point` (s)."""
        return self.device(point).every_s

    def interlock(self, name: str) -> Interlock | None:
        """Return the interlock called `name`."""
        return next((rule for rule in self.limits.interlocks if rule.name == name), None)

    @property
    def heart_pumps(self) -> frozenset[str]:
        """The pumps that circulate the medium."""
        return frozenset(heart.pump for heart in self.limits.hearts)

    def heart_limits(self, heart: str) -> HeartLimits:
        """Return what bounds a heart."""
        return dict(zip(self.rig.organs.hearts, self.limits.hearts, strict=True))[heart]

    def id_of(self, hazard: str, heart: str) -> str:
        """Return the id of a heart's hazard: that of the only heart as it is, else with the heart's name behind it."""
        return hazard if len(self.rig.organs.hearts) == 1 else f"{hazard}_{heart}"

    def max_flow_ul_min(self, pump: str) -> float:
        """Return the maximum flow that the gate permits to `pump` (µL/min)."""
        return self.limits.pumps[pump].max_ul_min


NEVER_S = inf
"""Time to harm of a hazard that develops over hours or days: a person has time to act."""
