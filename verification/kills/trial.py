"""One trial: `choroid lab serve` and a controller in processes of their own; the controller is killed, and started again.

Then the lab reports what is really in its vessels and went through its lines, and the journal what was asked, booked and
done. The steps, and how often a person is asked, are known from the recipe's reference, a trial without a kill.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from choroid.client.errors import ClientError
from choroid.common.failure import UserError
from choroid.operating.remote import call
from choroid.running.data_folder import ENDPOINT
from choroid.simulation.lab import lab
from choroid.simulation.simulate import EPOCH
from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.journal.reader import JournalReader
from controller.journal.terms import Entry
from controller.ledger.flow_paths import FlowPaths
from controller.ledger.ledger import Ledger
from controller.rig.description import Rig
from controller.transfers.routes import Route, routes_of
from drivers.strict_yaml import load_yaml
from protocols.table import way_of_step
from verification.kills.host import OfRuns, controller
from verification.kills.processes import Process, comes_true
from verification.kills.replies import answer

SEED = 5
START_S = 60.0
"""Real time that a process has to come up, on a machine that is busy."""
ANSWER_S = 20.0
POLL_S = 0.15
STARTS = 6
MAX_HOLDS = 5
SIGMAS = 4.0
DRIP_UL = 20.0
"""What a vessel may be off beyond the ledger's own doubt: a drip, and what is in the lines."""
PUMP_REL = 0.06
"""By how much the lab's pumps may give more or less than they are asked for: less than any dose of a recipe."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where the process dies: the run's `row`-th journal row, before it is written or right after."""

    row: int
    before: bool


@dataclass(slots=True)
class KillOutcome:
    """What came of one trial. Volumes by line or vessel in µL."""

    recipe: str
    row: int
    before: bool
    rows: int = 0
    """Rows of the run, with the gate's about it."""
    verbs: list[str] = field(default_factory=list)
    asked_ul: dict[str, float] = field(default_factory=dict)
    booked_ul: dict[str, float] = field(default_factory=dict)
    doubt_ul: dict[str, float] = field(default_factory=dict)
    """Standard deviation of what was booked."""
    moved_ul: dict[str, float] = field(default_factory=dict)
    """What really went through the line, as the lab says."""
    accepted_ul: dict[str, float] = field(default_factory=dict)
    """What may be missing of the requests for which the run was held, and that an operator has accepted."""
    doses: dict[str, int] = field(default_factory=dict)
    questions: int = 0
    holds: list[str] = field(default_factory=list)
    """Reasons for which the run was held, in addition to the recipe's own questions; an operator checked and resumed."""
    left_out: list[str] = field(default_factory=list)
    """Chambers that were left out, with an alarm: the outcome of a dose was not certain. Their further steps are missing."""
    killed: bool = False
    reached: bool = True
    """Whether the run had that row at all: how often a valve's leave is renewed, or a refusal met, varies a little."""
    real_s: float = 0.0
    problems: list[str] = field(default_factory=list)


class TrialFailed(Exception):
    """A process did not do what it should; the text says which, and where its words are."""


def trial(
    rig_path: Path, recipe: str, params: Mapping[str, str], boundary: Boundary | None, *, speed: float, folder: Path
) -> KillOutcome:
    """Run `recipe` to its end, through a kill at `boundary` if one is given; `folder` is new and keeps everything."""
    folder.mkdir(parents=True)
    begun_s = _now_s()
    outcome = KillOutcome(recipe, boundary.row if boundary else 0, boundary is not None and boundary.before)
    with contextlib.ExitStack() as stack:
        bench = _Bench(rig_path, folder, speed, stack)
        try:
            asked = bench.attend(recipe, params, boundary, outcome)
            truth = bench.truth()
        except (TrialFailed, UserError) as error:
            outcome.problems.append(str(error))
            asked, truth = None, None
    if truth is not None and asked is not None:
        _judge(outcome, rig_path, folder / "data", truth, asked)
    outcome.real_s = round(_now_s() - begun_s, 1)
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome), indent=1), encoding="utf-8")
    return outcome


