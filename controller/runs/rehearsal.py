"""A rehearsal: the protocol run through on paper, from the rig's present volumes, before anything moves (E5).

The same function, the same organs, no device: transfers are booked in a copy of the volumes with their doubt, times are
added up, readings are what was last read or else the set-points. What the gate would refuse for want of room or medium
is found in an instant, so that `run` can refuse it as `plan` does. What depends on readings to come (grades, branches on
them) is that of a rig on which all is well; the twin looks deeper (`choroid plan`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.core.state import Volume
from controller.ledger.line_contents import LineContents
from controller.recipes.form import POINT_UNITS
from controller.rig.description import Rig
from controller.rig.organ_lines import fresh_medium
from controller.rig.places import at, roles_of
from controller.rig.probes import (
    chamber_temperature,
    loop_oxygen,
    loop_ph,
    oxygen_target_pct,
    ph_target,
    temperature_target_c,
)
from controller.runs.facts import RigFacts
from controller.runs.paper_volumes import PaperVolumes
from controller.runs.python_conversation import IsolatedProtocol
from controller.steps.barrier import bounds_kpa
from controller.steps.branches import BRANCH, Branch, abreast, spoken
from controller.steps.budget import StepBudget
from controller.steps.schedule import local_text, next_time
from controller.steps.steps import StepRecord
from controller.transfers.carry_over import carry_over_refusal
from controller.transfers.routes import Route, route_of, routes_of
from controller.transfers.weighing import ACCURACY_SD
from protocols.answers import APPROVAL, AnswerForm
from protocols.chamber_verbs import MAX_CARRY_OVER_PCT
from protocols.host import Perform, ProtocolError, RunEnded
from protocols.interval import Interval
from protocols.lab_verbs import DECIDE, SLEEP_UNTIL_CLOCK
from protocols.language import Lab
from protocols.parameters import ParamError
from protocols.registry import Recipe
from protocols.results import VesselVolume
from protocols.soft_sensor import MediaEstimate, MediaValues
from protocols.table import way_of_step
from protocols.verbs import Policy, Verb

HOURS = 24.0
"""Default duration (h): bottles are refilled once a day."""
DAY_S = 86_400.0
WEIGHING_S = 12.0
"""Before and after each dose: three readings of the balance."""
MAX_STEPS = 20_000
FOREIGN_S = 30.0
"""Maximum time of the event loop (s) that a rehearsal takes: verbs take none, so the protocol waits for something else."""
FOREIGN = (
    "the protocol waits for something else than a verb. Likely cause: asyncio.sleep, a lock, a file or a network call. Next:"
    " await verbs of the lab only"
)


Calibrated = Callable[[str, str], str | None]
"""Pump and UTC (ISO 8601) → why it would be refused volumes then, or None."""


class _Over(RunEnded):
    """Ends a branch of the rehearsal: the time to rehearse is over, or the run would be held."""


@dataclass(frozen=True, slots=True)
class Event:
    """Records one step of the rehearsal. Times in s since the start, volumes in µL."""

    n: int
    verb: str
    begin_s: float
    end_s: float
    ul: float = 0.0
    source: str = ""
    target: str = ""
    line: str = ""
    text: str = ""
    branch: str = ""
    """Its name; empty for the protocol itself."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """An answer that was assumed: number and time (s since the start) of the step, its message, the form of the answer."""

    n: int
    at_s: float
    message: str
    form: AnswerForm

    @property
    def text(self) -> str:
        """The assumption for people."""
        form = self.form
        return f"assumed answer to step {self.n} ({self.message}): {form.text(form.assumed)} ({form.assumed_because})"


@dataclass(slots=True)
class Rehearsed:
    """Holds the result of a rehearsal: its steps, the volumes at the end, and why the run would be refused (empty if it
    would not).
    """

    events: list[Event] = field(default_factory=list)
    volumes: dict[str, Volume] = field(default_factory=dict)
    passed_ul: dict[str, float] = field(default_factory=dict)
    """What the hearts have brought to a vessel (negative: taken from it), by vessel (µL)."""
    breaches: list[str] = field(default_factory=list)
    uncalibrated: bool = False
    """Whether the breach is a pump's missing or expired calibration."""
    assumed: list[Assumed] = field(default_factory=list)
    """Answers that were assumed."""
    seconds: float = 0.0
    ended: bool = False
    """Whether the protocol came to its end before the horizon."""


