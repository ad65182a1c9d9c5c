"""What the page's headlines say when an input goes missing: a score never rises for it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser

from controller.vitals.scores import Scores
from protocols.activity import FiringMeasures
from protocols.care_rating import MediumGrade, Vitals
from protocols.grading import Letter
from protocols.interval import Interval
from protocols.welfare import Treatment
from tests.browser.pages import Server, visiting

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")


SEEN = """async found => {
  const { showViability } = await import('/static/js/viability.js');
  return found.map(each => { showViability(each); const read = pick => document.querySelector(pick).textContent;
    return [read('.ring-score'), ...[...document.querySelectorAll('.rating .strong')].map(n => n.textContent)]; }); }"""
"""What the headlines say of each score, read in the same breath in which it was shown."""

INPUTS = ("temperature_c", "oxygen_short_s", "ldh", "oxygen_uptake", "growth", "lactate_yield", "grade")
FIRING = ("active_ratio", "rate_z", "evoked_ratio", "sttc", "signal_quality")


def well_or_not(well: bool) -> Scores:
    """Everything is known: all of it as it should be, or every part of it bad."""

    def reads(good: float, bad: float, off: float) -> Interval:
        return Interval.around(good if well else bad, off)

    firing = FiringMeasures(
        active_ratio=reads(1.0, 0.2, 0.02),
        rate_z=reads(0.1, -4.0, 0.1),
        evoked_ratio=reads(1.0, 0.3, 0.02),
        sttc=reads(0.3, 0.9, 0.02),
        signal_quality=Interval.exact(1.0 if well else 0.5),
    )
    letter = Letter.A if well else Letter.C
    vitals = Vitals(
        temperature_c=reads(37.0, 34.0, 0.1),
        oxygen_short_s=Interval.exact(0.0),
        ldh=reads(1.0, 4.0, 0.1),
        oxygen_uptake=reads(1.0, 0.3, 0.02),
        growth=reads(0.05, 0.25, 0.005),
        lactate_yield=reads(1.2, 1.9, 0.05),
        grade=MediumGrade(letter, letter),
        firing=firing,
    )
    treated = Treatment(
        temperature_spread_c=reads(0.2, 1.5, 0.05), ph_spread=reads(0.05, 0.3, 0.01), rest_h=reads(20.0, 2.0, 0.5)
    )
    return Scores(vitals, treated, None, {})


def without(scores: Scores, name: str) -> Scores:
    nothing: dict[str, Any] = {name: None}
    if name in FIRING:
        return replace(scores, vitals=replace(scores.vitals, firing=replace(scores.vitals.firing, **nothing)))
    if name in INPUTS:
        return replace(scores, vitals=replace(scores.vitals, **nothing))
    return replace(scores, treated=replace(scores.treated, **nothing))


@pytest.mark.parametrize("well", [True, False], ids=["well", "unwell"])
def test_taking_an_input_away_never_raises_what_the_headlines_say(browser: Browser, server: Server, well: bool) -> None:
    """Each input by itself, then one after the other until nothing is known: the range widens, its lower end never rises."""
    whole = well_or_not(well)
    names = (*INPUTS, *FIRING, "temperature_spread_c", "ph_spread", "rest_h")
    fewer = [whole]
    for name in names:
        fewer.append(without(fewer[-1], name))
    with visiting(browser, server.url) as visit:
        page = visit.live()
        alone = page.evaluate(SEEN, [each.to_json() for each in (whole, *(without(whole, name) for name in names))])
        all_gone = page.evaluate(SEEN, [each.to_json() for each in fewer])
        assert visit.complaints == []
    steps = [(alone[0], after, name) for after, name in zip(alone[1:], names, strict=True)]
    steps += [(before, after, name) for before, after, name in zip(all_gone, all_gone[1:], names, strict=False)]
    narrower = []
    for before, after, name in steps:
        for said, says in zip(before, after, strict=True):
            (low, high), (lower, higher) = ([int(end) for end in re.findall(r"\d+", text)] for text in (said, says))
            if lower > low or higher < high:
                narrower.append((name, said, says))
    assert narrower == []
    assert all_gone[-1][0] == "0–100%", "nothing is known of warmth and oxygen either"
    assert alone[0] != all_gone[-1]
