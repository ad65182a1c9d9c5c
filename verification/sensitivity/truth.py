"""Compare estimate and care rating with the plant's truth under faults in virtual time: do they fall with the tissue?"""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from choroid.common.failure import UserError
from choroid.simulation.rates import RateNerves
from choroid.simulation.simulate import EPOCH
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_nerves
from controller.rig.description import Rig, required
from controller.rig.loading import load_rig
from controller.rig.probes import chamber_temperature
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from verification.sensitivity.analysis import spearman

WARM_H = 8.0
"""Long enough for the six whole hours that the baseline of the firing needs."""
LOOK_S = 900.0
TRUE_FALL = 0.02
"""A smaller fall of the truth does not count."""

Trace = list[tuple[float, float, dict[str, Any]]]
"""(hours, true viability, the scores) at each sample."""


@dataclass(frozen=True, slots=True)
class ScreenedFault:
    """One fault: how the lab differs from the rig file, and what is done to it at the start."""

    name: str
    rig: Callable[[Rig], Rig] = lambda rig: rig
    strike: Callable[[SimulatedLab], None] = lambda _: None


def bottles(**changes: float) -> Callable[[Rig], Rig]:
    """Return a change of the rig: every medium in the lab becomes the loop's, with these species (mM) changed."""

    def changed(rig: Rig) -> Rig:
        media = {name: medium.model_copy(update=changes) for name, medium in rig.media.items()}
        return rig.model_copy(update={"media": media})

    return changed


def _burnt_heater(rig: Rig) -> Rig:
    skin = required(rig.organs.skin, "organs.skin").model_copy(update={"power_w": 0.01})
    return rig.model_copy(update={"organs": rig.organs.model_copy(update={"skin": skin})})


def _no_flow(lab: SimulatedLab) -> None:
    for heart in lab.rig.organs.hearts.values():
        lab.plant.faults.flow_scale[heart.line] = 0.02


def _lying_probe(lab: SimulatedLab) -> None:
    lab.plant.faults.sensor_offset[chamber_temperature(lab.rig) or ""] = -3.0


FAULTS = (
    ScreenedFault("none"),
    ScreenedFault("heater burnt out", rig=_burnt_heater),
    ScreenedFault("heart's line occluded", strike=_no_flow),
    ScreenedFault("no glucose in any bottle", rig=bottles(glucose_mm=0.05)),
    ScreenedFault("4 mM ammonia in every bottle", rig=bottles(ammonia_mm=4.0)),
    ScreenedFault("temperature probe 3 K low", strike=_lying_probe),
)


def against_truth(
    path: Path, *, seed: int, hours: float, faults: Sequence[ScreenedFault] = FAULTS, progress: bool = True
) -> dict[str, Any]:
    """Run every fault for `hours`; return the :func:`summary` of each. Raise :class:`UserError` for real links."""
    rig = load_rig(path, models=MODELS)
    if not rig.simulated:
        raise UserError(
            f"{path} has real links, and no fault is ever put on those. Next: name a rig whose links are all sim:"
        )
    answer: dict[str, Any] = {"rig": rig.name, "seed": seed, "hours": hours, "faults": {}}
    with tempfile.TemporaryDirectory(prefix="choroid-") as folder:
        healthy = Path(folder) / "healthy"
        _told(progress, "a healthy beginning")
        healthy.mkdir()
        before = run_virtual(live(rig, FAULTS[0], healthy, seed, WARM_H, EPOCH))[-1]
        for number, fault in enumerate(faults):
            _told(progress, fault.name)
            own = Path(folder) / str(number)
            shutil.copytree(healthy, own)
            trace = run_virtual(live(rig, fault, own, seed, hours, EPOCH + timedelta(hours=WARM_H, minutes=1)))
            answer["faults"][fault.name] = summary([before, *trace])
            gc.collect()
    return answer


def _told(progress: bool, what: str) -> None:
    if progress:
        print(f"… {what}", file=sys.stderr, flush=True)


