"""`choroid simulate`: the whole, unchanged stack on the simulated lab, in virtual time.

Controller, drivers and protocols are those of a real run; only the loop and the links differ. The answer compares
the controller's estimates (ledger, grades, score) with the plant's truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.cameras.engines import inline_cameras
from choroid.common.failure import UserError
from choroid.common.progress import show_share
from choroid.simulation.figures import figures
from choroid.simulation.rates import RateNerves
from choroid.simulation.respondent import Respondent, assumed_lines
from choroid.simulation.technician import ASSAYABLE, ASSAYED, MIN_ASSAY_D, Technician
from choroid.simulation.timeline import story
from choroid.simulation.twin import plant_of
from choroid.tools.recording import recorded
from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_cameras, with_nerves
from controller.recipes.on_rig import check_on, preferred
from controller.recipes.parameters import parse_params
from controller.rig.description import Rig
from controller.runs.chosen import chosen
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.plant.parameters import PlantParameters
from sim.virtual_time import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Start of virtual UTC: fixed, so that the same seed gives the same journal."""

DAY_S = 86_400.0

MAX_CHAMBERS = 8
"""Maximum number of chambers whose medium the text shows."""

Watch = Callable[[float, SimulatedLab, Controller], None]


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Start of a simulation that continues a rig's own journal (`choroid plan`)."""

    data: Path
    """Directory with a copy of the journal, or empty."""
    epoch: datetime
    """UTC of the journal's end."""
    rig: Rig
    """The rig as described, with simulated links."""
    lab_rig: Rig
    """The same with present volumes and media: the content of the simulated lab."""


def simulate(
    path: Path | str,
    *,
    protocol: str | None = None,
    params: Mapping[str, str] | None = None,
    days: float = 1.0,
    seed: int = 1,
    data: Path | str | None = None,
    progress: bool = False,
    timeline: bool = False,
    capture: Path | None = None,
    start: StartPoint | None = None,
    watch: Watch | None = None,
    tended: bool = False,
    assay_every_d: float | None = None,
    assayed: Sequence[str] = ASSAYED,
    on_request: bool = False,
    begin: datetime = EPOCH,
    tissue: str = "reference",
    microbes_per_ml: float = 0.0,
) -> dict[str, Any]:
    """Run a recipe on the simulated laboratory in virtual time, with the whole controller.

    The same seed gives the same journal, byte for byte. May be called from a notebook: where an event loop runs already, the
    simulation runs in a thread of its own and this call waits for it.

    Args:
        path: A rig file whose links are all simulated (`sim:`).
        protocol: Name or file of the recipe. Default: recycle, or on a rig that does not support it exchange or stand-by.
        params: Its parameters as text with their units, such as `{"batch": "18 mL"}`; the others keep their defaults.
        days: Simulated time (d).
        seed: Seed of everything that is drawn at random.
        data: Folder that keeps journal and history; by default they are discarded.
        progress: Whether to print the progress on standard error.
        timeline: Whether the answer tells every step and decision.
        capture: File that keeps every byte of every link.
        start: Where to begin instead of at the rig file (`choroid plan`).
        watch: Called once an hour of simulated time with the seconds since the beginning, laboratory and controller.
        tended: Whether a technician comes once a day and does what the alarms ask for; without one no bottle is changed.
        assay_every_d: Days from one assay by the technician to the next; None: no assays.
        assayed: Analytes of these assays, of :data:`choroid.simulation.technician.ASSAYABLE`.
        on_request: Whether the technician also makes the assays that the recycler requests.
        begin: Date and time at which the simulation begins; the same for the same journal.
        tissue: Kind of the plant's tissue (:data:`sim.plant.tissue_models.MODELS`), or the file that `choroid fit --out`
            wrote.
        microbes_per_ml: Microbes in the medium around the tissue at the start (CFU/mL): an infection.

    Returns:
        The figures that `choroid simulate --json` prints: what the controller believes, and what is true in the plant.
        `wall_s` and `cpu_s` are the elapsed and the processor time of the run (s, all threads of the process), `speed` and
        `speed_per_cpu` the simulated time divided by each.

    Raises:
        UserError: The rig has real links, the tissue is unknown, or assays are asked for without a technician or a loop.
        RigError: The rig file is not sound.
    """
    if assay_every_d is not None and not (tended and assay_every_d > 0.0):
        raise UserError(
            "an assay needs a technician who takes the sample, and time in between. Next: --tended --assay-every 7"
        )
    if on_request and not tended:
        raise UserError(
            "an assay that the recycler requests needs a technician who makes it. Next: --tended --assays-on-request"
        )
    if assay_every_d is not None and assay_every_d < MIN_ASSAY_D:
        raise UserError(
            "a technician looks at the rig once an hour. Next: --assay-every with 0.042 days (an hour) or more"
        )
    if unknown := [name for name in assayed if name not in ASSAYABLE]:
        raise UserError(
            f"{', '.join(unknown)} cannot be assayed in a simulation. Next: choose among {', '.join(ASSAYABLE)}"
        )
    plant = plant_of(tissue)
    rig = _simulated_rig(path, start)
    if assay_every_d is not None and rig.loop is None:
        raise UserError(f"{rig.name} has no loop whose medium could be assayed. Next: leave --assay-every out")
    protocol = protocol or preferred(rig)
    recipe = chosen(protocol, rig)
    check_on(recipe, rig, parse_params(recipe, dict(params or {})))
    kept = None if data is None else Path(data)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    started, started_cpu = time.perf_counter(), time.process_time()  # noqa: TID251  (the real cost is the figure asked for)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_rarely_collected())
        folder = (
            start.data
            if start is not None
            else kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="choroid-")))
        )
        work = functools.partial(
            _run,
            rig,
            protocol,
            dict(params or {}),
            days,
            seed,
            folder,
            progress,
            timeline,
            capture,
            start,
            watch,
            tended,
            assay_every_d,
            assayed,
            on_request,
            begin if start is None else start.epoch,
            plant,
            microbes_per_ml,
        )
        answer = _on_a_loop(work)
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu  # noqa: TID251
    answer |= {"wall_s": round(wall_s, 3), "speed": round(answer["simulated_s"] / wall_s, 1)}
    answer |= {"cpu_s": round(cpu_s, 3), "speed_per_cpu": round(answer["simulated_s"] / cpu_s, 1)}
    return answer