def compare(outcome: KillOutcome, reference: KillOutcome) -> None:
    """Add to `outcome.problems` what the reference shows: a step that was lost, a question that was not asked."""
    if outcome.problems or not outcome.reached:
        return
    remaining = iter(outcome.verbs)
    lost = next((verb for verb in reference.verbs if verb not in remaining), None)
    if lost is not None and not outcome.left_out:
        outcome.problems.append(f"a step was lost: {lost}")
    if outcome.questions < reference.questions:
        outcome.problems.append(f"{reference.questions} questions, {outcome.questions} of them asked")


def weigh_up(outcome: KillOutcome) -> None:
    """Add to `outcome.problems` what the lab's truth tells of each line: a dose given twice or lost, or not as
    booked (A10).

    A dose may be missing only where the run was held for it, and only as far as an operator has accepted.
    """
    for line, moved_ul in outcome.moved_ul.items():
        asked_ul = outcome.asked_ul.get(line, 0.0)
        bound_ul = SIGMAS * outcome.doubt_ul.get(line, 0.0) + DRIP_UL
        max_ul = asked_ul * (1 + PUMP_REL) + DRIP_UL
        if moved_ul > max_ul:
            outcome.problems.append(f"{line}: {moved_ul:.0f} µL went through it, {max_ul:.0f} at the most: twice")
        min_ul = asked_ul * (1 - PUMP_REL) - bound_ul - outcome.accepted_ul.get(line, 0.0)
        if moved_ul < min_ul:
            outcome.problems.append(f"{line}: {moved_ul:.0f} µL went through it, {min_ul:.0f} at the least: lost")
        booked_ul = outcome.booked_ul.get(line, 0.0)
        if abs(moved_ul - booked_ul) > bound_ul:
            outcome.problems.append(
                f"{line}: {moved_ul:.0f} µL went through it, {booked_ul:.0f} are booked, beyond {bound_ul:.0f}"
            )


def _judge(outcome: KillOutcome, rig_path: Path, data: Path, truth: Mapping[str, Any], asked: Sequence[str]) -> None:
    """Read the journal that is left, and compare it with the truth."""
    rig = load_checked_rig(rig_path)
    lines = {name: _lines_of(route) for name, route in routes_of(rig).items()}
    entries, ledger = asyncio.run(_read_journal(rig, data))
    outcome.rows = _rows_of_runs(entries)
    outcome.questions = len(set(asked))
    _note_doses(outcome, entries)
    _note_bookings(outcome, entries, FlowPaths(rig))
    outcome.left_out = [entry.body["chamber"] for entry in entries if entry.kind == "note.chamber_left_out"]
    steps = {entry.body["n"]: entry.body for entry in entries if entry.kind == "step"}
    outcome.verbs += [entry.body["verb"] for entry in entries if entry.kind == "step"]
    _note_requests(outcome, entries, steps, lines)
    passed = dict.fromkeys(line for each in lines.values() for line in each)
    outcome.moved_ul = {line: round(truth["moved_ul"][line], 1) for line in passed}
    weigh_up(outcome)
    done = {entry.body["n"] for entry in entries if entry.kind == "step.done"}
    if open_steps := set(steps) - done:
        outcome.problems.append(f"steps without an end: {sorted(open_steps)}")
    _weigh_vessels(outcome, ledger, truth)


async def _read_journal(rig: Rig, data: Path) -> tuple[list[Entry], dict[str, tuple[float, float]]]:
    """Return the verified journal, and the volume of each vessel in its ledger with its standard deviation (µL)."""
    journal = Journal(data / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=False)
    try:
        journal.verify()
        entries = list(journal.entries())
        clock = Clock(follow_system=False, epoch=datetime.fromisoformat(entries[-1].utc))
        volumes = Ledger(rig, journal, clock).volumes()
        return entries, {name: (volume.ul, volume.sd_ul) for name, volume in volumes.items()}
    finally:
        journal.close()


