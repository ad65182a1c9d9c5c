"""Validation of medium at rest: V23, what time and temperature take from it."""

from __future__ import annotations

from math import expm1, log

import numpy as np
from numpy.typing import NDArray

from sim.plant import ageing, turnover
from sim.plant.columns import CAUSES, COLUMNS, Content
from sim.plant.compiled import SOURCES, kept
from sim.plant.verdicts import Measured, Validation, verdict

F8 = NDArray[np.float64]
DAY_S = 86_400.0


@kept
def _decay(row: F8, ph: float, temperature_c: float, tally: F8, dt_s: float) -> None:
    if SOURCES != 0:
        ageing.decay(row, ph, temperature_c, tally, dt_s)


def left(column: Content, days: float, temperature_c: float, ph: float = 7.2) -> float:
    """Return the share (0..1) of a column of fresh medium that is left after some days at a temperature (°C)."""
    row = np.ones(COLUMNS)
    _decay(row, ph, temperature_c, np.zeros((len(CAUSES), COLUMNS)), days * DAY_S)
    return float(row[column])


def v23() -> Validation:
    """Compare what time and temperature take from medium with what was measured in bottles and dishes."""

    def lost_pct(temperature_c: float) -> float:
        return -100.0 * expm1(log(left(Content.GLUTAMINE, 14.0, temperature_c)) / 14.0)

    room, cold = lost_pct(23.0), lost_pct(4.0)
    half_lives = [log(2.0) / turnover.glutamine_rate(ph) / DAY_S for ph in (7.2, 7.5)]
    warm = left(Content.TROPHIC, 3.0, 37.0)
    weeks = left(Content.TROPHIC, 28.0, 4.0)
    parts = [
        Measured("glutamine lost at 22 to 24 °C, % a day", "0.7 to 0.9", round(room, 2), 0.6 <= room <= 1.0),
        Measured("glutamine lost at 4 °C, % a day", "below 0.1 to 0.2", round(cold, 3), cold <= 0.2),
        Measured(
            "half-life of glutamine at 37 °C, pH 7.2, d", "6 to 20", round(half_lives[0], 1), half_lives[0] <= 20.5
        ),
        Measured(
            "half-life of glutamine at 37 °C, pH 7.5, d", "6 to 20", round(half_lives[1], 1), half_lives[1] >= 6.0
        ),
        Measured("labile factors left after 3 d at 37 °C", "below 0.2 (FGF2)", round(warm, 2), warm <= 0.3),
        Measured("labile factors left after 4 weeks at 4 °C", "usable for 2 to 4 weeks", round(weeks, 2), weeks >= 0.5),
    ]
    days = np.linspace(0.0, 60.0, 61).tolist()
    return Validation(
        "V23", "glutamine and labile factors of medium in a bottle", "0.7–0.9 and 0.1–0.2 % a day; weeks at 4 °C",
        f"{room:.2f} and {cold:.2f} % a day; {weeks:.2f} left after 4 weeks", "0.1 % a day; 10 points", verdict(parts), "fit",
        "S97 Clin Nutr 1991;10:193 (abstract); S11; S101; S102",
        "One Q10 was chosen for each substance. The glutamine of S97 is that of parenteral nutrition, which is less alkaline"
        " than medium. A maker's study (S106) finds 20 % lost within three days at 21 °C, and nothing at 4 °C: medium in air"
        " turns alkaline. Labile factors are one lump of substances with half-lives of an hour (ascorbate) to days.",
        tuple(parts), ("days", "share left"),
        {
            f"{name} at {temperature_c:g} °C": (days, [left(column, day, temperature_c) for day in days])
            for name, column in (("glutamine", Content.GLUTAMINE), ("labile factors", Content.TROPHIC))
            for temperature_c in (4.0, 23.0, 37.0)
        },
    )  # fmt: skip
