"""Whether the books are true: nothing given twice, lost, unannounced or booked wrongly (E4, F1, F2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from choroid.campaign.findings import Findings
from choroid.campaign.telling import Telling
from choroid.campaign.troubles import Troubles
from controller.process.controller import Controller
from controller.rig.description import Rig
from sim.lab import SimulatedLab
from sim.plant.plant import PlantTruth

DOUBTING = frozenset(
    (
        "balance_drift",
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
"""A step that moves so much more than it was asked was given twice; pumps err by some percent, counters by a step."""
LOST = 0.75
LOST_UL = 200.0
"""A step that is done and has moved so much less than was requested has lost a dose, unless somebody has accepted that.
Pumps err by up to 24 %, and a dose that was cut short is known to a weighing."""
STRAY_UL = 150.0
STRAY_TOLD_S = 300.0
"""How long it may take until a count that went on unasked is seen, once the line's talk is clean again."""
STRAY_SEEN_S = 10.0
"""The judge looks less often than the controller may: by so much may a booking come before the judge's notice."""
SIGMAS = 4.5
"""Of the ledger's doubt: three would be left by chance once in every few trials."""
LEAST_UL = 60.0
ML = 1000.0


class _Net(NamedTuple):
    """Volume (µL) that entered and left a line in its direction, less what moved the other way."""

    moved_ul: float
    arrived_ul: float

    @classmethod
    def of(cls, truth: PlantTruth, line: str) -> _Net:
        """Read it off the plant."""
        back_ul = 2.0 * truth.backwards_ul[line]
        return cls(truth.moved_ul[line] - back_ul, truth.arrived_ul[line] - back_ul)


@dataclass(slots=True)
class _Open:
    """A dose that the journal has announced and not settled."""

    run: str
    n: int
    ul: float
    line: str
    net: _Net
    """Of its line, when it was announced."""
    begun_s: float


@dataclass(frozen=True, slots=True)
class _Stray:
    """What moved unannounced on a line whose talk was disturbed until `until_s`; noticed at `at_s`."""

    line: str
    ul: float
    at_s: float
    until_s: float