def _rows_of_runs(entries: Sequence[Entry]) -> int:
    """Return the number of rows up to the last state of a run; later ones are no boundaries of the run."""
    rows, of_runs = 0, OfRuns()
    for entry in entries:
        of_runs.counts(entry.kind, entry.body, entry.run)
        if entry.kind == "run.state":
            rows = of_runs.rows
    return rows


def _note_doses(outcome: KillOutcome, entries: Sequence[Entry]) -> None:
    """Count the doses of each line; add a dose that was begun twice to the problems."""
    given: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "step.act":
            key = f"{entry.body['n']}.{entry.body['act']}"
            if key in given:
                outcome.problems.append(f"the dose {key} was begun twice")
            given[key] = entry.body["line"]
    for line in given.values():
        outcome.doses[line] = outcome.doses.get(line, 0) + 1


def _lines_of(route: Route) -> tuple[str, ...]:
    """Return the lines that a dose passes: through selectors several, so that a dose at a wrong port shows."""
    return (route.line,) if route.path is None else route.path.lines


def _note_bookings(outcome: KillOutcome, entries: Sequence[Entry], paths: FlowPaths) -> None:
    """Add up the booked volumes of each line with their standard deviation."""
    for entry in entries:
        if entry.kind != "moved":
            continue
        path = paths.selected(entry.body["line"], entry.body.get("ports"))
        for line in (entry.body["line"],) if path is None else path.lines:
            outcome.booked_ul[line] = outcome.booked_ul.get(line, 0.0) + entry.body["ul"]
            outcome.doubt_ul[line] = math.hypot(outcome.doubt_ul.get(line, 0.0), entry.body["sd_ul"])


def _note_requests(
    outcome: KillOutcome,
    entries: Sequence[Entry],
    steps: Mapping[int, Mapping[str, Any]],
    lines: Mapping[str, Sequence[str]],
) -> None:
    """Add up the requested volumes of each line, and what an operator accepted as missing."""
    accepted = {entry.body["n"] for entry in entries if entry.kind == "step.accepted"}
    low_ul: dict[int, float] = {}
    for entry in entries:
        if entry.kind == "moved":
            n = entry.body.get("n", 0)  # a stray flow is of no step
            low_ul[n] = low_ul.get(n, 0.0) + entry.body["low"]
    for n, step in steps.items():
        for line in lines.get(way_of_step(step["verb"], step["args"]), ()):
            asked_ul = step["args"]["volume_ul"]
            outcome.asked_ul[line] = outcome.asked_ul.get(line, 0.0) + asked_ul
            if n in accepted:
                short_ul = max(asked_ul - low_ul.get(n, 0.0), 0.0)
                outcome.accepted_ul[line] = outcome.accepted_ul.get(line, 0.0) + short_ul


def _weigh_vessels(outcome: KillOutcome, ledger: Mapping[str, tuple[float, float]], truth: Mapping[str, Any]) -> None:
    """Add to `outcome.problems` each vessel whose volume in the ledger is wrong by more than its uncertainty."""
    for vessel, (ul, sd_ul) in ledger.items():
        bound_ul = SIGMAS * sd_ul + DRIP_UL
        error_ul = ul - truth["volumes_ul"][vessel]
        if abs(error_ul) > bound_ul:
            outcome.problems.append(f"the ledger of {vessel} is off by {error_ul:.0f} µL, beyond {bound_ul:.0f} µL")


def _require_complete(view: Mapping[str, Any]) -> None:
    if view["state"] != "complete":
        raise TrialFailed(f"the run is {view['state']}")


