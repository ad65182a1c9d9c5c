"""`choroid plan`: the dry run is a run. The protocol runs on paper, then on the twin in virtual time (E5).

On paper (controller/runs/rehearsal.py) it is seen in an instant whether any vessel would run dry or over; what is
refused there, `choroid run` refuses as well. The twin is the whole stack on the simulated lab: its journal is the plan,
with grades and what readings decide. With `data`, both begin where the rig's own journal ends; else at the rig file.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.simulation.gantt import gantt
from choroid.simulation.respondent import assumed_lines
from choroid.simulation.simulate import EPOCH, StartPoint, simulate
from choroid.simulation.timeline import within
from controller.core.clock import Clock
from controller.core.database import copy_database, open_to_read
from controller.core.run_states import RunState
from controller.core.state import Volume
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.ledger.flow_paths import FlowPaths
from controller.ledger.ledger import Ledger
from controller.memory.calibrations import FILE
from controller.recipes.on_rig import check_on, preferred
from controller.recipes.parameters import parse_params
from controller.rig.description import Medium, Rig
from controller.rig.organ_lines import fresh_medium
from controller.rig.perfusion import circulating
from controller.runs.chosen import chosen
from controller.runs.paper import Rehearsed
from controller.runs.rehearsal import HOURS, rehearse
from controller.upkeep.upkeep import Upkeep
from drivers.registry import MODELS
from protocols.language import Lab
from protocols.registry import Recipe
from protocols.soft_sensor import MediaEstimate
from sim.virtual_time import run_virtual

ML = 1000.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Present:
    """Where a rig stands: volumes, what the soft sensor last said, and when that was."""

    volumes: dict[str, Volume]
    estimate: MediaEstimate | None
    at: datetime


def plan(
    path: Path,
    *,
    protocol: str | None = None,
    params: dict[str, str],
    hours: float,
    seed: int,
    data: Path | None = None,
    svg: Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Return `{feasible, refusals, timeline, steps, volumes, run_out, grades, sterile, …}` of the next `hours`.

    Without a `protocol`, that of :func:`controller.recipes.on_rig.preferred` is planned.
    `data` is the data directory of the rig's controller (running or not); it is only read. Without it, the calibrations of
    a rig whose pumps want records are not looked at. `svg` is where a picture of
    the steps is written. `progress`: print it on standard error. Raises what a start would raise for a protocol that is not
    sound.
    """
    rig = load_checked_rig(path, models=MODELS)
    protocol = protocol or preferred(rig)
    recipe = chosen(protocol, rig)
    values = parse_params(recipe, params)
    check_on(recipe, rig, values)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="choroid-plan-")))
        if data is not None:
            _copy_records(data, folder)
        looking = data is not None or rig.factory_calibrated
        present, paper = run_virtual(_on_paper(rig, recipe, values, folder, hours, looking))
        answer: dict[str, Any] = {
            "rig": rig.name,
            "protocol": recipe.name,
            "params": values,
            "hours": hours,
            "from": "the journal" if data is not None else "the rig file",
            "at": present.at.isoformat(timespec="seconds"),
            "calibrations": looking,
        }
        if paper.breaches:
            answer |= _paper_story(rig, present, paper)
        else:
            twin = _on_simulated_links(rig, trusting=rig.factory_calibrated or not looking)
            start = StartPoint(folder, present.at, twin, _as_present(twin, present) if data is not None else twin)
            answer |= _twin_story(path, rig, protocol, params, hours, seed, start, progress)
            for name, volume in answer["volumes"].items():
                if volume["in_ml"] == volume["out_ml"] == 0.0:  # it changes by evaporation only
                    volume["start_ml"] = round(present.volumes[name].ul / ML, 3)
    answer["run_out"] = _run_out(rig, answer["volumes"], answer["looked_h"])
    answer["sterile"] = _sterile(rig, answer["steps"])
    answer["has_kidney"] = rig.organs.kidney is not None
    answer["feasible"] = not answer["refusals"] and not answer["violations"]
    if svg is not None:
        _draw(svg, rig, answer)
    return answer