async def rehearse(
    recipe: Recipe,
    rig: Rig,
    params: Mapping[str, float],
    *,
    volumes: Mapping[str, Volume],
    readings: Mapping[str, float] | None = None,
    estimate: MediaEstimate | None = None,
    calibrated: Calibrated | None = None,
    now: datetime,
    hours: float = HOURS,
    contents: LineContents | None = None,
) -> Rehearsed:
    """Run `recipe` on paper for `hours` from `volumes` (all vessels); `readings` are the latest by point,
    `estimate` the soft sensor's last word (default: fresh medium everywhere). `calibrated` tells why a pump would be
    refused volumes at a time (F5); without it calibrations are not looked at. `contents` is what stands in the lines that
    several media pass (default: each is primed with its first medium).

    Takes no time of the loop's. An error of the protocol's own (a dose out of its range) is a breach as well; any other
    exception is its defect and ends the rehearsal without one, as the run itself will hold at it and say so.
    """
    paper = _Paper(rig, volumes, readings or {}, estimate, calibrated, now, hours * 3600.0, contents)
    before = BRANCH.set(paper.root)
    try:
        within_s = None if isinstance(recipe.function, IsolatedProtocol) else FOREIGN_S  # its own process is watched
        async with asyncio.timeout(within_s) as limit:
            await recipe.function(Lab(paper, paper, RigFacts(rig, paper.volumes_now)), params)
        paper.out.ended = True
    except _Over:
        pass
    except (ProtocolError, ParamError) as error:
        paper.out.breaches.append(str(error))
    except Exception:  # the run itself holds at a defect of the protocol's, and says which
        if limit.expired():
            paper.out.breaches.append(FOREIGN)
    finally:
        BRANCH.reset(before)
    paper.out.seconds = paper.latest_s
    paper.out.volumes, paper.out.passed_ul = paper.volumes.now(), paper.volumes.passed_ul
    return paper.out


