"""What a rig can do follows from what it has; a rig in an incubator needs neither heater nor gas mixer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.rig_file.check import as_text, check_rig
from controller.capabilities.catalogue import FUNCTIONS, capabilities_of
from controller.core.clock import Clock
from controller.figures.records import Records
from controller.hazards.loading import load_checked_rig
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.recipes.catalogue import find, shipped
from controller.recipes.on_rig import UnavailableError, check_on
from controller.recipes.on_rig import lacking as lacking_for
from controller.regulation.regulators import regulators_of
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.rig.problems import RigError
from controller.safety.limits import limits_of
from dashboards.views import rig_view
from drivers.registry import MODELS
from protocols.table import VERBS
from sim.lab import SimulatedLab

RIGS = Path(__file__).resolve().parents[2] / "examples" / "rigs"
BENCH, INCUBATOR = RIGS / "bench.yaml", RIGS / "incubator.yaml"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def edited(folder: Path, path: Path, *removed: str, **changed: Any) -> Path:
    """Write a copy of a rig file without the parts at the dotted places `removed`, and with `changed` ones (`a__b=value`)."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    for place in removed:
        *parts, last = place.split(".")
        part = data
        for step in parts:
            part = part[step]
        del part[last]
    for place, value in changed.items():
        *parts, last = place.split("__")
        part = data
        for step in parts:
            part = part[step]
        part[last] = value
    copy = folder / "rig.yaml"
    copy.write_text(yaml.safe_dump(data), encoding="utf-8")
    return copy


WITHOUT = {
    "gut": ("organs.gut", "lines.feed", "devices.dose_fresh", "vessels.reservoir"),
    "liver": (
        "organs.liver", "lines.glucose", "lines.base", "devices.dose_glucose", "devices.dose_base", "devices.ph_spent",
        "vessels.glucose", "vessels.base",
    ),
    "immune": (
        "organs.immune", "safety.over_pressure_filter", "devices.p_filter", "lines.return.filter", "lines.return.valve",
        "filters.sterile",
    ),
}  # fmt: skip
"""What belongs to an organ in the example rigs."""


def lacking(path: Path) -> set[str]:
    return {each.id for each in capabilities_of(load_checked_rig(path, models=MODELS)) if not each.available}


def refused(path: Path) -> list[str]:
    with pytest.raises(RigError) as caught:
        load_checked_rig(path, models=MODELS)
    return [str(problem) for problem in caught.value.problems]


def test_a_rig_in_an_incubator_lacks_control_of_gas_and_temperature_and_says_what_sets_them() -> None:
    found = {each.id: each for each in capabilities_of(load_checked_rig(INCUBATOR, models=MODELS))}
    assert lacking(INCUBATOR) - lacking(BENCH) == {
        "temperature_control",
        "gas_control",
        "ph_regulation",
        "electrophysiology",
    }
    assert "5 % CO2" in found["gas_control"].without
    assert "37 °C" in found["temperature_control"].without
    assert "pH 7.5" in found["ph_regulation"].without
    assert found["ph_alarm"].available


def test_check_lists_what_is_unavailable_and_why(tmp_path: Path) -> None:
    text = as_text(check_rig(INCUBATOR), capabilities=True)
    assert "no gas control: pCO2 and oxygen are set by the zone “incubator”" in text
    assert "It needs organs.lung" in text
    answer = check_rig(edited(tmp_path, INCUBATOR, "devices.ph_loop"))
    rows = {row["function"]: row for row in answer["capabilities"]}
    assert answer["ok"]
    assert rows["ph_alarm"]["lacks"] == ["a pH probe with “at: loop”"]
    broken = check_rig(edited(tmp_path, INCUBATOR, "devices"))
    assert broken["capabilities"] is None
    assert "no list of functions" in as_text(broken, capabilities=True)


