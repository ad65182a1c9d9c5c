"""Judge of doses and bookkeeping: no dose twice, lost, unannounced or booked wrongly (E4, F1, F2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.ledger.flow_paths import FlowPaths
from controller.ledger.terms import STRAW_REL_SD
from controller.process.controller import Controller
from controller.rig.description import Rig
from controller.rig.graph import lines_of_heart
from sim.lab import SimulatedLab
from verification.campaign.findings import Findings
from verification.campaign.telling import Telling
from verification.campaign.troubles import Troubles
from verification.campaign.unwitnessed import DoseSpan, Net, Unwitnessed

DOUBTING = frozenset(
    (
        "balance_drift",
        "chamber_left_out",
        "pump_drift",
        "stray_flow",
        "command_failed",
        "transfer_overlong",
        "run_held",
        "over_pressure_filter",
    )
)
DOUBLE = 1.25
DOUBLE_UL = 300.0
"""Excess over the request from which a step counts as given twice (µL); pumps err by some percent, counters by a
step.
"""
LOST = 0.75
LOST_UL = 200.0
"""Deficit of a completed step from which a dose counts as lost (µL), unless a person has accepted it. Pumps err by
up to 24 %, and a weighing detects a truncated dose.
"""
STRAY_UL = 150.0
STRAY_TOLD_S = 300.0
"""Maximum time until an uncommanded count is detected, after the line's communication is undisturbed again (s)."""
STRAY_SEEN_S = 10.0
"""Maximum lead of a booking before the judge's notice (s): the judge samples less often than the controller."""
SIGMAS = 4.5
"""Tolerance in standard deviations of the ledger: three would be exceeded by chance once in every few trials."""
TOLERANCE_UL = 60.0
ML = 1000.0


@dataclass(slots=True)
class _Open:
    """A dose that the journal has announced but not settled."""

    run: str
    n: int
    ul: float
    line: str
    net: Net
    """Of its line, when it was announced."""
    begun_s: float
    ports: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Stray:
    """An unannounced volume on a line whose communication was disturbed until `until_s`; detected at `at_s`."""

    line: str
    ul: float
    at_s: float
    until_s: float