def _draw(svg: Path, rig: Rig, answer: Mapping[str, Any]) -> None:
    title = f"{answer['protocol']} on {rig.name}, {answer['looked_h']:.3g} h"
    filtered = [name for name, line in rig.lines.items() if line.filter is not None]
    drawn = gantt(title, answer["steps"], span_s=answer["looked_h"] * 3600.0, sterile=filtered)
    svg.write_text(drawn, encoding="utf-8")


def _copy_records(data: Path, folder: Path) -> None:
    """Copy the journal of a data directory, and its calibrations if it has any."""
    copied(data, folder)
    if (data / FILE).is_file():
        shutil.copy(data / FILE, folder)


def copied(data: Path, folder: Path) -> None:
    """A copy of a journal that may be in use: the twin goes on writing where the rig has come to."""
    source = data / "journal.db"
    if not source.is_file():
        raise UserError(
            f"there is no journal in {data}. Likely cause: no controller has run with this --data. Next: name the right"
            " directory, or leave --data out to plan from the rig file"
        )
    copy_database(source, folder / "journal.db")


async def _on_paper(
    rig: Rig, recipe: Recipe, values: dict[str, float], folder: Path, hours: float, looking: bool
) -> tuple[Present, Rehearsed]:
    """Read where the rig stands off the copied journal (or the rig file), and rehearse from there. `looking`: at
    calibrations too.
    """
    asyncio.get_running_loop()
    epoch = _last_utc(folder / "journal.db") or EPOCH
    clock = Clock(follow_system=False, epoch=epoch)
    copy = (folder / "journal.db").exists()
    journal = Journal(folder / "journal.db" if copy else folder / "paper.db", clock, durable=False)
    try:
        ledger = Ledger(rig, journal, clock)
        last = journal.last("estimate")
        estimate = None if last is None else MediaEstimate.from_json(last.body["estimate"])
        present = Present(ledger.volumes(), estimate, epoch)
        _end_runs(journal)
        upkeep = Upkeep(rig, journal=journal, clock=clock, data=folder) if looking else None
        paper = await rehearse(
            recipe,
            rig,
            values,
            volumes=present.volumes,
            estimate=estimate,
            calibrated=None if upkeep is None else upkeep.refusal,
            now=epoch,
            hours=max(hours, HOURS),
        )
        return present, paper
    finally:
        journal.close()