def _on_a_loop(work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """Run `work` on a loop of virtual time; in a thread of its own where this one has a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_virtual(work())
    with ThreadPoolExecutor(1, "choroid simulate") as thread:
        return thread.submit(lambda: run_virtual(work())).result()


@contextlib.contextmanager
def _rarely_collected() -> Iterator[None]:
    """Disable the cyclic garbage collector: a run makes millions of objects, almost none of them in cycles.

    `_run` calls it once per simulated hour; by default it would take 8 % of the time.
    """
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _simulated_rig(path: Path | str, start: StartPoint | None) -> Rig:
    """Return the rig of `start`, or of the file; raise :class:`UserError` for a rig with real links."""
    rig = load_checked_rig(Path(path), models=MODELS) if start is None else start.rig
    if not rig.simulated:
        raise UserError(
            f"{path} has real links, and a simulation never opens these. Next: simulate a rig whose links are all sim:"
        )
    return rig


async def _run(
    rig: Rig,
    protocol: str,
    params: dict[str, str],
    days: float,
    seed: int,
    data: Path,
    progress: bool,
    timeline: bool,
    capture: Path | None,
    start: StartPoint | None,
    watch: Watch | None,
    tended: bool,
    assay_every_d: float | None,
    assayed: Sequence[str],
    on_request: bool,
    begin: datetime,
    plant: PlantParameters,
    microbes_per_ml: float,
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    lab = SimulatedLab(rig if start is None else start.lab_rig, seed=seed, parameters=plant)
    if microbes_per_ml > 0.0:
        lab.plant.faults.contamination |= dict.fromkeys(
            rig.tissue if rig.loop is None else (rig.loop,), microbes_per_ml
        )
    electrodes = rig.nerves.electrodes if rig.nerves else 0
    nerves = RateNerves(lab.plant, electrodes=electrodes, seed=seed) if electrodes else None
    clock = Clock(follow_system=False, epoch=begin.astimezone(UTC))
    recording = contextlib.ExitStack()
    opener = recording.enter_context(recorded(capture, rig, lab.opener))
    controller = Controller(
        rig=rig,
        opener=opener,
        storage=Storage(data, durable=False),
        clock=clock,
        parts=(
            with_nerves(nerves),
            with_cameras(inline_cameras(rig, lab)),
        ),
    )
    respondent = Respondent(controller, lab, user="simulate", only_answers=tended)
    technician = (
        Technician(lab, controller, seed=seed, assay_every_d=assay_every_d, assayed=assayed, on_request=on_request)
        if tended
        else None
    )
    row = controller.journal.next_seq - 1
    begin_s = loop.time()
    stop = asyncio.Event()
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        attending = asyncio.create_task(respondent.attend())
        run_id = await controller.runs.start(chosen(protocol, rig), params, user="simulate", reason="choroid simulate")
        await _pass_time(lab, controller, ticking, technician, watch, begin_s=begin_s, days=days, progress=progress)
        answer = figures(lab, controller, run_id)
        answer["tended"] = technician.done if technician is not None else None
        answer["assumed"] = respondent.assumed
        if timeline:
            answer |= story(controller, rig, after=row)
        if attending.done():
            attending.result()  # a defect of the simulated person must not pass for an unanswered run
        attending.cancel()
        stop.set()
        await ticking
    finally:
        await controller.close()
        await lab.close()
        recording.close()
    answer |= {"simulated_s": round(loop.time() - begin_s, 3), "seed": seed, "protocol": protocol, "rig": rig.name}
    return answer


def _rated(answer: dict[str, Any], name: str) -> str:
    """Return a score with range and coverage: while little has been measured it is low whatever the rig's state."""
    known = answer[f"{name}_of_known"]
    return (
        f"{answer[f'{name}_low']:.3f} to {answer[f'{name}_high']:.3f} possible, score {answer[name]:.3f},"
        f" coverage {answer[f'{name}_confidence']:.2f}, of what is known {'nothing' if known is None else f'{known:.3f}'}"
    )


async def _pass_time(
    lab: SimulatedLab,
    controller: Controller,
    ticking: asyncio.Task[None],
    technician: Technician | None,
    watch: Watch | None,
    *,
    begin_s: float,
    days: float,
    progress: bool,
) -> None:
    """Let `days` pass, counted from `begin_s`, in steps of an hour, or until the controller ends."""
    loop = asyncio.get_running_loop()
    end_s = begin_s + days * DAY_S
    while loop.time() < end_s and not ticking.done():
        await asyncio.sleep(min(end_s - loop.time(), DAY_S / 24))
        gc.collect()
        if technician is not None:
            await technician.update(loop.time() - begin_s)
        if watch is not None:
            watch(loop.time() - begin_s, lab, controller)
        if progress:
            show_share((loop.time() - begin_s) / (end_s - begin_s), f"{days:g} d")


def as_text(answer: dict[str, Any]) -> str:
    """Return the figures as text."""
    return "\n".join([*_result_lines(answer), *_decision_lines(answer), *_event_lines(answer)])


def _result_lines(answer: dict[str, Any]) -> list[str]:
    """Return the scores, the grades, the balance of medium, the alarms and the journal."""
    return [
        f"{answer['protocol']} on {answer['rig']}, seed {answer['seed']}: {answer['simulated_s'] / DAY_S:g} d"
        f" in {answer['wall_s']:.1f} s ({answer['speed']:,.0f} × real time)",
        f"  cost          {answer['cpu_s']:.1f} s of processor time ({answer['speed_per_cpu']:,.0f} × real time),"
        f" {answer['transactions']:,} requests on the wire",
        *_score_lines(answer),
        *_medium_lines(answer),
        f"  mass balance  worst in {answer['mass_balance_vessel']}: {answer['mass_balance_error_ml']:+.3f}"
        f" ± {answer['mass_balance_uncertainty_ml']:.3f} mL",
        f"  alarms        {answer['alarms']} raised, active: {', '.join(answer['alarms_active']) or 'none'}",
        f"  journal       {answer['journal_rows']:,} rows, sha256 {answer['journal_sha256']}",
    ]


def _score_lines(answer: dict[str, Any]) -> list[str]:
    """Return the scores; of a rig without scores, the reason."""
    true = f"true {answer['viability_true']:.3f}"
    if answer["unscored"]:
        return [f"  viability     not scored: {answer['unscored']}; {true}"]
    if answer["viability"] is None:
        first = [f"  viability     not estimated yet; {true}"]
    else:
        interval = f"{answer['viability_low']:.2f} to {answer['viability_high']:.2f}, median {answer['viability']:.2f}"
        said = (f"                {each}" for each in answer["viability_sentences"])
        first = [f"  viability     {interval}; {true}", *said]
    return [
        *first,
        f"  care rating   {_rated(answer, 'care_rating')}",
        f"  welfare       {_rated(answer, 'welfare')}",
        f"  “happiness”   {_rated(answer, 'happiness')}",
        "                missing counts as failed in the score; care-quality proxies, not evidence of feeling",
    ]


def _saved(answer: dict[str, Any]) -> str:
    """Return the fresh medium that was saved against the scheduled exchange; empty in the first day."""
    saved = answer["saved_fraction"]
    return "" if saved is None else f"; {saved:.0%} of the {answer['scheduled_ml']:.0f} mL of daily exchange saved"


def _medium_lines(answer: dict[str, Any]) -> list[str]:
    """Return the grades and the turnover of a rig that has a kidney, and the true composition of the medium."""
    lines = []
    if answer["has_kidney"]:
        grades = ", ".join(f"{letter} {count}" for letter, count in answer["grade_counts"].items() if count) or "none"
        lines = [
            f"  grades        {grades}",
            f"  medium        fresh {answer['fresh_medium_ml']:.1f} mL, recycled {answer['recycled_ml']:.1f} mL"
            f", discarded {answer['discarded_ml']:.1f} mL{_saved(answer)}",
        ]
    if answer["true_loop"] is not None:
        lines.append(f"  loop (true)   {_composition(answer['true_loop'])}")
    return [*lines, *_chamber_lines(answer)]


def _chamber_lines(answer: dict[str, Any]) -> list[str]:
    """Return the true state of each chamber; of many, that of those with the lowest viability."""
    chambers = answer["true_chambers"]
    if len(chambers) == 1 and answer["true_loop"] is not None:
        return []  # the loop's medium is that of its chamber
    worst = sorted(chambers, key=lambda name: chambers[name]["viability"])[:MAX_CHAMBERS]
    lines = [
        f"  {name[:13]:<14}{_composition(each)}, true viability {each['viability']:.3f}"
        for name, each in chambers.items()
        if name in worst
    ]
    if len(chambers) > len(worst):
        lines.append(f"                and {len(chambers) - len(worst)} chambers with a viability as high or higher")
    return lines


def _composition(medium: dict[str, Any]) -> str:
    return (
        f"lactate {medium['lactate_mm']:.2f} mM, ammonia {medium['ammonia_mm']:.3f} mM,"
        f" glucose {medium['glucose_mm']:.1f} mM, pH {medium['ph']:.2f}, {medium['osmolality_mosm']:.0f} mOsm/kg"
    )


def _decision_lines(answer: dict[str, Any]) -> list[str]:
    """Return the decisions about batches of medium and what they consumed; nothing without a decision."""
    if not answer["actions"]:
        return []
    done = ", ".join(f"{action} {count}" for action, count in sorted(answer["actions"].items()))
    return [
        f"  decisions     {done}; stocks {answer['stocks_ml']:.1f} mL, dialysate {answer['dialysate_ml']:.1f} mL,"
        f" consumables {answer['consumables_eur']:.2f} EUR",
        f"  last of them  {answer['last_reason']}",
    ]


def _event_lines(answer: dict[str, Any]) -> list[str]:
    """Return the technician's actions, the holds of the run, violations and other messages of the run."""
    lines = [f"  tended        day {each['day']:g}: {each['what']}" for each in answer["tended"] or ()]
    lines += [f"  {line}" for line in assumed_lines(answer["assumed"])]
    lines += [
        f"  held          {each['from_utc'][:16]} to {(each['until_utc'] or 'the end')[:16]}: {each['why']}"
        for each in answer["holds"]
    ]
    lines += [f"  VIOLATION     {text}" for text in answer["violations"]]
    held = {each["why"] for each in answer["holds"]}
    return lines + [f"  message       {text}" for text in answer["run_messages"] if text not in held]
