"""The fault panel of the demo page: faults of the simulated lab, started and ended by hand."""

from __future__ import annotations

from typing import Any

from choroid.simulation.mishaps import describe
from controller.rig.description import Rig
from sim.faults.injector import Applied, Injector
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from sim.faults.targets import targets
from sim.lab import SimulatedLab


class LabFaults:
    """Implements :class:`dashboards.simulated.FaultsControl` for one lab, with default amounts; create it inside
    its loop.
    """

    def __init__(self, rig: Rig, lab: SimulatedLab, seed: int) -> None:
        self._injector = Injector(lab, (), seed=seed)
        self._kinds = [
            {
                "kind": kind.name,
                "group": kind.group,
                "meaning": kind.meaning,
                "targets": list(targets(kind.name, rig)),
                "momentary": kind.momentary,
            }
            for kind in KINDS.values()
            if kind.group not in ("host", "network") and targets(kind.name, rig)
        ]

    def kinds(self) -> list[dict[str, Any]]:
        """Return every kind of fault that fits this lab."""
        return self._kinds

    def lasting(self) -> list[dict[str, Any]]:
        """Return the present faults with their remaining time (s of rig time; None: until ended by hand)."""
        now_s = self._injector.now_s
        return [
            {
                "number": number,
                "kind": applied.fault.kind,
                "target": applied.fault.target,
                "meaning": KINDS[applied.fault.kind].meaning,
                "left_s": max(0.0, applied.begun_s + applied.fault.for_s - now_s) if applied.fault.for_s else None,
            }
            for number, applied in self._open()
        ]

    def make(self, kind: str, target: str, for_s: float) -> None:
        """Start a fault for `for_s` (0: until ended by hand); raise ValueError for an impossible one."""
        self._injector.inject(Fault(kind, target, self._injector.now_s, for_s))

    def end(self, number: int) -> str:
        """End a fault and return its description; raise KeyError for one that does not last."""
        applied = dict(self._open())[number]
        self._injector.end(applied)
        return describe(applied)

    def clear(self) -> None:
        """End all faults."""
        self._injector.clear()

    def _open(self) -> list[tuple[int, Applied]]:
        return [(n, applied) for n, applied in enumerate(self._injector.applied, start=1) if applied.ended_s is None]