class _Bench:
    """The processes of one trial."""

    def __init__(self, rig_path: Path, folder: Path, speed: float, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self._speed = speed
        self._stack = stack
        self._processes: list[Process] = []
        self._begun_s = time.time()  # noqa: TID251  (real processes)
        self.data = folder / "data"
        stack.callback(_end_guards, self.data / "guard.json")
        self._served = folder / "served.yaml"
        own = folder / "rig.yaml"
        own.write_text(_without_nerves(rig_path), encoding="utf-8")
        serve = partial(lab, own, host="127.0.0.1", base_port=0, pty=False, speed=speed, seed=SEED)
        serve = partial(serve, write=self._served, duration_s=None, as_json=False, by_hand=True)
        self._lab = self._start("lab", serve)
        self._until(lambda: self._served.exists() and self._served.stat().st_size > 0, "the lab serves", START_S)
        self._host: Process | None = None

    def attend(
        self, recipe: str, params: Mapping[str, str], boundary: Boundary | None, outcome: KillOutcome
    ) -> list[str]:
        """Follow the run to its end, doing at once what it asks a person for; return its questions."""
        endpoint = self._control(boundary)
        self._until(lambda: _awake(endpoint), "every device is answered", START_S)
        asked: list[str] = []
        body = {"protocol": recipe, "params": dict(params), "reason": "the kill matrix"}
        run = ""
        try:
            run = str(call(endpoint, "POST", "/api/runs", body)["id"])
        except (OSError, UserError) as error:
            if boundary is None:  # otherwise it may have died while it answered
                raise TrialFailed(f"the run was not begun: {error}") from None
        deadline_s = _now_s() + 60.0 + 6 * 3600.0 / self._speed
        while _now_s() < deadline_s:
            if self._has_died(boundary, outcome):
                outcome.killed = True
                endpoint = self._control(None)
            try:
                if self._attended(endpoint, run, boundary, outcome, asked):
                    self._settle()
                    return asked
            except (OSError, UserError, ClientError):
                pass  # it died during the request: the next round detects it
            time.sleep(POLL_S)  # noqa: TID251  (real processes)
        raise TrialFailed(f"the run did not come to its end; see {self._folder.name}")

    def _has_died(self, boundary: Boundary | None, outcome: KillOutcome) -> bool:
        """Return whether the controller has just been killed at `boundary`; any other end fails the trial."""
        host = self._host
        if host is None or host.returncode is None:
            return False
        if host.returncode != -signal.SIGKILL or boundary is None or outcome.killed:
            raise TrialFailed(f"the controller ended by itself ({host.returncode}); see {self._folder.name}")
        return True

    def _attended(
        self,
        endpoint: dict[str, str],
        run: str,
        boundary: Boundary | None,
        outcome: KillOutcome,
        asked: list[str],
    ) -> bool:
        """Look at the run once and let a held one go on; add its questions to `asked`. Return whether it has ended."""
        runs = call(endpoint, "GET", "/api/runs")["runs"]
        if not runs and outcome.killed:
            self._require_last_complete()
            return True
        view = next((each for each in runs if each["id"] == run or not run), None)
        if view is None:
            return False
        if view["ended"]:
            _require_complete(view)
            outcome.reached = boundary is None or outcome.killed
            return True
        if view["state"] == "held":
            self._resume(endpoint, view, outcome, asked)
        return False

    def _resume(
        self, endpoint: dict[str, str], view: Mapping[str, Any], outcome: KillOutcome, asked: list[str]
    ) -> None:
        """Answer or resume a held run; add its new questions to `asked`, or its message to the outcome's holds."""
        messages = view["messages"] or ["nothing was said"]
        questions = [each for each in messages if each.startswith("step ") and each not in asked]
        asked += questions
        if answer(endpoint, view, self.data):
            return
        if not questions:
            outcome.holds.append(messages[-1])
        if len(outcome.holds) > MAX_HOLDS:
            raise TrialFailed(f"the run is held again and again: {messages[-1]}")
        call(endpoint, "POST", f"/api/runs/{view['id']}/resume", {"reason": "done as asked"})

    def _require_last_complete(self) -> None:
        """Require a complete run in the journal. The API lists only the runs that the controller has taken up: a run
        that was killed just after its last row is missing there.
        """
        if self._last_state() != RunState.COMPLETE:
            raise TrialFailed("the run is not on record any more")

    def _last_state(self) -> str | None:
        """Return where the journal leaves the run."""
        journal = JournalReader(self.data / "journal.db")
        try:
            states = [entry.body["to"] for entry in journal.entries(kinds=("run.state",))]
        finally:
            journal.close()
        return states[-1] if states else None

    def truth(self) -> dict[str, Any]:
        """Return what the lab says is really so."""
        log = self._folder / "lab.log"
        before = log.stat().st_size
        self._lab.tell("truth")
        self._until(lambda: log.stat().st_size > before and log.read_bytes().endswith(b"}\n"), "the truth", ANSWER_S)
        found: dict[str, Any] = json.loads(log.read_bytes()[before:].splitlines()[-1])
        return found

    def _settle(self) -> None:
        """The controller ends in order, so that its journal is whole and its guard goes."""
        if self._host is not None and not self._host.terminate(START_S):
            raise TrialFailed(f"the controller does not end; see host.log in {self._folder.name}")

    def _control(self, boundary: Boundary | None) -> dict[str, str]:
        """Start the controller; where it answers."""
        row, before = (0, False) if boundary is None else (boundary.row, boundary.before)
        for _ in range(STARTS):  # as a service manager does: a start may fail for want of an answer in time
            found = self._started(row, before)
            if found is not None:
                return found
        raise TrialFailed(f"the controller did not start; see host.log in {self._folder.name}")

    def _started(self, row: int, before: bool) -> dict[str, str] | None:
        host = self._host = self._start(
            "host",
            partial(
                controller, self._served, self.data, speed=self._speed, begun_s=self._begun_s, row=row, before=before
            ),
        )
        found: dict[str, str] = {}

        def answers() -> bool:
            if host.returncode is not None:
                return True
            with contextlib.suppress(OSError, ValueError, UserError):
                endpoint = json.loads((self.data / ENDPOINT).read_text(encoding="utf-8"))
                if endpoint["pid"] == host.pid and call(endpoint, "GET", "/health")["ok"]:
                    found.update(endpoint)
            return bool(found)

        self._until(answers, "the controller answers", START_S)
        return found or None

    def _start(self, name: str, work: Callable[[], object]) -> Process:
        process = Process(name, work, self._folder)
        self._processes.append(process)
        self._stack.callback(process.end)
        return process

    def _until(self, true: Callable[[], bool], what: str, seconds: float) -> None:
        if not comes_true(true, seconds, self._alive):
            raise TrialFailed(f"it did not come to pass within {seconds:g} s: {what}; see {self._folder.name}")

    def _alive(self) -> list[int]:
        pids = [process.pid for process in self._processes if process.returncode is None]
        return [pid for pid in pids if pid is not None]


def _awake(endpoint: dict[str, str]) -> bool:
    """Return whether the controller has answered every device: until then a run would ask a person for values that
    are not measured yet.
    """
    with contextlib.suppress(OSError, UserError):
        state = call(endpoint, "GET", "/api/state")
        answered = all(output["status"] is not None for output in state["actuators"].values())
        return answered and all(reading["quality"] == "good" for reading in state["readings"].values())
    return False


def _end_guards(plan: Path) -> None:
    """End this trial's guards, which a killed controller could not end: they would look for the lab's ports for an hour,
    and another lab may get these.
    """
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(plan) in words.read_bytes().split(b"\0"):
                os.kill(int(words.parent.name), signal.SIGKILL)


def _without_nerves(path: Path) -> str:
    """Return the rig file's text without an electrode array: its engine is a process of its own, and no recipe uses
    it.
    """
    description: dict[str, Any] = load_yaml(path.read_text(encoding="utf-8"))
    description.pop("nerves", None)
    return yaml.safe_dump(description, sort_keys=False, allow_unicode=True)


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251  (real processes)
