"""What a trial is: a rig, a protocol, people, faults, all drawn from one seed; and its text, from which it is replayed."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from controller.hazards.loading import load_checked_rig
from controller.rig.described import seen_from_anywhere
from controller.rig.description import Rig
from controller.rig.document import read_document
from controller.rig.problems import RigError
from controller.runs.rehearsal import HOURS
from controller.safety.limits import limits_of
from controller.safety.terms import Limits
from drivers.registry import MODELS
from sim.faults.chance import draw
from sim.faults.schedule import Fault
from verification.campaign.other_rigs import KEPT_ML, draw_edits, draw_protocol, fresh_ml
from verification.campaign.provocations import provocations, provoke, special

DAY_S = 86_400.0
HOUR_S = 3_600.0
QUIET_S = 1_800.0
"""Time that a rig has to return to order after the last fault (s)."""
FAULTS_A_DAY = 60.0
SURVIVABLE = 0.5
"""The part of the trials whose faults tissue must live through; one contaminated batch among two hundred faults, and that
nothing was lost is no longer asked.
"""


@dataclass(frozen=True)
class Trial:
    """Everything that a trial depends on. `hours` is how long it lasts, `rig` what differs from the rig file."""

    seed: int
    hours: float
    protocol: str
    params: dict[str, str]
    rig: dict[str, Any] = field(default_factory=dict)
    attend_min: float = 30.0
    """Interval at which an operator acknowledges alarms, resets latches and resumes what is held (min)."""
    telemetry: bool = False
    faults: tuple[Fault, ...] = ()
    without: str | None = None
    rig_file: str = ""
    """Path of the rig file; empty: the bench rig."""

    def to_text(self) -> str:
        """Return one line of JSON; :meth:`from_text` reads it."""
        data = asdict(self)
        if not self.rig_file:
            del data["rig_file"]
        return json.dumps(data, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Trial:
        """Read what :meth:`to_text` wrote; raises :class:`UserError` for anything else."""
        try:
            data = json.loads(text)
            data["faults"] = tuple(Fault(**fault) for fault in data["faults"])
            return cls(**data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(
                f"this is no trial: {error}. Likely cause: the text was cut short or is of another release."
                " Next: copy the whole line that the campaign printed after --replay"
            ) from None

    def with_faults(self, faults: Sequence[Fault]) -> Trial:
        """Return the same with other faults."""
        return replace(self, faults=tuple(faults))


def draw_trial(
    seed: int,
    number: int,
    *,
    days: float,
    without: str | None = None,
    faults: Sequence[Fault] | None = None,
    faults_a_day: float = FAULTS_A_DAY,
    rig: Path | None = None,
) -> Trial:
    """Trial `number` of the campaign `seed`; with `faults` it gets these instead of drawn ones.

    `faults_a_day` is the mean number drawn by chance; a trial has half, once, twice or four times as many. `rig` is the rig
    file; by default the bench rig's.
    """
    rng = np.random.default_rng([seed, number])
    bare = _on_bench(rng, days, without) if rig is None else _on_other(rng, days, without, rig)
    if faults is not None:
        return bare.with_faults(faults)
    rate = faults_a_day * float(rng.choice([0.5, 1.0, 2.0, 4.0]))
    end_s = max(days * DAY_S - QUIET_S, days * DAY_S / 2)
    mild = bool(rng.random() < SURVIVABLE)
    drawn = draw(rng, rig_of(bare), end_s / DAY_S, rate, survivable=mild)
    # What would outlast the trial ends with it; a length of 0 is that of a moment.
    ended = [replace(fault, for_s=round(min(fault.for_s, end_s - fault.at_s), 1)) for fault in drawn]
    return bare.with_faults(sorted((*ended, *_provoked(rng, bare, end_s, mild)), key=lambda fault: fault.at_s))


def _on_bench(rng: np.random.Generator, days: float, without: str | None) -> Trial:
    edits = _edits(rng)
    protocol = "recycle" if rng.random() < 0.7 else "exchange"
    if protocol == "recycle":
        batch = f"{rng.integers(4, 21)} mL"
        # A good loop would be left alone, and faults would find nothing moving.
        params = {"batch": batch, "min_batch": batch, "every": f"{rng.choice([1.0, 1.5, 2.0, 4.0, 8.0]):g} h"}
    else:
        every_h = float(rng.choice([1.0, 2.0, 4.0, 12.0]))
        # A run that the rehearsal refuses for want of medium would leave nothing for faults to hit.
        lasts_ml = (fresh_ml(rig_of(Trial(0, 0.0, "exchange", {}, dict(edits)))) - KEPT_ML) / math.ceil(HOURS / every_h)
        params = {"volume": f"{max(1, min(int(rng.integers(2, 21)), int(lasts_ml)))} mL", "every": f"{every_h:g} h"}
    return _bare(rng, days, without, protocol, params, edits)


def _on_other(rng: np.random.Generator, days: float, without: str | None, path: Path) -> Trial:
    file = str(path.absolute())
    whole = Trial(0, 0.0, "", {}, rig_file=file)
    edits = draw_edits(rng, rig_of(whole), json.loads(_document(file)))
    try:
        rig = rig_of(replace(whole, rig=edits))
    except RigError:  # a change that this rig does not bear
        rig, edits = rig_of(whole), {}
    protocol, params = draw_protocol(rng, rig, hours=days * 24.0)
    return replace(_bare(rng, days, without, protocol, params, edits), rig_file=file)


def _bare(
    rng: np.random.Generator,
    days: float,
    without: str | None,
    protocol: str,
    params: dict[str, str],
    edits: dict[str, Any],
) -> Trial:
    return Trial(
        seed=int(rng.integers(1, 2**31)),
        hours=days * 24.0,
        protocol=protocol,
        params=params,
        rig=edits,
        attend_min=float(rng.choice([10.0, 20.0, 30.0, 60.0])),
        telemetry=bool(rng.random() < 0.25),
        without=without,
    )


def _provoked(rng: np.random.Generator, bare: Trial, end_s: float, mild: bool) -> list[Fault]:
    rig = rig_of(bare)
    every_s = float(bare.params.get("every", "1 h").removesuffix(" h")) * HOUR_S
    known = provocations(rig, limits_of(rig))
    return provoke(rng, known, every_s=every_s, end_s=end_s, returns=bare.protocol == "recycle", mild=mild)


def _edits(rng: np.random.Generator) -> dict[str, Any]:
    """Return what differs from the bench rig, by dotted place: volumes, flows, polling, set-points."""
    edits: dict[str, Any] = {}

    def perhaps(place: str, value: Any) -> None:
        if rng.random() < 0.5:
            edits[place] = value

    perhaps("tissue.chamber.count", int(rng.integers(4, 25)))
    perhaps("vessels.loop.volume", f"{rng.uniform(30.0, 46.0):.1f} mL")
    perhaps("vessels.spent.volume", f"{rng.uniform(2.5, 6.0):.1f} mL")
    perhaps("vessels.reservoir.volume", f"{rng.uniform(60.0, 500.0):.0f} mL")
    perhaps("vessels.waste.volume", f"{rng.uniform(1.0, 1890.0):.0f} mL")
    if "vessels.waste.volume" in edits:
        edits["vessels.waste.contains"] = "fresh"
    perhaps("organs.heart.flow", f"{rng.uniform(1.2, 3.5):.2f} mL/min")
    perhaps("organs.kidney.flow", f"{rng.uniform(2.0, 5.0):.1f} mL/min")
    perhaps("organs.gut.flow", f"{rng.uniform(4.0, 12.0):.1f} mL/min")
    perhaps("organs.lung.total_flow", f"{rng.uniform(35.0, 80.0):.0f} mL/min")
    perhaps("organs.lung.oxygen_setpoint", f"{rng.uniform(80.0, 95.0):.0f} %")
    perhaps("organs.lung.ph_setpoint", round(float(rng.uniform(7.25, 7.42)), 2))
    perhaps("organs.skin.setpoint", f"{rng.uniform(36.3, 37.4):.1f} degC")
    perhaps("organs.skin.ambient", f"{rng.uniform(20.0, 28.0):.0f} degC")
    perhaps("devices.balance.every", f"{rng.choice([1, 2, 3])} s")
    perhaps("devices.reglo.every", f"{rng.choice([2, 3, 5])} s")
    perhaps("devices.relay.every", f"{rng.choice([2, 5])} s")
    perhaps("devices.ph_loop.every", f"{rng.choice([2, 5, 10])} s")
    return edits


AGREEMENT = "agreement"
"""Value of `--without` that takes away the comparison of probes and the limit of heat; only a drift of hours shows that."""


@lru_cache(maxsize=8)
def _document(file: str) -> str:
    """Return the data of a rig file (empty: the bench rig's) as JSON; the files that it names are absolute."""
    path = Path(file) if file else bench_rig()
    data = read_document(path).data
    seen_from_anywhere(path, data)
    return json.dumps(data)


def rig_of(trial: Trial) -> Rig:
    """Return the rig of a trial: its rig file with what differs. Raises :class:`RigError` when that is not sound."""
    data = json.loads(_document(trial.rig_file))
    for place, value in trial.rig.items():
        *way, last = place.split(".")
        part = data
        for key in way:
            part = part[key]
        part[last] = value
    with tempfile.TemporaryDirectory(prefix="choroid-rig-") as folder:
        path = Path(folder) / "rig.yaml"
        path.write_text(json.dumps(data, indent=1), encoding="utf-8")
        return load_checked_rig(path, models=MODELS)


def interlocks(rig: Rig) -> tuple[str, ...]:
    """Return what `--without` may name."""
    return (*(rule.name for rule in limits_of(rig).interlocks), *special(rig))


def limits_without(rig: Rig, interlock: str | None) -> Limits:
    """Return the kernel's limits of `rig` with interlocks taken away: to show that a campaign finds that they are
    missing.

    `interlock` is one of :func:`interlocks`, or several with commas between; raises :class:`UserError` for any
    other.
    """
    limits = limits_of(rig)
    for name in (interlock or "").split(",") if interlock else ():
        if name == AGREEMENT:
            limits = replace(limits, compared=False)
            continue
        if name not in interlocks(rig):
            raise UserError(
                f"the kernel has no interlock “{name}”. Likely cause: a slip."
                f" Next: choose among {', '.join(interlocks(rig))}; several with commas between"
            )
        limits = _lacking(limits, name)
    return limits


def _lacking(limits: Limits, interlock: str) -> Limits:
    match interlock:
        case "volumes":
            everything = {
                name: replace(vessel, floor_ul=-1e12, ceiling_ul=1e12) for name, vessel in limits.vessels.items()
            }
            return replace(limits, vessels=everything)
        case "mixture":
            return replace(limits, mixture=None)
        case "one_at_a_time":
            return replace(limits, pumps={name: replace(pump, excludes=()) for name, pump in limits.pumps.items()})
        case "heart_flow":
            # That the heart stands is still told; but nothing that draws from its loop is stopped for it.
            hearts = (replace(heart, stale_s=1e12, draws=(), loop_draws=()) for heart in limits.hearts)
            return replace(limits, hearts=tuple(hearts))
        case _:
            return replace(limits, interlocks=tuple(rule for rule in limits.interlocks if rule.name != interlock))
