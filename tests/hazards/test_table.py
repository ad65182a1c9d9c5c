"""The hazard table itself: complete, judged by the derived interlocks, and accurate about what is accepted."""

from __future__ import annotations

import ast
import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from choroid.rig_file.check import as_text, check_rig
from controller.hazards.loading import load_checked_rig
from controller.hazards.table import hazards_of, may_be_accepted
from controller.hazards.terms import HazardVerdict
from controller.rig.description import required
from controller.rig.problems import RigError
from controller.safety.limits import limits_of
from drivers.registry import MODELS
from tests.hazards.files import BENCH, RIGS, SHIPPED, problems_of_data, problems_of_text

ROOT = Path(__file__).parents[2]
RIG = load_checked_rig(BENCH, models=MODELS)


@pytest.mark.parametrize("name", [rule.name for rule in limits_of(RIG).interlocks])
def test_I8_an_interlock_that_is_not_derived_is_a_gap(name: str) -> None:
    limits = limits_of(RIG)
    without = replace(limits, interlocks=tuple(rule for rule in limits.interlocks if rule.name != name))
    assert any(row.verdict is HazardVerdict.GAP for row in hazards_of(RIG, without))
    assert not any(row.verdict is HazardVerdict.GAP for row in hazards_of(RIG, limits))


def test_I8_without_the_mixture_or_the_draw_there_is_a_gap() -> None:
    limits = limits_of(RIG)
    drawing = replace(limits, hearts=tuple(replace(heart, draws=(), loop_draws=()) for heart in limits.hearts))
    gaps = {
        row.id
        for spoilt in (replace(limits, mixture=None), drawing)
        for row in hazards_of(RIG, spoilt)
        if row.verdict is HazardVerdict.GAP
    }
    assert gaps == {"co2_excess", "loss_of_flow"}


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_I8_the_table_names_every_pump_vessel_and_gauge(path: Path) -> None:
    rig = load_checked_rig(path, models=MODELS)
    rows = {row.id: row for row in hazards_of(rig)}
    assert len(rows) == len(hazards_of(rig)), "two hazards have one id"
    for name, line in rig.lines.items():
        if line.pump is not None:
            assert {f"over_pressure_{name}", f"blocked_{name}"} & set(rows), name
            assert line.from_ not in rig.vessels or f"dry_{line.from_}" in rows
            assert line.to not in rig.vessels or f"overflow_{line.to}" in rows
    acted_on = {actuator for row in rows.values() for actuator in row.actuators}
    valves = {line.valve for line in rig.lines.values()}
    assert acted_on >= set(limits_of(rig).basal) - valves
    for row in rows.values():
        assert row.detection_s <= row.harm_s or row.verdict is not HazardVerdict.COVERED, row.id
        assert {"temperature", "pressure"} & set(row.id.split("_")) == set() or row.detection_s > 0, row.id


def test_I8_the_estimates_are_pessimistic_compared_with_the_plant() -> None:
    """The lab in software warms more slowly than the estimate says: its holder takes up heat as well."""
    from controller.rig.heating import heating_c_per_s
    from sim.plant.heat import CAPACITY_J_PER_K

    assert heating_c_per_s(RIG) > required(RIG.organs.skin, "organs.skin").power_w / CAPACITY_J_PER_K


def test_I8_check_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = check_rig(BENCH)
    text = as_text(answer, hazards=True)
    for row in answer["hazards"]:
        assert any(line.startswith(row["hazard"]) and row["sensor"] in line for line in text.splitlines())
    assert "4 residual" in text
    assert "thermal fuse" in text
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    spoilt = tmp_path / "rig.yaml"
    spoilt.write_text(BENCH.read_text(encoding="utf-8").replace("stale: 15 s", "stale: 3600 s"), encoding="utf-8")
    answer = check_rig(spoilt)
    assert not answer["ok"]
    (gap,) = [row for row in answer["hazards"] if row["verdict"] == "gap"]
    assert (gap["hazard"], gap["gaps"][0]["key"]) == ("sensor_loss_temperature", "safety.temperature.stale")
    assert "GAP" in as_text(answer, hazards=True)


def accepted(**reasons: str) -> Any:
    def spoil(data: dict[str, Any]) -> None:
        data["devices"]["do_loop"]["at"] = "spent"
        data["safety"]["accepted"] = {name: {"reason": why, "by": "R. Franklin"} for name, why in reasons.items()}

    return spoil


WHY = "the new flow cell is delivered in March; air alone feeds the tissue"


def test_I8_a_slow_hazard_can_be_accepted_and_is_told(tmp_path: Path) -> None:
    assert [p.key for p in problems_of_data(tmp_path, accepted())] == ["organs.lung.oxygen"]
    assert problems_of_data(tmp_path, accepted(oxygen_out_of_range=WHY)) == []
    answer = check_rig(tmp_path / "rig.yaml")
    assert answer["ok"]
    assert f"ACCEPTED WITHOUT AN INTERLOCK: oxygen_out_of_range at loop: {WHY} (R. Franklin)" in as_text(answer)