def _last_utc(path: Path) -> datetime | None:
    if not path.exists():
        return None
    with contextlib.closing(open_to_read(path)) as db:
        row = db.execute("SELECT utc FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return None if row is None else datetime.fromisoformat(row[0]).astimezone(UTC)


def _end_runs(journal: Journal) -> None:
    """In the copy, what is under way is over: the plan is that of the protocol asked for."""
    states: dict[str, str] = {}
    for row in journal.entries(kinds=("run.start", "run.state")):
        if row.run is not None:
            states[row.run] = row.body.get("to", RunState.IDLE.value)
    for run, state in states.items():
        if not RunState(state).ended:
            body = {"event": "abort", "from": state, "to": RunState.ABORTED.value, "user": "plan", "reason": "a copy"}
            journal.append("run.state", body, run=run)


def _as_present(rig: Rig, present: Present) -> Rig:
    """The rig description with today's volumes and, as far as the soft sensor tells, today's medium in the loop."""
    media = dict(rig.media)
    contents: dict[str, str] = {}
    kidney, estimate = rig.organs.kidney, present.estimate
    feed = fresh_medium(rig)
    if kidney is not None:
        contents[kidney.waste] = feed  # the volume of the waste matters, its contents do not
    if estimate is not None:
        fresh = rig.media[feed]
        found_in = [("present_loop", estimate.loop, circulating(rig))]
        if kidney is not None and estimate.spent is not None:
            found_in.append(("present_spent", estimate.spent, (kidney.vessel,)))
        for name, found, holders in found_in:
            told = {key: getattr(found, key).value for key in type(found).__dataclass_fields__}
            media[name] = Medium.model_construct(**{**dict(fresh), **told})
            contents |= dict.fromkeys(holders, name)
    vessels = {
        name: vessel.model_copy(
            update={"volume_ul": max(present.volumes[name].ul, 0.0), "contains": contents.get(name, vessel.contains)}
        )
        for name, vessel in rig.vessels.items()
    }
    return rig.model_copy(update={"vessels": vessels, "media": media})


def _on_simulated_links(rig: Rig, *, trusting: bool) -> Rig:
    """The twin of a real rig: the same devices on the same buses, in software. Its pumps want their records as the rig's
    own do, unless `trusting`.
    """
    links = {link: f"sim:twin{n}" for n, link in enumerate(dict.fromkeys(d.link for d in rig.devices.values()))}
    if rig.simulated:
        return rig
    devices = {name: device.model_copy(update={"link": links[device.link]}) for name, device in rig.devices.items()}
    upkeep = rig.upkeep.model_copy(update={"calibration": "factory" if trusting else "required"})
    return rig.model_copy(update={"devices": devices, "upkeep": upkeep})


def _twin_story(
    path: Path,
    rig: Rig,
    protocol: str,
    params: dict[str, str],
    hours: float,
    seed: int,
    start: StartPoint,
    progress: bool,
) -> dict[str, Any]:
    found = simulate(
        path,
        protocol=protocol,
        params=params,
        days=hours / 24,
        seed=seed,
        progress=progress,
        timeline=True,
        start=start,
    )
    kept = ("timeline", "steps", "grades", "volumes", "violations", "assumed")
    grades = [entry["grade"] for entry in found["grades"]]
    refusals = [entry for entry in found["timeline"] if entry["kind"] == "refused"]
    return {
        **{key: found[key] for key in kept},
        "grade_counts": {letter: grades.count(letter) for letter in "ABCD"},
        "fresh_medium_ml": _fresh_ml(rig, found["steps"]),
        "refusals": refusals,
        "looked_h": hours,
    }


def _fresh_ml(rig: Rig, steps: Sequence[Mapping[str, Any]]) -> float:
    """Return the fresh medium (mL) that came through the feed line."""
    gut = rig.organs.gut
    doses = () if gut is None else (float(step.get("ml", 0.0)) for step in steps if step.get("line") == gut.feed)
    return round(sum(doses), 3)


def _paper_story(rig: Rig, present: Present, paper: Rehearsed) -> dict[str, Any]:
    """What is known of a run that is refused: its course on paper, up to where it would be stopped."""
    steps: list[dict[str, Any]] = []
    into, out = dict.fromkeys(rig.vessels, 0.0), dict.fromkeys(rig.vessels, 0.0)
    timeline: list[dict[str, Any]] = []
    paths = FlowPaths(rig)
    for name, ul in paper.passed_ul.items():
        (into if ul > 0.0 else out)[name] += abs(ul)
    for event in paper.events:
        step: dict[str, Any] = {"n": event.n, "verb": event.verb, "begin_s": event.begin_s, "end_s": event.end_s}
        step |= {"text": event.text, "branch": event.branch}
        if event.line:
            step |= {"ml": event.ul / ML, "line": event.line, "from": event.source, "to": event.target}
            for name, share in paths.full(event.line).items():
                (into if share > 0.0 else out)[name] += abs(share) * event.ul
            text = f"{event.line}: {event.ul / ML:.2f} mL, {event.source} → {event.target}"
            timeline.append({"at_s": round(event.begin_s, 1), "kind": "step", "text": within(event.branch, text)})
        elif event.verb == Lab.sleep_until_clock.name:
            text = within(event.branch, f"wait until {event.text}")
            timeline.append({"at_s": round(event.begin_s, 1), "kind": "step", "text": text})
        steps.append(step)
    refusals = [{"at_s": round(paper.seconds, 1), "kind": "refused", "text": breach} for breach in paper.breaches]
    volumes = {
        name: {
            "start_ml": round(present.volumes[name].ul / ML, 3),
            "end_ml": round(paper.volumes[name].ul / ML, 3),
            "in_ml": round(into[name] / ML, 3),
            "out_ml": round(out[name] / ML, 3),
        }
        for name in rig.vessels
    }
    return {
        "timeline": [*timeline, *refusals],
        "steps": steps,
        "grades": [],
        "grade_counts": dict.fromkeys("ABCD", 0),
        "volumes": volumes,
        "fresh_medium_ml": _fresh_ml(rig, steps),
        "violations": [],
        "assumed": [
            {
                "at_s": round(each.at_s, 1),
                "step": each.n,
                "message": each.message,
                "answer": each.form.text(each.form.assumed),
                "because": each.form.assumed_because,
            }
            for each in paper.assumed
        ],
        "refusals": refusals,
        "looked_h": paper.seconds / 3600.0,
    }


def _run_out(rig: Rig, volumes: dict[str, dict[str, float]], hours: float) -> list[dict[str, Any]]:
    """When each bottle is down to its floor, and the waste full, if it goes on at the rate of this plan."""
    found = []
    for name, vessel in rig.vessels.items():
        moved = volumes[name]
        if vessel.kind == "source":
            rate, left_ml, what = moved["out_ml"] - moved["in_ml"], moved["end_ml"] - vessel.floor_ul / ML, "empty"
        elif vessel.kind == "waste":
            rate, left_ml, what = moved["in_ml"] - moved["out_ml"], vessel.limit_ul / ML - moved["end_ml"], "full"
        else:
            continue
        if rate > 0 and hours > 0:
            at_h = hours + left_ml / (rate / hours)
            found.append({"vessel": name, "what": what, "ml_d": round(rate / hours * 24, 2), "hours": round(at_h, 1)})
    return found


def _sterile(rig: Rig, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every moment at which the sterile barrier is at stake: the return valve open, or a person at the rig."""
    found = []
    for step in steps:
        line = rig.lines.get(step.get("line", ""))
        if line is not None and line.filter is not None:
            text = f"{line.valve or 'the line'} open, {step['ml']:.2f} mL through the filter “{line.filter}”"
        elif step["verb"] == Lab.ask.name:
            text = "a person is asked to act at the rig"
        else:
            continue
        found.append({"begin_s": step["begin_s"], "end_s": step["end_s"], "text": text})
    return found


def as_text(answer: dict[str, Any]) -> str:
    """Return the plan as text: the timeline, the volumes, when bottles run out, what is expected, and the verdict."""
    lines = [f"{answer['protocol']} on {answer['rig']}, the next {answer['hours']:g} h, from {answer['from']}"]
    if not answer["calibrations"]:
        lines.append(
            "calibrations were not looked at: their records are in the controller's directory, named by --data"
        )
    for entry in answer["timeline"]:
        lines.append(f"  {_clock(entry['at_s'])}  {entry['text']}")
    lines += _volume_lines(answer)
    lines += _expected_lines(answer)
    lines += assumed_lines(answer["assumed"])
    lines += [f"REFUSED at {_clock(entry['at_s']).strip()}: {entry['text']}" for entry in answer["refusals"]]
    lines += [f"VIOLATION {text}" for text in answer["violations"]]
    verdict = "nothing would be refused" if answer["feasible"] else "the run would be refused or harmed; see above"
    lines.append(verdict)
    return "\n".join(lines)


def _volume_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the volumes of each vessel, and when a vessel runs empty or full."""
    lines = ["vessel (mL)      start       in      out      end"]
    for name, vessel in answer["volumes"].items():
        lines.append(
            f"  {name:<12}{vessel['start_ml']:>8.2f} {vessel['in_ml']:>8.2f} {vessel['out_ml']:>8.2f}"
            f" {vessel['end_ml']:>8.2f}"
        )
    for entry in answer["run_out"]:
        days = entry["hours"] / 24
        lines.append(f"{entry['vessel']} {entry['what']} in {days:.1f} d at this rate ({entry['ml_d']:g} mL a day)")
    return lines


def _expected_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the expected grades, when the sterile barrier is passed, and the use of fresh medium."""
    lines = []
    for entry in answer["grades"]:
        between = entry["grade"] if entry["at_best"] == entry["grade"] else f"{entry['at_best']} to {entry['grade']}"
        lines.append(
            f"grade at {_clock(entry['at_s']).strip()}: {between}, limited by {entry['limiting']}"
            f" (confidence {entry['confidence']:.2f})"
        )
    for entry in answer["sterile"]:
        span = f"{_clock(entry['begin_s']).strip()} to {_clock(entry['end_s']).strip()}"
        lines.append(f"sterile barrier {span}: {entry['text']}")
    if answer["has_kidney"]:
        lines.append(f"fresh medium {answer['fresh_medium_ml']:.1f} mL")
    return lines


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:>3}:{minutes:02}:{rest:02}"
