"""Faults as people write them, and the mistakes that they make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.faults.conditions import PointBeyond, StepBegun
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.faults.script import FaultsError, read_line, read_script
from tests.sim.faults.bench import RIG, ROOT, lab_with

EXAMPLES = sorted((ROOT / "examples" / "faults").glob("*.yaml"))


def written(folder: Path, text: str) -> Path:
    path = folder / "faults.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.virtual_time
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_the_examples_can_happen(path: Path) -> None:
    script = read_script(path, RIG)
    async with lab_with() as (lab, _):
        schedule = script.schedule(np.random.default_rng(1), 3.0)
        Injector(lab, schedule, conditions=script.conditions)
        assert len(schedule) >= 3


def test_what_the_words_mean(tmp_path: Path) -> None:
    script = read_script(
        written(
            tmp_path,
            """
faults:
  - {fault: heart_occlusion, at: 20 min, for: 45 s}
  - {fault: unplug, on: p_heart, at: 1 h, for: 2 min}
  - {fault: leak, on: draw, at: 1 h, amount: 0.05 mL/min}
  - {fault: garble, on: "sim:gas", at: 90 s, amount: 2 %}
  - {fault: garble, on: "sim:gas", at: 90 s, amount: 0.02}
  - {fault: offset, on: ph_loop.ph, at: 2 h, amount: -0.15 pH}
  - {fault: drift, on: do_loop.oxygen, at: 0 s, amount: 0.5 % / h}
  - {fault: wrong_medium, on: reservoir, at: 1 d, amount: base_stock}
  - {fault: noise, on: p_filter.pressure, at: 1 d, amount: 20}
  - {fault: silent, on: balance, when: {point: balance.mass, above: 8 g, below: 10 g}, for: 1 min, again: true}
  - {fault: silent, on: balance, when: {point: ph_loop.ph, below: 7.2}, for: 1 min}
  - {fault: silent, on: reglo, when: {run: recycle, step: kidney.draw}, for: 1 min}
  - {fault: drop, on: any, rate: 12 / day, for: 10 s}
  - {fault: occlusion, on: draw, rate: 0.5 / h}
  - {fault: stall, at: 5 min, for: 3 s}