class _Paper:
    """A run's place in the organs, on paper."""

    def __init__(
        self,
        rig: Rig,
        volumes: Mapping[str, Volume],
        readings: Mapping[str, float],
        estimate: MediaEstimate | None,
        calibrated: Calibrated | None,
        now: datetime,
        horizon_s: float,
        contents: LineContents | None,
    ) -> None:
        self.out = Rehearsed()
        self.volumes = PaperVolumes(rig, volumes)
        self.root = Branch()
        self.latest_s = 0.0
        self._branches = {self.root}
        self._waiting: dict[Branch, asyncio.Future[None]] = {}
        self._free_s: dict[str | None, float] = {}
        """Until when a vessel, pump or valve is in use."""
        self._evaporated_s = 0.0
        self._rig = rig
        self._readings = readings
        self._estimate = estimate
        self._calibrated = calibrated
        self._now = now
        self._horizon_s = horizon_s
        self._routes = routes_of(rig)
        self._contents = LineContents(rig) if contents is None else contents
        self._n = 0
        self._budget = StepBudget()
        self.root.volumes = self._look()

    @property
    def now_s(self) -> float:
        """Where the branch that asks stands on paper (s since the start)."""
        return BRANCH.get().now_s

    # --- what the organs ask of a run -------------------------------------------------------------------

    async def step(self, verb: Verb, args: Mapping[str, Any], perform: Perform) -> Any:
        branch = BRANCH.get()
        branch.last += 1
        await self._turn(branch)
        self._n += 1
        if too_many := self._budget.spend(self.latest_s):
            self.out.breaches.append(f"step {self._n} ({verb.name}): {too_many}")
        if self._n > MAX_STEPS or branch.now_s >= self._horizon_s or self.out.breaches:
            raise _Over
        step = StepRecord(self._n, verb.name, args, branch.at)
        begin_s = branch.now_s
        result = await perform(step)
        branch.volumes = self._look()
        if verb.policy is not Policy.RESUME and verb is not DECIDE:  # transfers have events of their own
            text = str(args.get("message") or args.get("point") or args.get("kind") or "")
            if verb is SLEEP_UNTIL_CLOCK:
                text = local_text(result, args["zone"])
            end_s = min(branch.now_s, self._horizon_s)
            self.out.events.append(Event(step.n, verb.name, begin_s, end_s, text=text, branch=spoken(branch.path)))
        if branch.now_s > self._horizon_s:
            raise _Over
        return result

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        return await coming

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        branch = BRANCH.get()
        branch.last += 1
        children = [branch.child(name) for name in names]
        self._branches = self._branches - {branch} | set(children)
        try:
            return await abreast(children, works, ended=self._branch_ended)
        finally:
            self._branches = self._branches - set(children) | {branch}
            branch.now_s = max(child.now_s for child in (branch, *children))
            branch.volumes = self._look()

    async def _turn(self, branch: Branch) -> None:
        """Wait until no other branch is at an earlier time: transfers of all branches are booked in the order of their
        times.
        """
        if self._branches != {branch}:
            self._waiting[branch] = asyncio.get_running_loop().create_future()
            gate = self._waiting[branch]
            self._next()
            await gate

    def _next(self) -> None:
        """Resume the branch with the earliest time, once all branches wait."""
        if self._waiting and set(self._waiting) >= self._branches:
            gate = self._waiting.pop(min(self._waiting, key=lambda branch: (branch.now_s, branch.path)))
            if not gate.done():
                gate.set_result(None)

    def _branch_ended(self, branch: Branch) -> None:
        self._branches = self._branches - {branch}
        self._waiting.pop(branch, None)
        self._next()

    async def transfer(self, step: StepRecord) -> dict[str, Any]:
        route, volume_ul = self.route(way_of_step(step.verb, step.args)), float(step.args["volume_ul"])
        used = route.exclusive
        self._wait_for(*used)
        self._carries_over(step, route, volume_ul)
        self._fits(step, route, volume_ul)
        begin_s = self.now_s
        self._may_dose(step, route, volume_ul)
        self._pass(volume_ul / route.flow_ul_min * 60.0 + 2 * WEIGHING_S * route.portions(volume_ul))
        self._free_s |= dict.fromkeys(used, self.now_s)
        liquid_ul = self.volumes.liquid_ul(route, volume_ul)
        sd_ul = self.volumes.move(route, volume_ul)
        if route.path is not None:
            self._contents.pass_along(route.path, volume_ul)
        self.out.events.append(
            Event(
                step.n,
                step.verb,
                begin_s,
                self.now_s,
                liquid_ul,
                route.source,
                route.target,
                route.line,
                branch=spoken(BRANCH.get().path),
            )
        )
        moved: dict[str, float | None] = {"ul": volume_ul, "low": volume_ul - 3 * sd_ul, "high": volume_ul + 3 * sd_ul}
        filtered = self._rig.lines[route.line].filter is not None
        gauge = None if self._rig.organs.immune is None else self._rig.organs.immune.pressure
        return {**moved, "peak_kpa": self._value(gauge)} if filtered and gauge is not None else moved

    def volume(self, chamber: str) -> dict[str, float]:
        volume = self.volumes.now()[chamber]
        return {"ul": volume.ul, "sd_ul": volume.sd_ul}

    async def measured(self, point: str, settle_s: float) -> dict[str, Any]:
        device = self._rig.devices.get(point.partition(".")[0])
        if device is None:
            raise ProtocolError(f"no sensor is called “{point}”. Next: use device.point as in the rig file")
        batch = at(self._rig, "kidney.vessel")
        if device.at == batch:
            self._wait_for(batch)
        self._pass(settle_s + 3 * device.every_s)
        if device.at == batch:
            self._free_s[batch] = self.now_s
        value = self._value(point)
        unit = POINT_UNITS.get(point.rpartition(".")[2], "mL/min") or "pH"
        interval = None if value is None else Interval.around(value, ACCURACY_SD.get(unit, 0.0)).to_json()
        return {"point": point, "unit": unit, "interval": interval, "detail": "" if interval else "rehearsed"}

    async def flow_of(self, pump: str) -> dict[str, Any]:
        hearts = self._rig.organs.hearts.values()
        flow_ul_min = next(heart.flow_ul_min for heart in hearts if self._rig.lines[heart.line].pump == pump)
        interval = Interval.around(flow_ul_min, ACCURACY_SD["uL/min"]).to_json()
        return {"point": f"{pump}.flow", "unit": "uL/min", "interval": interval, "detail": ""}

    async def calibrated(self, step: StepRecord, point: str) -> dict[str, Any]:
        self._wait_for(batch := at(self._rig, "kidney.vessel"))
        self._pass(3 * self._rig.devices[point.partition(".")[0]].every_s)
        self._free_s[batch] = self.now_s
        return {"before": step.args["value"], "after": step.args["value"], "places": 1}

    async def slept(self, step: StepRecord, seconds: float) -> None:
        self._pass(seconds)

    async def slept_until(self, step: StepRecord, elapsed_s: float) -> float:
        late_s = max(0.0, self.now_s - elapsed_s)
        self._pass(max(0.0, elapsed_s - self.now_s))
        return late_s

    async def slept_until_clock(self, step: StepRecord) -> str:
        now = self._now + timedelta(seconds=self.now_s)
        due = next_time(now, step.args)
        self._pass((due - now).total_seconds())
        return due.isoformat(timespec="milliseconds")

    def barrier(self) -> dict[str, Any]:
        min_kpa, max_kpa = bounds_kpa(self._rig)
        return {"sterile": True, "peak_kpa": None, "min_kpa": min_kpa, "max_kpa": max_kpa, "detail": ""}

    def noted(self, step: StepRecord, kind: str, data: Mapping[str, Any]) -> None:
        """Do nothing: notes are for the journal, and a rehearsal has none."""

    async def asked(self, step: StepRecord, message: str, answer: AnswerForm | None) -> dict[str, Any] | None:
        """Answer a question at once, with the answer that its form assumes."""
        if answer is None:
            return None
        self.out.assumed.append(Assumed(step.n, self.now_s, message, answer))
        told = {"value": answer.assumed, "text": answer.text(answer.assumed)}
        return told if answer.kind != APPROVAL else {**told, "user": "assumed", "reason": answer.assumed_because}

    async def estimated(self) -> dict[str, Any]:
        if self._estimate is not None:
            return self._estimate.to_json()
        medium = self._rig.media[fresh_medium(self._rig)]
        values = MediaValues(
            **{entry.name: Interval.exact(getattr(medium, entry.name)) for entry in fields(MediaValues)}
        )
        return MediaEstimate(values, values, Interval.exact(0.0), titrated=False).to_json()

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        return BRANCH.get().volumes

    def route(self, verb: str) -> Route:
        return route_of(self._routes, verb)

    # --- inside -----------------------------------------------------------------------------------------

    def _look(self) -> dict[str, VesselVolume]:
        now = self.volumes.now()
        return {
            role: VesselVolume(now[name].ul, now[name].sd_ul, 0.0, 0.0) for role, name in roles_of(self._rig).items()
        }

    def _pass(self, seconds: float) -> None:
        """Advance the time of this branch; water evaporates, and hearts go on."""
        branch = BRANCH.get()
        branch.now_s += seconds
        self.latest_s = max(self.latest_s, branch.now_s)
        within_s = max(min(branch.now_s, self._horizon_s) - self._evaporated_s, 0.0)
        self._evaporated_s += within_s
        self.volumes.elapse(within_s)

    def _wait_for(self, *names: str | None) -> None:
        """Wait until no other branch uses these vessels, pumps and valves."""
        free_s = max((self._free_s.get(name, 0.0) for name in names if name is not None), default=0.0)
        self._pass(max(free_s - self.now_s, 0.0))

    def _may_dose(self, step: StepRecord, route: Route, volume_ul: float) -> None:
        """Check the calibration of a pump as the gate does (F5), at the beginning of each portion."""
        if self._calibrated is None:
            return
        portions = route.portions(volume_ul)
        each_s = volume_ul / portions / route.flow_ul_min * 60.0 + 2 * WEIGHING_S
        for portion in range(portions):
            at_s = self.now_s + portion * each_s
            utc = self._now.astimezone(UTC) + timedelta(seconds=at_s)
            why = self._calibrated(route.pump, utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
            if why is not None:
                what = f"step {step.n} ({step.verb}, {volume_ul / 1000:.2f} mL, {at_s / 3600:.1f} h from the start)"
                self.out.breaches.append(f"{what}: calibration: {why}")
                self.out.uncalibrated = True
                raise _Over

    def _carries_over(self, step: StepRecord, route: Route, volume_ul: float) -> None:
        """Check the bound of carry-over, at which the run itself would hold."""
        if route.path is None:
            return
        bound_pct = float(step.args.get("max_carry_over_pct", MAX_CARRY_OVER_PCT))
        other_ul = self._contents.other_ul(route.path, volume_ul)
        if refusal := carry_over_refusal(self._rig, route.path, volume_ul, other_ul, bound_pct):
            self.out.breaches.append(f"step {step.n} ({step.verb}): {refusal}")
            raise _Over

    def _fits(self, step: StepRecord, route: Route, volume_ul: float) -> None:
        """Check the room for a dose as the gate does: three standard deviations from floor and ceiling (I4)."""
        what = f"step {step.n} ({step.verb}, {volume_ul / 1000:.2f} mL, {self.now_s / 3600:.1f} h from the start)"
        self.out.breaches += [f"{what}: {breach}" for breach in self.volumes.breaches(route, volume_ul)]
        if self.out.breaches:
            raise _Over

    def _value(self, point: str) -> float | None:
        """Return the latest reading, else the set-point where there is one."""
        organs, rig, limit = self._rig.organs, self._rig, self._rig.safety.over_pressure_heart
        if organs.kidney is not None and point == organs.kidney.mass:
            return self.volumes.ul[organs.kidney.vessel] / 1000.0
        if point in self._readings:
            return self._readings[point]
        known = {
            loop_ph(rig): ph_target(rig),
            None if organs.liver is None else organs.liver.ph: ph_target(rig),
            loop_oxygen(rig): oxygen_target_pct(rig),
            chamber_temperature(rig): temperature_target_c(rig),
            None if organs.immune is None else organs.immune.pressure: 0.1 * bounds_kpa(rig)[1],
            **{heart.pressure: 0.0 if limit is None else 0.1 * limit.high_kpa for heart in organs.hearts.values()},
        }
        return known.get(point)
