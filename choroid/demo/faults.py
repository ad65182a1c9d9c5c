"""The demo page's faults: what can befall the simulated lab, made and mended by hand."""

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
    """Fulfils :class:`dashboards.simulated.FaultsControl` for one lab, in its usual amounts; make it inside its loop."""

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
        """Every kind that can befall this lab."""
        return self._kinds

    def lasting(self) -> list[dict[str, Any]]:
        """What is on at this moment, with how long it still lasts (s of rig time; None: until it is mended)."""
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
        """Let it happen now, for `for_s` (0: until it is mended); raises ValueError for what cannot be."""
        self._injector.inject(Fault(kind, target, self._injector.now_s, for_s))

    def mend(self, number: int) -> str:
        """Take one back and say what it was; raises KeyError for one that does not last."""
        applied = dict(self._open())[number]
        self._injector.end(applied)
        return describe(applied)

    def clear(self) -> None:
        """Take everything back."""
        self._injector.clear()

    def _open(self) -> list[tuple[int, Applied]]:
        return [(n, applied) for n, applied in enumerate(self._injector.applied, start=1) if applied.ended_s is None]