""",
        ),
        RIG,
        with_host=True,
    )
    assert script.timed == (
        Fault("heart_occlusion", "heart", 1200.0, 45.0),
        Fault("unplug", "sim:rs485", 3600.0, 120.0),
        Fault("leak", "draw", 3600.0, 0.0, 50.0),
        Fault("garble", "sim:gas", 90.0, 0.0, 0.02),
        Fault("garble", "sim:gas", 90.0, 0.0, 0.02),
        Fault("offset", "ph_loop.ph", 7200.0, 0.0, -0.15),
        Fault("drift", "do_loop.oxygen", 0.0, 0.0, 12.0),
        Fault("wrong_medium", "reservoir", 86400.0, 0.0, 3.0),
        Fault("noise", "p_filter.pressure", 86400.0, 0.0, 20.0),
        Fault("stall", "host", 300.0, 3.0),
    )
    heavy, sour, drawing = script.conditions
    assert (heavy.when, heavy.again) == (PointBeyond("balance.mass", 8.0, 10.0), True)
    assert (sour.when, sour.again) == (PointBeyond("ph_loop.ph", below=7.2), False)
    assert drawing.when == StepBegun("recycle", "kidney.draw")
    assert drawing.fault == Fault("silent", "reglo", 0.0, 60.0)
    drops, kinks = script.chances
    assert len(drops.on) == 11
    assert (drops.per_day, drops.for_s) == (12.0, 10.0)
    assert (kinks.on, kinks.per_day, kinks.for_s) == (("draw",), 12.0, None)


def test_chance_gives_as_many_as_asked_for_and_the_same_ones_for_the_same_seed(tmp_path: Path) -> None:
    path = written(
        tmp_path, "faults: [{fault: drop, on: any, rate: 12 / day, for: 10 s}, {fault: kill, rate: 3 / week}]"
    )
    script = read_script(path, RIG, with_host=True)
    schedule = script.schedule(np.random.default_rng(5), 100.0)
    drops = [fault for fault in schedule if fault.kind == "drop"]
    assert len(drops) == pytest.approx(1200, abs=120)
    assert len({fault.target for fault in drops}) == 11
    assert {fault.for_s for fault in drops} == {10.0}
    assert len(schedule) - len(drops) == pytest.approx(43, abs=20)
    assert schedule == script.schedule(np.random.default_rng(5), 100.0)
    assert [fault.at_s for fault in schedule] == sorted(fault.at_s for fault in schedule)


MISTAKES = {
    "a kind that is not": ("  - {fault: unplugged, on: balance, at: 1 h}", 2, "“unplugged” is not a fault", "“unplug”"),
    "no kind": ("  - {on: balance, at: 1 h}", 2, "does not say which fault", "fault: unplug"),
    "a target that is not": ("  - {fault: silent, on: balanse, at: 1 h}", 2, "“balanse”", "Did you mean “balance”?"),
    "a target of another kind": ("  - {fault: reversed, on: balance, at: 1 h}", 2, "“balance”", "reglo.heart"),
    "no target": ("  - {fault: silent, at: 1 h}", 2, "does not say on which device", "on: reglo"),
    "no time": ("  - {fault: silent, on: balance}", 2, "does not say when", "at: 2 h"),
    "two times": ("  - {fault: silent, on: balance, at: 1 h, rate: 1 / day}", 2, "has both “at” and “rate”", "one of"),
    "no unit": ("  - fault: silent\n    on: balance\n    at: 3600", 4, "“3600” has no unit", "3600 s"),
    "another unit": ("  - {fault: silent, on: balance, at: 5 mL}", 2, "not in s", "quantity"),
    "a decimal comma": ('  - {fault: silent, on: balance, at: "1,5 h"}', 2, "decimal comma", "1.5 h"),
    "a time before the start": ("  - {fault: silent, on: balance, at: -1 h}", 2, "before the start", "at: 2 h"),
    "no length": ("  - {fault: silent, on: balance, at: 1 h, for: 0 s}", 2, "no length of time", "for good"),
    "a length of a moment": ("  - {fault: reboot, on: reglo, at: 1 h, for: 5 s}", 2, "over at once", "Remove “for”"),
    "too much": ('  - {fault: drop, on: reglo, at: 1 h, amount: 150 %}', 2, "not from 0 to 1", "part of the pieces"),
    "an amount of what has none": ("  - {fault: unplug, on: reglo, at: 1 h, amount: 3}", 2, "has no amount", "Remove"),
    "an amount of zero": ("  - {fault: drop, on: reglo, at: 1 h, amount: 0}", 2, "of 0", "usual"),
    "an amount in words": ("  - {fault: drop, on: reglo, at: 1 h, amount: much}", 2, "not a quantity", "1 %"),
    "a drift in no time": ("  - {fault: drift, on: ph_loop.ph, at: 1 h, amount: 0.1 pH}", 2, "in what time", "/ day"),
    "a medium that is not": (
        "  - {fault: wrong_medium, on: reservoir, at: 1 h, amount: bas_stock}", 2, "no medium", "base_stock",
    ),
    "a key that is not": ("  - {fault: silent, on: balance, at: 1 h, duration: 5 s}", 2, "“duration”", "at, when, rate, for"),
    "a rate that is none": ("  - {fault: silent, on: balance, rate: 3 per day}", 2, "no rate", "3 / day"),
    "any at a time": ("  - {fault: silent, on: any, at: 1 h}", 2, "by chance", "rate"),
    "again without when": ("  - {fault: silent, on: balance, at: 1 h, again: true}", 2, "belongs to “when”", "rate"),
    "no condition": ("  - {fault: silent, on: balance, when: balance.mass > 8}", 2, "is no condition", "above: 10 g"),
    "a point that is not": (
        "  - {fault: silent, on: balance, when: {point: balance.weight, above: 8 g}}", 2, "no reading", "balance.mass",
    ),
    "a bound without unit": (
        "  - {fault: silent, on: balance, when: {point: balance.mass, above: 8}}", 2, "no unit", "8 g",
    ),
    "a fault of the computer": ("  - {fault: disk_full, at: 1 h, for: 5 s}", 2, "controller's computer", "campaign"),
    "no mapping": ("  - unplug", 2, "is not a fault", "- fault: unplug"),
    "the same twice": ("  - {fault: silent, on: balance, on: reglo, at: 1 h}", 2, "stands twice", "Remove one"),
    "a tab": ("\t- {fault: silent, on: balance, at: 1 h}", 2, "tab", "spaces"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typical_mistake_names_file_line_and_fix(mistake: str, tmp_path: Path) -> None:
    text, line, what, fix = MISTAKES[mistake]
    path = written(tmp_path, f"faults:\n{text}\n")
    with pytest.raises(FaultsError) as caught:
        read_script(path, RIG)
    assert len(caught.value.problems) == 1, str(caught.value)
    problem = caught.value.problems[0]
    assert (problem.file, problem.line) == (path, line)
    assert what in problem.what, str(problem)
    assert fix in problem.fix, str(problem)
    assert f"{path}:{line}: " in str(caught.value)
    assert "no fault was injected" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "faults:\n", "faults: []\n", "- fault: unplug\n", "fault: unplug\n", "faults: 3\n"]
)
def test_a_file_without_faults_says_how_one_begins(text: str, tmp_path: Path) -> None:
    with pytest.raises(FaultsError, match=r"examples/faults/bad_night\.yaml"):
        read_script(written(tmp_path, text), RIG)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "faults:\n  - {fault: silent, at: 1 h}\n  - {fault: drop, on: reglo, at: 1}\n  - {fault: x, at: 1 h}\nseed: 3\n",
    )
    with pytest.raises(FaultsError) as caught:
        read_script(path, RIG)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("unplug sim:gas for 30 s", Fault("unplug", "sim:gas", 0.0, 30.0)),
        ("offset ph_loop.ph amount 0.1 pH", Fault("offset", "ph_loop.ph", 0.0, 0.0, 0.1)),
        ("  heart_occlusion for 1 min amount 80 %", Fault("heart_occlusion", "heart", 0.0, 60.0, 0.8)),
        ("reboot reglo", Fault("reboot", "reglo", 0.0)),
        ("noise p_heart.pressure amount 20", Fault("noise", "p_heart.pressure", 0.0, 0.0, 20.0)),
    ],
)
def test_a_fault_can_be_typed(text: str, fault: Fault) -> None:
    assert read_line(text, RIG) == fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unplugg sim:gas", "Did you mean “unplug”"),
        ("unplug", "on which link"),
        ("reboot reglo for 5 s", "over at once"),
        ("drop sim:gas for 5", "has no unit"),
        ("", "is not a fault"),
        ("kill", "controller's computer"),
    ],
)
def test_a_slip_in_typing_is_told(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_line(text, RIG)
