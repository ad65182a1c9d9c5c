"""What is said of the tissue: in each combination of condition and trend the sentences agree with each other."""

from __future__ import annotations

import itertools
import re

import pytest

from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.look import TissueLook
from protocols.tissue.statement import Statement
from protocols.tissue.wording import LossFound, TissueWording, Trend, trend_of

ALARM = "no heart flow (reglo.heart)"
COMBINATIONS = list(
    itertools.product(
        LossFound, Trend, ((), ("heat",), ("heat", "pH")), (False, True), (False, True), ((), (ALARM, "acidity (ph)"))
    )
)

UNSEEN = "No harm or loss seen (4 of 8 measured); up to 0.50 may be lost."


def condition(
    loss: LossFound = LossFound.NONE,
    trend: Trend = Trend.STABLE,
    harms: tuple[str, ...] = (),
    hidden: bool = False,
    wide: bool = False,
    alarms: tuple[str, ...] = (),
) -> TissueWording:
    return TissueWording(0.4, 0.6, 0.9, loss, harms, hidden, trend, 9, wide, "4 of 8", alarms)


def said(**changes: object) -> str:
    return " ".join(condition(**changes).sentences())  # type: ignore[arg-type]


@pytest.mark.parametrize("of", COMBINATIONS, ids=lambda of: "-".join(str(each) for each in of))
def test_no_combination_contradicts_itself(
    of: tuple[LossFound, Trend, tuple[str, ...], bool, bool, tuple[str, ...]],
) -> None:
    loss, trend, measured, _, wide, alarms = of
    harms = (*measured, *alarms)
    text = " ".join(condition(*of).sentences())
    falls = re.search(r"\blosing|\bfalling", text)
    assert not re.search(r"\.\.|, \.|\s\s", text)
    assert ("stable" in text) == (loss is LossFound.NONE and trend is Trend.STABLE and not harms and not wide)
    assert ("No harm or loss seen" in text) == (loss is LossFound.NONE and not harms)
    assert ("below its baseline of 0.90" in text) == (loss is not LossFound.NONE)
    assert bool(falls) <= (trend is Trend.FALLING), "only what falls is said to fall"
    assert ("rising" in text or "recovering" in text) <= (trend is Trend.RISING)
    assert ("Harmful now" in text) == bool(measured)
    assert text.startswith("Alarm now: ") == bool(alarms)
    if harms:
        assert "Nothing harmful" not in text
        assert "No cause" not in text
    if loss is LossFound.CERTAIN and trend is Trend.FALLING:
        assert "is losing viability" in text
        assert text.endswith("falling.")
    if loss is LossFound.NONE and wide:
        assert ("to judge the tissue" in text) == (not harms)
        assert text.endswith("too wide to show a trend.")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ({}, f"{UNSEEN} Viability 0.40–0.60, stable for 9 hours."),
        (
            {"trend": Trend.FALLING},
            f"{UNSEEN} Viability 0.40–0.60, slightly lower than before, not enough to suspect a loss.",
        ),
        ({"harms": ("heat",)}, "Harmful now: heat. Viability 0.40–0.60, not lower yet."),
        (
            {"harms": ("heat",), "alarms": (ALARM,)},
            "Alarm now: no heart flow (reglo.heart). Harmful now: heat. Viability 0.40–0.60, not lower yet.",
        ),
        ({"alarms": (ALARM,)}, "Alarm now: no heart flow (reglo.heart). Viability 0.40–0.60, not lower yet."),
        ({"harms": ("heat",), "trend": Trend.FALLING}, "Harmful now: heat. Viability 0.40–0.60, falling."),
        (
            {"loss": LossFound.SUSPECTED},
            "A loss of viability is suspected; it is not certain. Viability 0.40–0.60, below its baseline of"
            " 0.90, little change for 9 hours.",
        ),
        (
            {"loss": LossFound.CERTAIN, "hidden": True},
            "The tissue has lost viability. No cause is measured. Viability 0.40–0.60, below its baseline of"
            " 0.90, little change for 9 hours.",
        ),
        (
            {"loss": LossFound.CERTAIN, "trend": Trend.RISING},
            "The tissue has lost viability and is recovering. Nothing harmful is measured now. Viability 0.40–0.60, below"
            " its baseline of 0.90, rising again.",
        ),
        (
            {"loss": LossFound.CERTAIN, "trend": Trend.FALLING, "harms": ("heat",)},
            "Harmful now: heat. The tissue is losing viability. Viability 0.40–0.60, below its baseline of 0.90, falling.",
        ),
    ],
)
def test_what_is_said(of: dict[str, object], text: str) -> None:
    assert said(**of) == text


@pytest.mark.parametrize(
    ("values", "stable_h", "trend"),
    [
        ([0.9] * 3, 2, Trend.BEGINNING),
        ([0.9] * 6, 5, Trend.STABLE),
        ([0.9] * 48, 47, Trend.STABLE),
        ([0.9 - 0.004 * hour for hour in range(48)], 7, Trend.FALLING),
        ([0.5 + 0.004 * hour for hour in range(48)], 7, Trend.RISING),
        ([0.9] * 20 + [0.72], 0, Trend.FALLING),
        ([*[0.9] * 12, *[0.85, 0.95] * 6], 0, Trend.UNSTEADY),
    ],
)
def test_the_trend_is_that_of_the_last_hours(values: list[float], stable_h: int, trend: Trend) -> None:
    assert trend_of(values, stable_h) is trend


def around(value: float, sd: float) -> Interval:
    return Interval.around(value, sd, floor=0.0)


@pytest.fixture(scope="module")
def dying() -> list[Statement]:
    """Each hour of tissue that dies of a cause that nothing measures, until nearly all of it is dead, and two days after."""
    found, estimate = [], ViabilityEstimate.begun()
    for hour in range(48 + 96):
        share = 0.97 ** max(hour - 48, 0) if hour < 96 else 0.97**48
        seen = TissueLook(
            temperature_c=around(37.0, 0.15),
            oxygen_pct=around(80.0, 1.5),
            oxygen_at_tissue=True,
            oxygen_uptake=around(14.0 * share, 0.4),
            firing_hz=around(3.0 * share, 0.2),
        )
        estimate = estimate.after(seen)
        found.append(Statement(estimate, seen, frozenset(seen.to_json())))
    return found


def test_dying_and_dead_tissue_is_never_called_stable(dying: list[Statement]) -> None:
    losses = [each.to_json() for each in dying if each.estimate.suspected]
    assert len(losses) > 48
    for each in losses:
        assert "stable" not in " ".join(each["sentences"])
        assert " below its baseline of 0." in each["sentences"][1]
        assert each["baseline"] > each["value"]
    assert {each["trend"] for each in losses} >= {"falling", "stable"}, "both while it dies and after"