def test_every_function_is_available_on_some_rig_and_none_needs_nothing(tmp_path: Path) -> None:
    """A need that no rig can fulfil, or that every rig fulfils, would say nothing."""
    by_hand = {
        "missed_feeding": {"reason": "half of the medium is changed on Monday and Thursday", "by": "R. Franklin"}
    }
    well = {
        "kind": "chamber",
        "contains": "fresh",
        "volume": "2 mL",
        "capacity": "3 mL",
        "surface": "9 cm^2",
        "zone": "incubator",
    }
    bare = edited(
        tmp_path, INCUBATOR, "safety", "upkeep", organs={}, lines={}, filters={}, vessels={"chamber": well},
        devices={"scales": {"model": "mettler-sics", "link": "sim:scales"}},
        tissue={"chamber": {"count": 1, "diameter": "1 mm", "age": "30 d"}},
    )  # fmt: skip
    bare = edited(tmp_path, bare, safety={"accepted": by_hand})
    assert lacking(bare) == {function.id for function in FUNCTIONS}
    full: set[str] = set()
    for path in sorted(RIGS.glob("*.yaml")):
        full |= {each.id for each in capabilities_of(load_checked_rig(path, models=MODELS)) if each.available}
    probes = {
        "devices__do_out": {"model": "atlas-ezo-do", "link": "sim:do_out", "at": "chamber"},
        "devices__flow": {"model": "sensirion-slf3x", "link": "sim:flow", "at": "heart"},
        "devices__ec": {"model": "atlas-ezo-ec", "link": "sim:ec", "at": "spent"},
    }
    rig = load_checked_rig(edited(tmp_path, BENCH, **probes), models=MODELS)
    full |= {each.id for each in capabilities_of(rig) if each.available}
    assert full == {function.id for function in FUNCTIONS}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"zones__incubator": {"temperature": "37 degC"}}, "takes pH 9."),
        ({"zones__incubator": {"temperature": "24 degC", "co2": "5 %"}}, "nothing keeps the chamber warm"),
        ({"zones__incubator": {"temperature": "37 degC", "co2": "5 %", "oxygen": "5 %"}}, "too little for tissue"),
        ({"vessels__chamber__zone": "incubatr"}, "Did you mean “incubator”?"),
    ],
)
def test_surroundings_that_harm_tissue_are_one_gap_with_place_and_fix(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    problems = refused(edited(tmp_path, INCUBATOR, **changed))
    assert any("vessels." in problem and said in problem for problem in problems), problems


def test_a_rig_in_the_room_is_refused_and_the_reasons_name_incubator_and_organ(tmp_path: Path) -> None:
    problems = refused(edited(tmp_path, BENCH, "organs.lung", "organs.skin", safety__temperature__trips=[]))
    assert any("zone: incubator" in problem and "organs.lung" in problem for problem in problems)
    assert any("zone: incubator" in problem and "organs.skin" in problem for problem in problems)


@pytest.mark.parametrize(("how", "unfed"), [("parallel", "bcd"), ("series", "")])
def test_a_chamber_that_the_heart_does_not_reach_is_refused(how: str, unfed: str, tmp_path: Path) -> None:
    """Overflows feed nothing by themselves; behind the heart's chamber they do."""
    data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    for before, name in ("ab", "bc", "cd"):
        data["vessels"][f"chamber_{name}"] = dict(data["vessels"]["chamber"])
        source = "loop" if how == "parallel" else f"chamber_{before}" if before != "a" else "chamber"
        data["lines"][f"to_{name}"] = {"from": source, "to": f"chamber_{name}", "passive": True}
        if how == "parallel" or name == "d":
            data["lines"][f"from_{name}"] = {"from": f"chamber_{name}", "to": "loop", "passive": True}
    path = tmp_path / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    found = check_rig(path)
    gaps = {row["hazard"] for row in found["hazards"] if row["hazard"].startswith("unperfused")}
    assert gaps == {f"unperfused_chamber_{name}" for name in unfed}
    assert found["ok"] == (not unfed), found["problems"]


def test_a_heater_without_its_interlock_is_refused_and_never_heats(tmp_path: Path) -> None:
    path = edited(tmp_path, BENCH, "safety.temperature")
    assert any("no interlock answers the hazard over_temperature" in problem for problem in refused(path))


def test_what_a_rig_does_not_have_is_neither_regulated_nor_commanded() -> None:
    rig = load_checked_rig(INCUBATOR, models=MODELS)
    limits = limits_of(rig)
    assert limits.mixture is None
    assert limits.heaters == ()
    assert limits.levels == {}
    assert list(regulators_of(rig)) == ["HeartRegulator"]


@pytest.mark.parametrize("organ", ["gut", "liver"])
def test_without_an_organ_the_rig_is_smaller_and_its_recipes_say_why(organ: str, tmp_path: Path) -> None:
    path = edited(tmp_path, BENCH, *WITHOUT[organ])
    answer = check_rig(path)
    assert answer["ok"], answer["problems"]
    new = {each.id for each in FUNCTIONS} & lacking(path) - lacking(BENCH)
    assert new == {{"gut": "fresh_medium", "liver": "conditioning"}[organ]}
    assert any(f"organs.{organ}" in lack for lack in answer["recipes"]["recycle"])
    assert answer["recipes"]["circulate"] == []
    assert "not recycle: the rig has no" in as_text(answer, capabilities=True)
    rig = load_checked_rig(path, models=MODELS)
    with pytest.raises(UnavailableError, match=f"organs.{organ}"):
        check_on(find("recycle"), rig, {})
    assert lacking_for(find("circulate"), rig) == ()


def test_a_return_without_a_sterile_filter_is_a_gap_that_a_person_may_accept(tmp_path: Path) -> None:
    (problem,) = refused(edited(tmp_path, BENCH, *WITHOUT["immune"]))
    assert "without a sterile filter" in problem
    accepted = {"unfiltered_return": {"reason": "the medium is discarded after one pass here", "by": "R. Franklin"}}
    path = edited(tmp_path, BENCH, *WITHOUT["immune"], safety__accepted=accepted)
    answer = check_rig(path)
    assert answer["ok"], answer["problems"]
    assert "ACCEPTED WITHOUT AN INTERLOCK: unfiltered_return" in as_text(answer)
    assert answer["recipes"]["recycle"] == ["no organs.immune"]
    assert answer["recipes"]["exchange"] == []


def test_the_verbs_that_a_python_protocol_names_exist() -> None:
    for recipe in shipped().values():
        assert set(recipe.verbs) <= set(VERBS.values()), recipe.name
        assert recipe.verbs or recipe.program is not None, f"{recipe.name} names no verbs"


def test_the_hash_of_a_rig_covers_its_zones() -> None:
    rig = load_checked_rig(BENCH, models=MODELS).model_copy(update={"zones": {}})
    zoned = rig.model_copy(update={"zones": load_checked_rig(INCUBATOR, models=MODELS).zones})
    assert effective_hash(zoned) != effective_hash(rig)


def rig_without(folder: Path, *removed: str) -> Rig:
    return load_checked_rig(edited(folder, INCUBATOR, *removed), models=MODELS)


@contextlib.asynccontextmanager
async def at_work(rig: Rig, data: Path) -> AsyncIterator[tuple[Controller, SimulatedLab]]:
    """Run a controller on the simulated lab of `rig`."""
    lab = SimulatedLab(rig, seed=3)
    controller = Controller(
        rig=rig, opener=lab.opener, storage=Storage(data), clock=Clock(follow_system=False, epoch=EPOCH)
    )
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        yield controller, lab
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "removed", [(), ("devices.ph_loop", "devices.do_loop", "devices.t_chamber", "safety.temperature")]
)
async def test_the_incubator_keeps_tissue_alive_and_a_batch_is_recycled(
    removed: tuple[str, ...], tmp_path: Path
) -> None:
    async with at_work(rig_without(tmp_path, *removed), tmp_path) as (controller, lab):
        run = await controller.runs.start("recycle", {"batch": "8 mL", "every": "1 h"}, user="test", reason="a test")
        await asyncio.sleep(5400.0)
        truth = lab.plant.truth()
        assert truth.temperature_c == pytest.approx(37.0, abs=0.2)
        assert truth.ph["loop"] == pytest.approx(7.5, abs=0.1)
        assert truth.concentrations["chamber"]["oxygen"] > 0.1
        assert truth.moved_ul["return"] > 1000.0, controller.runs.get(run)
        assert not controller.alarms.active()
        view = rig_view(controller.rig, user="vera", role="viewer")
        assert view.schematic["gas"] is None
        assert view.schematic["heater"] is None
        goals = {goal.point for goal in view.goals}
        assert None not in goals
        assert ({"ph_loop.ph", "t_chamber.temperature"} <= goals) == (not removed)


