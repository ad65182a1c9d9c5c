"""Rigs that `choroid check` once accepted: each is rejected with file, line and the fix (issue 14, item 8)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from choroid.cli import main
from tests.hazards.files import BENCH, SHIPPED, problems, problems_of_text

HEART_TRIPS = "stale: 10 s, trips: [reglo.heart]"
FILTER_TRIPS = "stale: 10 s, trips: [reglo.return]"

# name, exchanged texts, the key that is named, what is said, the fix
CASES = [
    ("over_pressure_that_trips_nothing", [(HEART_TRIPS, "stale: 10 s, trips: []")],
     "safety.over_pressure_heart.trips", "trips nothing", "[reglo.heart]"),
    ("filter_pressure_that_trips_nothing", [(FILTER_TRIPS, "stale: 10 s, trips: []")],
     "safety.over_pressure_filter.trips", "trips nothing", "[reglo.return]"),
    ("temperature_that_trips_the_heart", [("trips: [relay.heater]", "trips: [reglo.heart]")],
     "safety.temperature.trips", "“relay.heater” causes the hazard", "[relay.heater]"),
    ("temperature_that_also_trips_the_heart", [("trips: [relay.heater]", "trips: [relay.heater, reglo.heart]")],
     "safety.temperature.trips.1", "also trips “reglo.heart”", "[relay.heater]"),
    ("temperature_that_trips_nothing", [("trips: [relay.heater]", "trips: []")],
     "safety.temperature.trips", "trips nothing", "[relay.heater]"),
    ("temperature_probe_in_the_reservoir", [("at: chamber, every", "at: reservoir, every")],
     "safety.temperature.point", "at “reservoir”", "“at:” of “t_chamber”"),
    ("heart_reads_the_filters_gauge", [("pressure: p_heart.pressure", "pressure: p_filter.pressure")],
     "organs.heart.pressure", "at “return”", "p_heart.pressure"),
    ("heart_interlock_reads_the_filters_gauge",
     [("over_pressure_heart: {point: p_heart.pressure", "over_pressure_heart: {point: p_filter.pressure")],
     "safety.over_pressure_heart.point", "at “return”", "p_heart.pressure"),
    ("air_and_co2_swapped",
     [("air: gas_air.flow", "air: gas_co2.flow"), ("co2: gas_co2.flow", "co2: gas_air.flow")],
     "organs.lung.air", "controller of co2, not of air", "“gas_air.flow”"),
    ("heart_limit_of_1900_kPa", [("high: 60 kPa", "high: 1900 kPa")],
     "safety.over_pressure_heart.high", "1900 kPa is more than", "at most 160 kPa"),
    ("filter_limit_of_1900_kPa", [("high: 80 kPa", "high: 1900 kPa"), ("max_pressure: 80 kPa", "max_pressure: 1950 kPa")],
     "safety.over_pressure_filter.high", "1900 kPa is more than", "at most 160 kPa"),
    ("temperature_stale_after_an_hour", [("stale: 15 s", "stale: 3600 s")],
     "safety.temperature.stale", "3603 s", "Write “stale: "),
    ("pressure_stale_after_an_hour", [("stale: 10 s", "stale: 3600 s")],
     "safety.over_pressure_heart.stale", "3603 s", "Write “stale: "),
    ("temperature_probe_polled_hourly", [("at: chamber, every: 2 s", "at: chamber, every: 1 h")],
     "devices.t_chamber.every", "acted on within 36", "Write “every: "),
    ("gauge_polled_hourly", [("at: heart, every: 2 s", "at: heart, every: 1 h")],
     "devices.p_heart.every", "“p_heart.pressure” is acted on", "Write “every: "),
    ("ph_probe_polled_hourly", [("at: loop, every: 5 s", "at: loop, every: 1 h")],
     "devices.ph_loop.every", "3600 s", "at most 15 s"),
    ("every_microsecond", [("at: chamber, every: 2 s", "at: chamber, every: 1 us")],
     "devices.t_chamber.every", "faster than atlas-ezo-rtd can be read", "at least 0.8 s"),
    ("every_tenth_of_a_millisecond_on_a_bus", [("at: heart, every: 2 s", "at: heart, every: 0.1 ms")],
     "devices.p_heart.every", "faster than keller-x-line", "at least 0.05 s"),
    ("a_bus_that_is_always_busy", [("at: heart, every: 2 s", "at: heart, every: 60 ms")],
     "devices.p_heart.every", "of link “sim:rs485”", "less often"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "swaps", "key", "what", "fix"), CASES, ids=[case[0] for case in CASES])
def test_I8_check_rejects(
    tmp_path: Path, name: str, swaps: list[tuple[str, str]], key: str, what: str, fix: str
) -> None:
    found = problems_of_text(tmp_path, *swaps)
    named = [problem for problem in found if problem.key == key]
    assert named, f"{name}: {key} is not named: {[str(problem) for problem in found]}"
    assert any(what in problem.what and fix in problem.fix for problem in named), [str(problem) for problem in named]
    text = (tmp_path / "rig.yaml").read_text(encoding="utf-8").splitlines()
    assert (
        key.split(".")[-1].rstrip("0123456789") in text[named[0].line - 1]
        or key.split(".")[-2] in text[named[0].line - 1]
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stale: 15 s", "stale: 3600 s"),
        ("stale: 10 s", "stale: 3600 s"),
        ("at: chamber, every: 2 s", "at: chamber, every: 3600 s"),
        ("at: heart, every: 2 s", "at: heart, every: 3600 s"),
        ("at: loop, every: 5 s", "at: loop, every: 3600 s"),
        ("at: chamber, every: 2 s", "at: chamber, every: 1e-6 s"),
    ],
)
def test_I8_the_named_fix_closes_the_gap(tmp_path: Path, old: str, new: str) -> None:
    """The value that each fix names is written until no gap is left; each round closes one."""
    swaps = [(old, new)]
    for _ in range(3):
        found = problems_of_text(tmp_path, *swaps)
        if not found:
            return
        values = [float(value) for p in found for value in re.findall(r"([0-9.]+) s\b", p.fix)]
        assert values, [str(problem) for problem in found]
        pick = max(values) if "at least" in found[0].fix else min(values)
        swaps = [(old, new.replace(re.findall(r"[0-9.e-]+(?= s$)", new)[0], f"{pick:g}"))]
    raise AssertionError([str(problem) for problem in found])


@pytest.mark.parametrize("rig", SHIPPED, ids=[rig.stem for rig in SHIPPED])
def test_I8_shipped_rigs_have_no_gap(rig: Path) -> None:
    assert problems(rig) == []


def test_I8_swapped_gases_without_declaration_are_seen_by_their_full_scales(tmp_path: Path) -> None:
    undeclared = [(f"gas: {gas}, ", "") for gas in ("air", "co2", "o2")]
    assert problems_of_text(tmp_path, *undeclared) == []
    swapped = [("air: gas_air.flow", "air: gas_co2.flow"), ("co2: gas_co2.flow", "co2: gas_air.flow")]
    assert {problem.key for problem in problems_of_text(tmp_path, *undeclared, *swapped)} == {
        "organs.lung.air",
        "organs.lung.co2",
    }
    equal = [("full_scale_ml_min: 20}", "full_scale_ml_min: 200}")] * 2
    (problem,) = [p for p in problems_of_text(tmp_path, *undeclared, *equal) if p.key == "organs.lung.air"]
    assert "gas: air" in problem.fix


@pytest.mark.parametrize(
    "words", [["check"], ["simulate"], ["lab", "serve"], ["run", "--no-restart"], ["demo", "--rig"], ["plan"]]
)
def test_I8_every_command_that_runs_a_rig_rejects_gaps(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unsafe = tmp_path / "unsafe.yaml"
    unsafe.write_text(BENCH.read_text(encoding="utf-8").replace("stale: 15 s", "stale: 3600 s"), encoding="utf-8")
    (line,) = {problem.line for problem in problems(unsafe)}
    assert main([*words, str(unsafe), *(["prime"] if words == ["plan"] else [])]) == 1
    told = capsys.readouterr()
    assert f"{unsafe}:{line}: safety.temperature.stale" in told.out + told.err