class Doses:
    """What the journal announces and books, beside what truly went through the lines."""

    def __init__(self, rig: Rig, lab: SimulatedLab, findings: Findings, troubles: Troubles, telling: Telling) -> None:
        self._rig = rig
        self._lab = lab
        self._tell = findings.tell
        self._troubles = troubles
        self._telling = telling
        self._heart = rig.organs.heart.line
        self._open: dict[str, _Open] = {}
        self._asked: dict[tuple[str, int], float] = {}
        self._given: dict[tuple[str, int], float] = {}
        self._requested: dict[tuple[str, int], float] = {}
        self._accepted: set[tuple[str, int]] = set()
        self._moved = dict(lab.plant.truth().moved_ul)
        self._strays: list[_Stray] = []
        self._strays_booked: list[tuple[float, str]] = []
        """When (s) the ledger took in what a line had moved unasked."""

    def announced(self, body: Mapping[str, Any], run: str) -> None:
        """A row says that a dose will be given."""
        line = body["line"]
        truth = self._lab.plant.truth()
        if line in self._open:
            self._tell(
                "no double dose", f"{run}.{body['n']}", f"step {body['n']} doses {line} while a dose is open (E4)"
            )
        now_s = asyncio.get_running_loop().time()
        self._open[line] = _Open(run, body["n"], body["ul"], line, _Net.of(truth, line), now_s)
        self._asked.setdefault((run, body["n"]), body["ul"])

    def settled(self, kind: str, body: Mapping[str, Any], run: str) -> None:
        """A row says what came of it."""
        opened = next((o for o in self._open.values() if (o.run, o.n) == (run, body["n"])), None)
        if opened is None:
            return
        line = opened.line
        del self._open[line]
        truth = self._lab.plant.truth()
        net = _Net.of(truth, line)
        truly, arrived = net.moved_ul - opened.net.moved_ul, net.arrived_ul - opened.net.arrived_ul
        self._moved[line] = truth.moved_ul[line]
        if kind == "step.refused":
            if truly > LEAST_UL:
                self._tell("mass balance", line, f"{line}: a dose that was refused moved {truly / ML:.3f} mL (F2)")
            return
        step = (run, opened.n)
        given = self._given[step] = self._given.get(step, 0.0) + truly
        asked = self._asked[step]
        if given > DOUBLE * asked + DOUBLE_UL:
            self._tell(
                "no double dose",
                f"{run}.{opened.n}",
                f"step {opened.n} of {run} asked for {asked / ML:.2f} mL along {line};"
                f" {given / ML:.2f} mL were truly moved (E4)",
            )
        low, high = body["low"], body["high"]
        slack = max(LEAST_UL, 0.5 * (high - low), 0.02 * truly)
        # Air in a line lets another volume out of it than went in, and the balance sees one end of it.
        true = any(low - slack <= moved <= high + slack for moved in (truly, arrived))
        misread = self._troubles.misread(
            self._rig.organs.kidney.mass, opened.begun_s, asyncio.get_running_loop().time()
        )
        # A balance that lies in a dose nobody can know of: it may be the pump. What the vessels' doubt covers is judged.
        if not true and not misread and not self._excused():
            self._tell(
                "mass balance",
                f"{line}.{body['end']}",
                f"{line}: the ledger books {low / ML:.3f} to {high / ML:.3f} mL ({body['source']}, {body['end']}),"
                f" {truly / ML:.3f} mL were truly moved, {arrived / ML:.3f} mL arrived (F1, F2)",
            )

    def requested(self, body: Mapping[str, Any], run: str) -> None:
        """A row says that a step was begun; of a transfer it names the volume."""
        if "volume_ul" in body["args"]:
            self._requested[run, body["n"]] = body["args"]["volume_ul"]

    def accepted(self, body: Mapping[str, Any], run: str) -> None:
        """A row says that the run was held for what was delivered, and that a person has accepted it."""
        self._accepted.add((run, body["n"]))

    def done(self, body: Mapping[str, Any], run: str) -> None:
        """A row says that a step is done: then its volume was delivered, or a person has accepted what was (A10)."""
        step = (run, body["n"])
        requested = self._requested.get(step)
        if requested is None or step in self._accepted or self._excused():
            return
        given = self._given.get(step, 0.0)
        if given < LOST * requested - LOST_UL or (given == 0.0 < requested):
            self._tell(
                "no lost dose",
                f"{run}.{body['n']}",
                f"step {body['n']} of {run} is done: {requested / ML:.2f} mL were requested,"
                f" {given / ML:.2f} mL were truly moved (A10)",
            )

    def stray_booked(self, line: str) -> None:
        """A row says that a pump has moved something unasked."""
        self._strays_booked.append((asyncio.get_running_loop().time(), line))

    def look(self, moved: Mapping[str, float]) -> None:
        """No line moves liquid that the journal has not announced."""
        for line, ul in moved.items():
            if line == self._heart:
                continue
            if line in self._open:
                self._moved[line] = ul
            elif ul - self._moved[line] > STRAY_UL:
                self._stray(line, ul - self._moved[line])
                self._moved[line] = ul

    def _stray(self, line: str, ul: float) -> None:
        """No program can keep a flipped bit from being a command; but it is seen, booked and told."""
        now_s = asyncio.get_running_loop().time()
        pump = self._rig.lines[line].pump or ""
        if (until_s := self._troubles.garbled_until_s(pump, now_s)) is not None:
            self._strays.append(_Stray(line, ul, now_s, until_s))
            return
        self._tell(
            "nothing moves unannounced", line, f"{line} moved {ul / ML:.3f} mL that no journal row has announced (F2)"
        )

    def judge(self, controller: Controller) -> None:
        """At the end: what the ledger says is in the vessels, and that no step is missing."""
        for stray in self._strays:
            self._judge_stray(stray)
        truth = self._lab.plant.truth()
        for name, volume in controller.ledger.volumes().items():
            error = volume.ul - truth.volumes_ul[name]
            if abs(error) > SIGMAS * volume.sd_ul + LEAST_UL and not self._excused():
                self._tell(
                    "mass balance",
                    f"vessel {name}",
                    f"{name}: the ledger says {volume.ul / ML:.3f} ± {volume.sd_ul / ML:.3f} mL,"
                    f" there are {truth.volumes_ul[name] / ML:.3f} mL (F1)",
                )
        self._judge_steps(controller)

    def _judge_stray(self, stray: _Stray) -> None:
        """It was booked and told once it could be seen; what moves while no controller is there, the balance sees
        alone.
        """
        latest_s = self._telling.time_to_tell(max(stray.at_s, stray.until_s), STRAY_TOLD_S)
        earliest_s = stray.at_s - STRAY_SEEN_S
        seen = any(line == stray.line and earliest_s <= at_s <= latest_s for at_s, line in self._strays_booked)
        if not seen and not self._telling.nobody_at(stray.at_s):
            self._tell(
                "nothing moves unannounced",
                stray.line,
                f"a garbled command moved {stray.ul / ML:.3f} mL along {stray.line} at {stray.at_s:.0f} s, and it was never"
                " booked (F2)",
            )

    def _judge_steps(self, controller: Controller) -> None:
        """Every step that was begun has an end, but for the last of a run that was ended in it."""
        begun: dict[tuple[str, int], str] = {}
        done: set[tuple[str, int]] = set()
        open_acts: dict[tuple[str, int], str] = {}
        last: dict[str, int] = {}
        for row in controller.journal.entries(
            kinds=("step", "step.done", "step.act", "step.refused", "moved", "run.state")
        ):
            if row.run is None or row.kind == "run.state":
                continue
            step = (row.run, row.body["n"])
            if row.kind == "step":
                if step in begun or row.body["n"] != last.get(row.run, 0) + 1:
                    self._tell("no step lost", str(step), f"step {step[1]} of {step[0]} follows {last.get(row.run, 0)}")
                begun[step] = row.body["verb"]
                last[row.run] = row.body["n"]
            elif row.kind == "step.done":
                if step in done:
                    self._tell("no step lost", str(step), f"step {step[1]} of {step[0]} was done twice")
                done.add(step)
            elif row.kind == "step.act":
                open_acts[step] = row.body["line"]
            else:
                open_acts.pop(step, None)
        for run, n in begun.keys() - done:
            if n != last[run]:
                self._tell("no step lost", f"{run}.{n}", f"step {n} ({begun[run, n]}) of {run} never ended (E4)")
        for (run, n), line in open_acts.items():
            self._tell(
                "no step lost", f"{run}.{n}", f"the dose of step {n} of {run} along {line} was never settled (F2)"
            )

    def _excused(self) -> bool:
        """Return whether something misleads pumps or balance, and somebody has been told of it."""
        since_s = self._troubles.misled_since_s(asyncio.get_running_loop().time())
        return since_s is not None and any(
            at_s >= since_s for kind, at_s in self._telling.last_s.items() if kind in DOUBTING
        )