class Doses:
    """What the journal announces and books, compared with the true volumes through the lines."""

    def __init__(self, rig: Rig, lab: SimulatedLab, findings: Findings, troubles: Troubles, telling: Telling) -> None:
        self._rig = rig
        self._lab = lab
        self._tell = findings.tell
        self._troubles = troubles
        self._telling = telling
        self._circulating = {line for name in rig.organs.hearts for line in lines_of_heart(rig, name)}
        kidney = rig.organs.kidney
        self._mass = None if kidney is None else kidney.mass
        self._open: dict[str, _Open] = {}
        self._asked: dict[tuple[str, int], float] = {}
        self._given: dict[tuple[str, int], float] = {}
        self._paths = FlowPaths(rig)
        self._unwitnessed = Unwitnessed(rig, troubles)
        self._requested: dict[tuple[str, int], float] = {}
        self._accepted: set[tuple[str, int]] = set()
        self._moved = dict(lab.plant.truth().moved_ul)
        self._strays: list[_Stray] = []
        self._strays_booked: list[tuple[float, str]] = []
        """Times (s) when the ledger booked an uncommanded volume of a line."""

    def announced(self, body: Mapping[str, Any], run: str) -> None:
        """Process the announcement of a dose."""
        line = body["line"]
        if line in self._open:
            self._tell(
                "no double dose", f"{run}.{body['n']}", f"step {body['n']} doses {line} while a dose is open (E4)"
            )
        now_s = asyncio.get_running_loop().time()
        net = Net.of(self._lab.plant, line)
        self._open[line] = _Open(run, body["n"], body["ul"], line, net, now_s, body.get("ports") or {})
        self._asked.setdefault((run, body["n"]), body["ul"])

    def settled(self, kind: str, body: Mapping[str, Any], run: str) -> None:
        """Process the settlement of a dose."""
        opened = next((o for o in self._open.values() if (o.run, o.n) == (run, body["n"])), None)
        if opened is None:
            return
        line = opened.line
        del self._open[line]
        net = Net.of(self._lab.plant, line)
        truly, arrived = net.moved_ul - opened.net.moved_ul, net.arrived_ul - opened.net.arrived_ul
        self._moved[line] = self._lab.plant.truth().moved_ul[line]
        if kind == "step.refused":
            if truly > TOLERANCE_UL:
                self._tell("mass balance", line, f"{line}: a dose that was refused moved {truly / ML:.3f} mL (F2)")
            return
        step = (run, opened.n)
        air = body["ul"] - body["liquid_ul"] if "liquid_ul" in body else 0.0  # beyond its straw a pump moves air
        span = DoseSpan(line, opened.ports, opened.ul - air, opened.begun_s, asyncio.get_running_loop().time())
        lacked = self._unwitnessed.lacked_ul(span, opened.net, net)
        given = self._given[step] = self._given.get(step, 0.0) + truly + lacked + air
        asked = self._asked[step]
        if given > DOUBLE * asked + DOUBLE_UL:
            self._tell(
                "no double dose",
                f"{run}.{opened.n}",
                f"step {opened.n} of {run} asked for {asked / ML:.2f} mL along {line};"
                f" {given / ML:.2f} mL were truly moved (E4)",
            )
        self._judge_booking(opened, body, truly, arrived, lacked)

    def _judge_booking(
        self, opened: _Open, body: Mapping[str, Any], truly: float, arrived: float, lacked: float
    ) -> None:
        """Compare the booked volume of a dose with what left (`truly`) and what arrived, or would but for what it
        `lacked` unseen (µL).
        """
        line = opened.line
        low, high = body["low"], body["high"]
        slack = max(TOLERANCE_UL, 0.5 * (high - low), 0.02 * truly)
        if "liquid_ul" in body:
            air = body["ul"] - body["liquid_ul"]
            low, high, slack = low - air, high - air, max(slack, self._straw_doubt_ul(line, body.get("ports")))
        # Air in a line changes the volume between its ends, and the balance sees only one end.
        true = any(low - slack <= moved + lacked <= high + slack for moved in (truly, arrived))
        now_s = asyncio.get_running_loop().time()
        misread = self._mass is not None and self._troubles.misread(self._mass, opened.begun_s, now_s)
        # A wrong balance during a dose cannot be detected: it may be the pump. What the vessels' doubt covers is
        # judged.
        if not true and not misread and not self._excused():
            self._tell(
                "mass balance",
                f"{line}.{body['end']}",
                f"{line}: the ledger books {low / ML:.3f} to {high / ML:.3f} mL ({body['source']}, {body['end']}),"
                f" {truly / ML:.3f} mL were truly moved, {arrived / ML:.3f} mL arrived (F1, F2)",
            )

    def _straw_doubt_ul(self, line: str, ports: Mapping[str, int] | None) -> float:
        """Return how far the level at a straw may be from its height by the ledger (µL)."""
        selected = self._paths.selected(line, ports)
        straw = self._rig.lines[line if selected is None else selected.lines[0]]
        return STRAW_REL_SD * straw.draws_above_ul

    def requested(self, body: Mapping[str, Any], run: str) -> None:
        """Process the start of a step; for a transfer it has the volume."""
        if "volume_ul" in body["args"]:
            self._requested[run, body["n"]] = body["args"]["volume_ul"]

    def accepted(self, body: Mapping[str, Any], run: str) -> None:
        """Process the acceptance of a delivered volume by a person after a hold."""
        self._accepted.add((run, body["n"]))

    def done(self, body: Mapping[str, Any], run: str) -> None:
        """Process the completion of a step: its volume was delivered, or a person has accepted the delivery (A10)."""
        step = (run, body["n"])
        requested = self._requested.get(step)
        if requested is None or step in self._accepted or self._excused():
            return
        if isinstance(body["result"], Mapping) and body["result"].get("failed"):
            return  # the dose of one chamber was given up, with an alarm
        given = self._given.get(step, 0.0)
        if given < LOST * requested - LOST_UL or (given == 0.0 < requested):
            self._tell(
                "no lost dose",
                f"{run}.{body['n']}",
                f"step {body['n']} of {run} is done: {requested / ML:.2f} mL were requested,"
                f" {given / ML:.2f} mL were truly moved (A10)",
            )

    def stray_booked(self, line: str) -> None:
        """Process the booking of an uncommanded volume."""
        self._strays_booked.append((asyncio.get_running_loop().time(), line))

    def update(self, moved: Mapping[str, float]) -> None:
        """Check that no line moves liquid without an announcement in the journal.

        What a motor moves backwards cannot be detected: its pump counts it forwards, and books that.
        """
        now_s = asyncio.get_running_loop().time()
        for line, ul in moved.items():
            if line in self._circulating or self._rig.lines[line].pump is None:
                continue
            if line in self._open or self._troubles.backwards(line, now_s):
                self._moved[line] = ul
            elif ul - self._moved[line] > STRAY_UL:
                self._stray(line, ul - self._moved[line])
                self._moved[line] = ul

    def _stray(self, line: str, ul: float) -> None:
        """Record an uncommanded volume: a flipped bit may always be a command, but it must be detected, booked and
        announced.
        """
        now_s = asyncio.get_running_loop().time()
        pump = self._rig.lines[line].pump or ""
        if (until_s := self._troubles.garbled_until_s(pump, now_s)) is not None:
            self._strays.append(_Stray(line, ul, now_s, until_s))
            return
        self._tell(
            "nothing moves unannounced", line, f"{line} moved {ul / ML:.3f} mL that no journal row has announced (F2)"
        )

    def judge(self, controller: Controller) -> None:
        """Judge at the end: the ledger's volumes against the true ones, and the completeness of steps."""
        for stray in self._strays:
            self._judge_stray(stray)
        truth = self._lab.plant.truth()
        for name, volume in controller.ledger.volumes().items():
            error = volume.ul - truth.volumes_ul[name]
            allowed = SIGMAS * volume.sd_ul + TOLERANCE_UL + self._unwitnessed.lacking_ul.get(name, 0.0)
            if abs(error) > allowed and not self._excused():
                self._tell(
                    "mass balance",
                    f"vessel {name}",
                    f"{name}: the ledger says {volume.ul / ML:.3f} ± {volume.sd_ul / ML:.3f} mL,"
                    f" there are {truth.volumes_ul[name] / ML:.3f} mL (F1)",
                )
        self._judge_steps(controller)
        self._judge_settlements(controller)

    def _judge_stray(self, stray: _Stray) -> None:
        """Check that a detectable volume was booked and announced; with no controller at work only the balance sees
        it.
        """
        latest_s = self._telling.time_to_tell(max(stray.at_s, stray.until_s), STRAY_TOLD_S)
        earliest_s = stray.at_s - STRAY_SEEN_S
        seen = any(line == stray.line and earliest_s <= at_s <= latest_s for at_s, line in self._strays_booked)
        if not seen and not self._telling.absent_at(stray.at_s):
            self._tell(
                "nothing moves unannounced",
                stray.line,
                f"a garbled command moved {stray.ul / ML:.3f} mL along {stray.line} at {stray.at_s:.0f} s, and it was never"
                " booked (F2)",
            )

    def _judge_steps(self, controller: Controller) -> None:
        """Check that every started step has an end, except the last of a run that was ended during it."""
        begun: dict[tuple[str, int], str] = {}
        done: set[tuple[str, int]] = set()
        last: dict[str, int] = {}
        for row in controller.journal.entries(kinds=("step", "step.done")):
            if row.run is None:
                continue
            step = (row.run, row.body["n"])
            if row.kind == "step":
                if step in begun or row.body["n"] != last.get(row.run, 0) + 1:
                    self._tell("no step lost", str(step), f"step {step[1]} of {step[0]} follows {last.get(row.run, 0)}")
                begun[step] = row.body["verb"]
                last[row.run] = row.body["n"]
            else:
                if step in done:
                    self._tell("no step lost", str(step), f"step {step[1]} of {step[0]} was done twice")
                done.add(step)
        for run, n in begun.keys() - done:
            if n != last[run]:
                self._tell("no step lost", f"{run}.{n}", f"step {n} ({begun[run, n]}) of {run} never ended (E4)")

    def _judge_settlements(self, controller: Controller) -> None:
        """Check that every announced dose of a step was booked or refused."""
        open_acts: dict[tuple[str, int], str] = {}
        for row in controller.journal.entries(kinds=("step.act", "step.refused", "moved")):
            if row.run is None:
                continue
            step = (row.run, row.body["n"])
            if row.kind == "step.act":
                open_acts[step] = row.body["line"]
            else:
                open_acts.pop(step, None)
        for (run, n), line in open_acts.items():
            self._tell(
                "no step lost", f"{run}.{n}", f"the dose of step {n} of {run} along {line} was never settled (F2)"
            )

    def _excused(self) -> bool:
        """Return whether a fault misleads pumps or balance and was announced."""
        since_s = self._troubles.misled_since_s(asyncio.get_running_loop().time())
        return since_s is not None and any(
            at_s >= since_s for kind, at_s in self._telling.last_s.items() if kind in DOUBTING
        )