async def live(rig: Rig, fault: ScreenedFault, data: Path, seed: int, hours: float, epoch: datetime) -> Trace:
    """Run the stack with recycling on a lab with this fault; return truth and scores."""
    loop = asyncio.get_running_loop()
    lab = SimulatedLab(fault.rig(rig), seed=seed)
    nerves = RateNerves(lab.plant, electrodes=rig.nerves.electrodes, seed=seed) if rig.nerves else None
    clock = Clock(follow_system=False, epoch=epoch)
    controller = Controller(
        rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock, parts=(with_nerves(nerves),)
    )
    stop = asyncio.Event()
    trace: Trace = []
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        if controller.runs.active is None:
            await controller.runs.start(
                "recycle", {"min_batch": "18 mL"}, user="simulate", reason="comparison of the scores with the truth"
            )
        fault.strike(lab)
        begin_s = loop.time()
        while (passed_s := loop.time() - begin_s) < hours * 3600.0 and not ticking.done():
            await asyncio.sleep(min(LOOK_S, hours * 3600.0 - passed_s))
            if controller.scores is not None:
                lived_h = (loop.time() - begin_s) / 3600.0
                trace.append((lived_h, lab.plant.truth().viability, controller.scores))
        stop.set()
        await ticking
    finally:
        await controller.close()
        await lab.close()
    return trace


def summary(trace: Trace) -> dict[str, Any]:
    """Return the change of truth and scores, from the first sample, before the fault, to the last."""
    truth = np.array([true for _, true, _ in trace])
    ratings = [said["care_rating"] for _, _, said in trace]
    scores = np.array([rating["score"] for rating in ratings])
    fell = bool(truth[0] - truth[-1] > TRUE_FALL)
    first, last = ratings[0], ratings[-1]
    ends = [(rating["low"], true, rating["high"]) for rating, (_, true, _) in zip(ratings, trace, strict=True)]
    known = [(true, said["viability"]) for _, true, said in trace if said["viability"] is not None]
    values = np.array([estimate["value"] for _, estimate in known])
    return {
        "viability_true": [round(float(truth[0]), 4), round(float(truth[-1]), 4)],
        "viability_true_fell": fell,
        "viability": [
            [round(said[end], 4) for end in ("low", "value", "high")] for said in (known[0][1], known[-1][1])
        ],
        "viability_truth_in_interval": round(
            float(np.mean([each["low"] <= true <= each["high"] for true, each in known])), 3
        ),
        "viability_spearman": round(spearman(np.array([true for true, _ in known]), values), 3) if fell else None,
        "care_rating": [round(float(scores[0]), 4), round(float(scores[-1]), 4)],
        "care_rating_high": [round(first["high"], 4), round(last["high"], 4)],
        "care_rating_fell": bool(scores[-1] < scores[0]) if fell else None,
        "care_rating_truth_in_interval": round(float(np.mean([low <= true <= high for low, true, high in ends])), 3),
        "care_rating_spearman": round(spearman(truth, scores), 3) if fell else None,
        "of_known": [first["of_known"], last["of_known"]],
        "limiting": last["limiting"],
        "coverage": last["coverage"],
        "happiness": [round(trace[at][2]["happiness"]["score"], 4) for at in (0, -1)],
        "looks": [_look(*sample) for sample in trace],
    }


def _look(at_h: float, true: float, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return one sample: the truth, and each score with the ends of its interval."""
    rating, estimate = said["care_rating"], said["viability"]
    return {
        "hours": round(at_h, 3),
        "viability_true": round(true, 5),
        "care_rating": rating["score"],
        "of_known": rating["of_known"],
        "low": rating["low"],
        "high": rating["high"],
        "viability": None if estimate is None else [round(estimate[end], 4) for end in ("low", "value", "high")],
    }


def as_text(answer: Mapping[str, Any]) -> str:
    """Return one line per fault."""
    head = f"{'fault':<30}{'true viability':>18}{'estimate':>18}{'care rating':>18}{'of what is known':>20}  limited by"
    lines = [f"{answer['rig']}, seed {answer['seed']}, {answer['hours']:g} h of each fault", head]
    for name, found in answer["faults"].items():
        true, score, known = (_change(found[key]) for key in ("viability_true", "care_rating", "of_known"))
        estimate = _change([value for _, value, _ in found["viability"]])
        lines.append(f"{name:<30}{true:>18}{estimate:>18}{score:>18}{known:>20}  {found['limiting']}")
    lines.append("")
    for name, found in answer["faults"].items():
        within = f"truth within the interval at {found['viability_truth_in_interval']:.0%} of looks"
        if found["viability_true_fell"]:
            verdict = "fell with it" if found["care_rating_fell"] else "did NOT fall"
            ranks = f"estimate {found['viability_spearman']:.2f}, care rating {found['care_rating_spearman']:.2f}"
            lines.append(f"{name:<30}truth fell, the care rating {verdict}; rank correlations: {ranks}; {within}")
        else:
            lines.append(f"{name:<30}truth stood; {within}")
    return "\n".join(lines)


def _change(pair: Sequence[float | None]) -> str:
    return " → ".join("–" if each is None else f"{each:.3f}" for each in pair)