def test_I8_what_kills_quickly_or_is_covered_cannot_be_accepted(tmp_path: Path) -> None:
    found = problems_of_data(tmp_path, accepted(oxygen_out_of_range=WHY, over_temperature=WHY, oxygen=WHY))
    assert {p.key.rpartition(".")[2]: p.what.partition(";")[0] for p in found} == {
        "over_temperature": "this hazard is covered",
        "oxygen": "the rig has no hazard “oxygen”",
    }

    def quick(data: dict[str, Any]) -> None:
        data["safety"]["temperature"]["trips"] = []
        data["safety"]["accepted"] = {"over_temperature": {"reason": WHY, "by": "R. Franklin"}}

    (problem,) = problems_of_data(tmp_path, quick)
    assert "cannot be accepted" in problem.what
    assert "[relay.heater]" in problem.fix

    def curt(data: dict[str, Any]) -> None:
        accepted(oxygen_out_of_range="because")(data)

    assert [p.key for p in problems_of_data(tmp_path, curt)] == ["safety.accepted.oxygen_out_of_range.reason"]


def test_I8_a_chamber_without_overflow_and_tubing_that_bursts_cannot_be_accepted() -> None:
    lines = {name: line for name, line in RIG.lines.items() if not line.passive}
    lines["draw"] = lines["draw"].model_copy(update={"bore_mm": 8.0})
    rows = {row.id: row for row in hazards_of(RIG.model_copy(update={"lines": lines}))}
    for name in ("overflow_chamber", "blocked_draw"):
        assert rows[name].verdict is HazardVerdict.GAP
        assert not may_be_accepted(rows[name]), name


def test_I8_a_dialyser_needs_its_own_gauge(tmp_path: Path) -> None:
    dialysis = RIGS / "bench_dialysis.yaml"

    def without(data: dict[str, Any]) -> None:
        del data["safety"]["over_pressure"]

    def above(data: dict[str, Any]) -> None:
        data["safety"]["over_pressure"]["dialyse"]["high"] = "61 kPa"

    def elsewhere(data: dict[str, Any]) -> None:
        data["safety"]["over_pressure"]["heart"] = data["safety"]["over_pressure"].pop("dialyse")

    (problem,) = problems_of_data(tmp_path, without, dialysis)
    assert problem.key == "lines.dialyse"
    assert "trips: [reglo2.dialysate]" in problem.fix
    (problem,) = problems_of_data(tmp_path, above, dialysis)
    assert "dialyser “fibres” allows" in problem.what
    keys = {problem.key for problem in problems_of_data(tmp_path, elsewhere, dialysis)}
    assert keys == {"lines.dialyse", "safety.over_pressure.heart"}


def test_I8_whatever_runs_a_rig_loads_it_checked() -> None:
    """Only what reads a rig without running it may load it unchecked, and the guard, which must guard whatever runs."""
    packages = {"report", "export", "comparison", "fitting", "sensitivity", "tools", "bench"}
    files = {
        "running/guarding.py",
        "rig_file/check.py",
        "rig_file/fleet.py",
        "operating/ledger.py",
    }
    for path in sorted(path for room in ("choroid", "verification") for path in (ROOT / room).rglob("*.py")):
        inside = Path(*path.relative_to(ROOT).parts[1:])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "controller.rig.loading":
                names = {alias.name for alias in node.names}
                reads = inside.parts[0] in packages or str(inside) in files
                assert "load_rig" not in names or reads, f"{path} loads a rig without its hazard table"


TEXT = BENCH.read_text(encoding="utf-8")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    where=st.integers(0, len(TEXT) - 1),
    what=st.sampled_from(["0", "9", "00", "e3", "1e-9", "", " m"]),
    take=st.integers(0, 3),
)
def test_I8_a_table_is_made_of_any_sound_rig(tmp_path: Path, where: int, what: str, take: int) -> None:
    with contextlib.suppress(RigError):
        path = tmp_path / "rig.yaml"
        path.write_text(TEXT[:where] + what + TEXT[where + take :], encoding="utf-8")
        load_checked_rig(path)


EXTREMES = [
    ("bicarbonate: 27.5 mM", "bicarbonate: 1000 mM"), ("bicarbonate: 27.5 mM", "bicarbonate: 0 mM"),
    ("diameter: 2.5 mm", "diameter: 0.001 mm"), ("count: 16", "count: 10000"),
    ("volume: 2 mL, capacity: 3 mL", "volume: 0 mL, capacity: 3 mL"), ("co2_min: 3 %", "co2_min: 0 %"),
    ("power: 15 W", "power: 1000 W"), ("bore: 1.02 mm, length: 0.6 m", "bore: 1e-6 mm, length: 0.6 m"),
    ("area: 4 cm^2", "area: 1e-9 cm^2"), ("flow: 10 mL/min}", "flow: 1e-9 mL/min}"),
    ("total_flow: 50 mL/min", "total_flow: 1e5 mL/min"),
]  # fmt: skip


@pytest.mark.parametrize("swap", EXTREMES)
def test_I8_extreme_numbers_are_judged_and_never_crash(tmp_path: Path, swap: tuple[str, str]) -> None:
    for problem in problems_of_text(tmp_path, swap):
        assert problem.fix


def test_I8_the_rigs_that_campaigns_draw_have_no_gap() -> None:
    from verification.campaign.world import draw_trial, rig_of

    for number in range(60):
        assert rig_of(draw_trial(8, number, days=1.0, faults=()))
