"""Drift of each single probe, up and down: no violation, or a residual hazard of the table; probes that disagree are named.

A drift begins after the references of the rig are learnt and goes through its range until the end of the trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from choroid.common.examples import bench_rig
from controller.hazards.drift import NOTHING, drift_id
from controller.hazards.table import hazards_of
from controller.hazards.terms import HazardVerdict
from controller.rig.families import points_of
from sim.faults.schedule import Fault
from verification.campaign.campaign import command, results_of
from verification.campaign.world import DAY_S, Trial, draw_trial, limits_without, rig_of

BEGIN_S = 3600.0
"""When a drift begins (s): the references have been learnt."""
RANGES = {"degC": 5.0, "pH": 1.0, "%": 40.0, "kPa": 20.0, "g": 20.0, "mM": 5.0, "uS/cm": 3000.0, "ppm": 20000.0}
"""By unit, how far a probe drifts; a value that stays in the range of its device and looks sound."""


@dataclass(frozen=True, slots=True)
class DriftOutcome:
    """What the drift of one probe did."""

    rig: str
    point: str
    amount: float
    hours: float
    unit: str
    violations: tuple[str, ...]
    named: str
    """The alarms that name the probe; empty if none does."""
    residual: str
    """What the hazard table says of a probe that nothing of the rig shows; empty for one that is compared."""
    viability: float
    replay: str

    @property
    def sound(self) -> bool:
        """Whether nothing was violated, or the table names what remains: a probe that is compared may do no harm."""
        return not self.violations or bool(self.residual)


def shipped_rigs() -> list[Path]:
    """Return the rig files of the examples."""
    return sorted(bench_rig().parent.glob("*.yaml"))


def drift_trials(rig: Path, *, days: float, seed: int, without: str | None = None) -> list[Trial]:
    """Return one trial for each probe of a rig and each direction."""
    whole = rig_of(Trial(0, 0.0, "", {}, rig_file=str(rig.absolute())))
    trials = []
    for number, (point, kind) in enumerate(points_of(whole).items()):
        reach = RANGES.get(kind.unit)
        if kind.kind != "sensor" or reach is None:
            continue
        for sign in (1.0, -1.0):
            fault = Fault("drift", point, BEGIN_S, days * DAY_S, amount=sign * reach / days)
            length = days + BEGIN_S / DAY_S
            trials.append(draw_trial(seed, number, days=length, without=without, faults=[fault], rig=rig))
    if trials:
        limits_without(whole, without)  # an unknown name is refused before the trials begin
    return trials


def drifts(
    rigs: Sequence[Path],
    *,
    days: float,
    seed: int,
    jobs: int,
    without: str | None = None,
    resume: Path | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Let each probe of each rig drift through its range in `days`; return the answer of `--json`."""
    trials = [trial for rig in rigs for trial in drift_trials(rig, days=days, seed=seed, without=without)]
    head = {"drifts": [str(rig) for rig in rigs], "days": days, "seed": seed, "without": without}
    results = results_of(trials, head=head, jobs=jobs, resume=resume, progress=progress)
    outcomes = [outcome(trial, result) for trial, result in zip(trials, results, strict=True)]
    return {
        "days": days,
        "seed": seed,
        "without": without,
        "drifts": [asdict(each) | {"sound": each.sound} for each in outcomes],
        "violations": [asdict(each) for each in outcomes if not each.sound],
        "simulated_s": round(sum(result["simulated_s"] for result in results), 1),
    }


def outcome(trial: Trial, result: dict[str, Any]) -> DriftOutcome:
    """Return what a trial has shown of its one drifting probe."""
    rig, (fault,) = rig_of(trial), trial.faults
    rows = {row.id: row for row in hazards_of(rig)}
    row = rows.get(drift_id(fault.target))
    alone = row is not None and row.verdict is HazardVerdict.RESIDUAL and row.sensor == NOTHING
    hours = fault.for_s / 3600.0
    return DriftOutcome(
        Path(trial.rig_file).stem,
        fault.target,
        round(fault.amount * fault.for_s / DAY_S, 3),
        round(hours, 2),
        points_of(rig)[fault.target].unit,
        tuple(f"{each['invariant']}: {each['text']}" for each in result["violations"]),
        ", ".join(_naming(fault.target, result["raised"])),
        row.note if row is not None and alone else "",
        result["viability"],
        command(result["trial"]),
    )


def _naming(point: str, raised: Iterable[str]) -> list[str]:
    """Return the alarms whose source names the probe or its device."""
    return [alarm for alarm in raised if point in alarm or alarm.partition(":")[2] == point.partition(".")[0]]


def text_of(answer: dict[str, Any]) -> str:
    """Return the answer as a table."""
    lines = [f"{'rig':<18}{'probe':<24}{'drift':>12}{'hours':>7}  {'viability':>9}  {'result':<12}named by"]
    for each in answer["drifts"]:
        result = "violation" if not each["sound"] else "residual" if each["violations"] else "sound"
        drift = f"{each['amount']:+g} {each['unit']}"
        lines.append(
            f"{each['rig']:<18}{each['point']:<24}{drift:>12}{each['hours']:>7g}  {each['viability']:>9.3f}  {result:<12}"
            f"{each['named'] or '-'}"
        )
        lines += [f"    {violation}" for violation in each["violations"]]
    lines += [f"replay: {each['replay']}" for each in answer["violations"]]
    return "\n".join(lines)
