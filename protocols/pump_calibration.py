"""Pump calibration by weight: known doses are weighed; result: each pump's gain with its interval.

The loop's pumps move medium between loop and spent vessel, the dosing pump brings fresh medium; each round leaves
the vessels unchanged except for what the discard pump and the dosing pump exchange. Nothing is set: a pump's own
calibration follows its manufacturer's procedure, and this shows whether it is due.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from protocols.host import ProtocolError
from protocols.interval import Interval
from protocols.language import Lab
from protocols.organs import Gut, Kidney
from protocols.parameters import Param
from protocols.verbs import BoundTransfer

NAME = "pump-calibration"
TITLE = "Draw known doses, weigh them, and report each pump's gain with its interval"
VERSION = 1
"""Increased when a run that began before must not go on under this text; its steps are compared with its record as well."""
VERBS = (Kidney.draw, Kidney.discard, Gut.feed, Kidney.give_back, Kidney.mass)
"""Verbs that it cannot do without."""
PARAMS = (
    Param("dose", "uL", 5_000.0, 1_000.0, 15_000.0, "volume of each dose"),
    Param("doses", "", 3, 2, 20, "number of doses of each pump"),
    Param("settle", "s", 10.0, 0.0, 600.0, "wait before each weighing"),
)

UL_PER_G = 1000.0
DENSITY_REL_SD = 0.002
"""As in the ledger: medium at 37 °C weighs 1.00 g/mL to about two parts in a thousand."""
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""95 % quantile of Student's t for 1, 2, … degrees of freedom; 2.2 beyond (textbook table)."""


async def protocol(lab: Lab, params: Mapping[str, float]) -> None:
    """Run rounds of draw, discard, feed and give back, each weighed; then write one note per pump."""
    asked_ul, settle_s = params["dose_ul"], params["settle_s"]
    targets = lab.targets
    max_ul = min(targets.spent_room_ul, targets.loop_spare_ul) / 2.0
    if asked_ul > max_ul:
        raise ProtocolError(
            f"a dose of {asked_ul / 1000:g} mL is more than this rig can move back and forth ({max_ul / 1000:g} mL)."
            " Next: choose a smaller dose"
        )
    gains: dict[str, list[float]] = {}
    for _ in range(round(params["doses"])):
        for dose, sign in _round(lab):
            gain = await _gain(lab, dose, asked_ul, sign, settle_s)
            gains.setdefault(dose.verb.name, []).append(gain)
    for name, found in gains.items():
        interval = gain_interval(found)
        await lab.note(
            "calibration",
            {
                "verb": name,
                "dose_ul": asked_ul,
                "gains": found,
                "gain": interval.value,
                "low": interval.low,
                "high": interval.high,
                "due": not interval.low <= 1.0 <= interval.high,
            },
        )


def _round(lab: Lab) -> tuple[tuple[BoundTransfer, float], ...]:
    """Return the transfers of one round, with +1 for one that fills the weighed vessel and -1 for one that empties
    it.
    """
    return (
        (lab.kidney.draw, 1.0),
        (lab.kidney.discard, -1.0),
        (lab.gut.feed, 1.0),
        (lab.kidney.give_back, -1.0),
    )


async def _gain(lab: Lab, dose: BoundTransfer, asked_ul: float, sign: float, settle_s: float) -> float:
    """Return the ratio of weighed to requested volume of one dose."""
    before = await lab.kidney.mass(settle_s)
    await dose(asked_ul)
    after = await lab.kidney.mass(settle_s)
    if before.value is None or after.value is None:
        raise ProtocolError(
            f"the balance could not be read ({before.detail or after.detail}). Likely cause: draught, or its cable."
            " Next: see to it, then abort this run and start a new one"
        )
    return sign * (after.value - before.value) * UL_PER_G / asked_ul


def gain_interval(gains: list[float]) -> Interval:
    """Return mean and 95 % interval of a pump's gain: scatter of the doses (Student) and uncertainty of the
    density.

    `gains` are two or more plain numbers, weighed over requested volume.
    """
    count = len(gains)
    mean = sum(gains) / count
    variance = sum((gain - mean) ** 2 for gain in gains) / (count - 1)
    quantile = STUDENT_95[count - 2] if count - 2 < len(STUDENT_95) else 2.2
    half = math.hypot(quantile * math.sqrt(variance / count), 2.0 * DENSITY_REL_SD * mean)
    return Interval(mean, mean - half, mean + half)