@pytest.mark.virtual_time
async def test_an_incubator_that_loses_its_co2_raises_the_alarm_of_ph(tmp_path: Path) -> None:
    async with at_work(load_checked_rig(INCUBATOR, models=MODELS), tmp_path) as (controller, lab):
        await asyncio.sleep(600.0)
        lab.plant.fleet.spaces["co2_fraction"] = 0.0004
        await asyncio.sleep(7200.0)
        assert "acidity" in {alarm.kind for alarm in controller.alarms.active()}


@pytest.mark.virtual_time
@pytest.mark.parametrize("organs", [("gut",), ("liver",), ("gut", "liver", "immune")])
async def test_a_smaller_rig_circulates_with_truthful_figures(organs: tuple[str, ...], tmp_path: Path) -> None:
    accepted = {"unfiltered_return": {"reason": "the medium is discarded after one pass here", "by": "R. Franklin"}}
    removed = [place for organ in organs for place in WITHOUT[organ]]
    changed = {"safety__accepted": accepted} if "immune" in organs else {}
    rig = load_checked_rig(edited(tmp_path, BENCH, *removed, **changed), models=MODELS)
    async with at_work(rig, tmp_path) as (controller, lab):
        with pytest.raises(UnavailableError):
            await controller.runs.start("recycle", {}, user="test", reason="a test")
        await controller.runs.start("circulate", {}, user="test", reason="a test")
        await asyncio.sleep(3600.0)
        assert lab.plant.truth().viability > 0.96
        assert {alarm.kind for alarm in controller.alarms.active()} <= {"hazard_accepted"}
        view = rig_view(controller.rig, user="vera", role="viewer")
        assert None not in {goal.point for goal in view.goals}
    with contextlib.closing(Records(tmp_path)) as records:
        begin, end = records.extent() or (0.0, 0.0)
        shown = {organ.name for organ in records.period(rig, begin, end).organs}
    assert "heart" in shown
    assert not shown & ({*organs} - {"liver"})
