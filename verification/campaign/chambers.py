"""Judge of the doses of single chambers: the right chamber, its bounds, other medium in a dose, selectors under flow.

The plant's truth decides. What a selector connects is judged by what has truly passed the lines at its ports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from controller.ledger.flow_paths import FlowPaths
from controller.rig.description import Rig
from controller.rig.dosing import dosable, dosing_paths
from controller.rig.selectors import PumpedPath, ports_of
from protocols.chamber_verbs import MAX_CARRY_OVER_PCT
from sim.lab import SimulatedLab
from sim.plant.truth import PlantTruth
from verification.campaign.findings import Findings
from verification.campaign.troubles import Troubles

WRONG_UL = 30.0
"""Volume through the port of another chamber from which a dose counts as misled (µL)."""
BOUND_UL = 60.0
"""Tolerance on the bounds of a chamber (µL)."""
CARRY_OVER_UL = 5.0
"""Tolerance on other medium in a dose (µL)."""
SLIPPED = frozenset(("slipped",))
"""A rotor that stands elsewhere than its actuator: no readback shows it."""
ML = 1000.0


class ChamberDoses:
    """What the journal asks of the chambers, compared with what the plant has truly moved."""

    def __init__(self, rig: Rig, lab: SimulatedLab, findings: Findings, troubles: Troubles) -> None:
        self._rig = rig
        self._lab = lab
        self._tell = findings.tell
        self._troubles = troubles
        self._paths = FlowPaths(rig)
        self._ports = {
            line: rig.selectors[name].valve for name in rig.selectors for line in ports_of(rig, name).values()
        }
        self._moved = {line: lab.plant.truth().moved_ul[line] for line in self._ports}
        self._open: dict[tuple[str, int], PumpedPath] = {}
        self._settled: list[PumpedPath] = []
        """Paths of doses that were settled since the last look."""
        self._steps: dict[tuple[str, int], Mapping[str, Any]] = {}
        self._chambers = dosable(rig)
        self._turns = 0
        self._slipped = troubles.devices_under(SLIPPED)
        self._telling = _telling_species(rig)

    def requested(self, body: Mapping[str, Any], run: str) -> None:
        """Process the start of a step."""
        self._steps[run, body["n"]] = body["args"]

    def announced(self, body: Mapping[str, Any], run: str) -> None:
        """Process the announcement of a dose."""
        path = self._paths.selected(body["line"], body.get("ports"))
        if path is None:
            return
        truth = self._lab.plant.truth()
        self.update(truth)
        self._open[run, body["n"]] = path
        if body["act"] == 1 and self._rig.vessels[path.target].kind != "waste":
            self._judge_carry_over(self._steps.get((run, body["n"]), {}), path, truth)

    def settled(self, body: Mapping[str, Any], run: str) -> None:
        """Process the settlement of a dose."""
        if (path := self._open.pop((run, body["n"]), None)) is not None:
            self._settled.append(path)

    def update(self, truth: PlantTruth) -> None:
        """Compare what has passed the ports with the open doses; check the bounds of the chambers and the selectors."""
        now_s = asyncio.get_running_loop().time()
        permitted = {line for path in (*self._open.values(), *self._settled) for line in path.lines}
        self._settled.clear()
        for line, valve in self._ports.items():
            passed_ul = truth.moved_ul[line] - self._moved[line]
            self._moved[line] = truth.moved_ul[line]
            if passed_ul > WRONG_UL and line not in permitted and not self._misled(valve, now_s):
                self._tell(
                    "doses reach their chamber",
                    line,
                    f"{passed_ul / ML:.3f} mL have passed {line}, and no dose along it was announced (F2)",
                )
        self._judge_bounds(truth, now_s)
        self._judge_turns()

    def _judge_bounds(self, truth: PlantTruth, now_s: float) -> None:
        """Check that no dosed chamber is above what it may hold, or below its floor."""
        if self._troubles.misled_since_s(now_s) is not None or self._slipped:
            return
        for name in self._chambers:
            ul, spec = truth.volumes_ul[name], self._rig.vessels[name]
            if not spec.floor_ul - BOUND_UL <= ul <= spec.limit_ul + BOUND_UL:
                self._tell(
                    "chambers stay within their bounds",
                    name,
                    f"{name} holds {ul / ML:.3f} mL, outside {spec.floor_ul / ML:g} to {spec.limit_ul / ML:g} mL (I4)",
                )

    def _judge_turns(self) -> None:
        """Check that no selector has turned while its pump moved medium."""
        turns = self._lab.plant.turned_under_flow
        for at_s, valve, flow_ul_min in turns[self._turns :]:
            if not self._misled(valve, at_s):
                self._tell(
                    "selectors turn at rest",
                    valve,
                    f"at {at_s:.0f} s {valve} turned while {flow_ul_min:.0f} µL/min flowed through it (I4)",
                )
        self._turns = len(turns)

    def _judge_carry_over(self, args: Mapping[str, Any], path: PumpedPath, truth: PlantTruth) -> None:
        """Check how much other medium the lines of a path hold when a dose begins."""
        volume_ul = float(args.get("volume_ul", 0.0))
        bound_ul = float(args.get("max_carry_over_pct", MAX_CARRY_OVER_PCT)) / 100.0 * volume_ul
        other_ul = min(sum(self._other_ul(line, path, truth) for line in path.lines[1:]), volume_ul)
        if other_ul > bound_ul + CARRY_OVER_UL:
            self._tell(
                "carry-over is bounded",
                path.target,
                f"{other_ul / ML:.3f} mL of {volume_ul / ML:.3f} mL for {path.target} are other medium than that of"
                f" {path.source}; at most {bound_ul / ML:.3f} mL may be (A10)",
            )

    def _other_ul(self, line: str, path: PumpedPath, truth: PlantTruth) -> float:
        """Return how much of what a line holds is not from the source of a path (µL), by the substance that tells most."""
        species, most = self._telling.get(path.source, ("", 0.0))
        held_ul = truth.held_ul[line]
        if not species or held_ul <= 0.0:
            return 0.0
        apart = abs(truth.held[line][species] / held_ul - truth.concentrations[path.source][species])
        return min(apart / most, 1.0) * held_ul

    def _misled(self, valve: str, now_s: float) -> bool:
        """Return whether a fault may have turned a selector, or kept its pump running."""
        pumps = {path.pump for path in dosing_paths(self._rig)}
        return valve.partition(".")[0] in self._slipped or any(
            self._troubles.near(point, now_s) for point in (valve, *pumps)
        )


def _telling_species(rig: Rig) -> dict[str, tuple[str, float]]:
    """Return, by source, the substance in which another medium of the same lines differs most, and by how much (mM)."""
    sources = {path.source for path in dosing_paths(rig) if rig.vessels[path.source].contains is not None}
    found: dict[str, tuple[str, float]] = {}
    for source in sources:
        own = rig.media[rig.vessels[source].contains or ""]
        others = [rig.media[rig.vessels[name].contains or ""] for name in sources - {source}]
        apart = [
            (abs(getattr(other, f"{species}_mm") - getattr(own, f"{species}_mm")), species)
            for other in others
            if other != own
            for species in ("glucose", "glutamine")
        ]
        if apart and max(apart)[0] > 0.0:
            most, species = max(apart)
            found[source] = species, most
    return found
