"""Each organ's figures from hand-made records with answers known beforehand; and no figure where there are no data."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.core.state import Volume
from controller.figures.dialysis import dialysis
from controller.figures.figure import Figure, FigureLimits, FigureStatus
from controller.figures.gut import gut
from controller.figures.heart import counted_up, heart, volume_of_a_turn
from controller.figures.immune import immune, line_through
from controller.figures.kidney import kidney
from controller.figures.liver import liver
from controller.figures.lung import lung
from controller.figures.nerves import nerves
from controller.figures.organs import COMPUTED, organs
from controller.figures.skin import skin
from controller.figures.sources import RecordedNote, Stimulation
from controller.figures.tubing_record import worn
from controller.ledger.terms import Totals
from controller.rig.description import required
from controller.rig.loading import load_rig
from tests.controller.safety.hearts import HEARTS, dish, gauge, pump, three_hearts
from tests.figures.bench import BEGIN, DAY_S, RIG, RIGS, Rows, by_key, dose, sources, steady, value

HEART = RIG.organs.hearts["heart"]
VOLUMES = {name: Volume(vessel.volume_ul, 100.0) for name, vessel in RIG.vessels.items()}


def test_without_any_record_every_figure_says_why_and_none_is_a_made_up_zero() -> None:
    for organ in organs(sources()):
        keys = [figure.key for figure in organ.figures]
        assert len(keys) == len(set(keys)), organ.name
        for figure in organ.figures:
            if figure.value is not None:
                # The journal is the record of transfers: none in it is a true none.
                assert figure.value == 0.0
                assert "no transfer was booked" in figure.basis
            else:
                assert figure.why, figure.key
            assert figure.to_json()["value"] in (None, 0.0)
    assert [organ.name for organ in organs(sources())] == ["heart", *COMPUTED]
    assert set(COMPUTED) == {"gut", "kidney", "liver", "immune", "lung", "skin", "nerves"}


def test_limits_judge_from_the_bad_end() -> None:
    limits = FigureLimits(5.0, 10.0)
    assert [limits.judge(value) for value in (5.0, 5.1, 10.1)] == [
        FigureStatus.GOOD,
        FigureStatus.WATCH,
        FigureStatus.BAD,
    ]
    falling = FigureLimits(7.0, 2.0, upward=False)
    assert [falling.judge(value) for value in (8.0, 6.9, 1.0)] == [
        FigureStatus.GOOD,
        FigureStatus.WATCH,
        FigureStatus.BAD,
    ]


# --- heart ----------------------------------------------------------------------------------------------


def test_the_heart_flow_error_standing_volume_and_turns() -> None:
    flow = [(at, 0.0 if BEGIN + 600 <= at < BEGIN + 1200 else 1800.0) for at, _ in steady(0.0)]
    delivered = [(at, 1800.0 * i) for i, (at, _) in enumerate(steady(0.0))]
    found = by_key(heart(sources({"reglo.heart.flow": flow, "reglo.heart.delivered": delivered}), HEART))
    mean = 1800.0 * 1430 / 1440
    assert value(found["flow"]) == pytest.approx(mean)
    assert value(found["flow_error"]) == pytest.approx(100 * (mean / 2000 - 1))
    assert found["flow_error"].verdict is FigureStatus.WATCH
    assert value(found["standing"]) == 10
    assert found["standing"].verdict is FigureStatus.BAD
    assert value(found["circulated"]) == pytest.approx(mean * 1440 / 1000)
    turn_ul = 81.0 * 1.02**2.08
    assert value(found["revolutions"]) == pytest.approx(1800 * 1439 / turn_ul)
    low, high = found["revolutions"].low, found["revolutions"].high
    assert low is not None
    assert high is not None
    assert high - low == pytest.approx(2 * 1.96 * 0.25 * value(found["revolutions"]))
    assert found["tubing_age"].value is None


def test_turns_that_the_controller_counted_are_taken_at_their_word_through_a_change_of_tubing() -> None:
    rows = Rows()
    for at_h, count in ((-1, 500.0), (1, 600.0), (2, 700.0)):
        rows.add("tubing.turned", {"pumps": {"reglo.heart": {"revolutions": count}}}, at_s=at_h * 3600.0)
    new = {"pump": "reglo.heart", "material": "pharmed-bpt", "life_revolutions": 1000.0}
    rows.add("tubing.installed", new, at_s=12 * 3600.0)
    rows.add("tubing.turned", {"pumps": {"reglo.heart": {"revolutions": 900.0}}}, at_s=20 * 3600.0)
    rows.add("tubing.turned", {"pumps": {"reglo.heart": {"revolutions": 5000.0}}}, at_s=30 * 3600.0)
    tubing = worn(RIG, rows.rows, BEGIN, BEGIN + DAY_S)
    found = by_key(heart(sources(tubing=tubing), HEART))
    assert value(found["revolutions"]) == 200.0 + 900.0
    assert value(found["tubing_age"]) == pytest.approx(0.5)
    assert value(found["tubing_used"]) == pytest.approx(90.0)
    assert found["tubing_used"].verdict is FigureStatus.WATCH


def test_a_running_total_goes_through_a_power_cycle() -> None:
    assert counted_up([100.0, 300.0, 50.0, 80.0]) == 200.0 + 50.0 + 30.0
    assert counted_up([5.0]) is None
    assert counted_up([5.0, 5.0]) == 0.0


def test_a_turn_is_as_large_as_the_rig_file_says() -> None:
    spec = RIG.devices["reglo"].model_copy(update={"settings": {"ul_per_rev": 40.0}})
    rig = RIG.model_copy(update={"devices": {**RIG.devices, "reglo": spec}})
    assert volume_of_a_turn(rig, "reglo.heart")[:2] == (40.0, 0.0)


def test_pulsatility_is_the_swing_over_the_mean() -> None:
    pressure = [(at, 5.0 + (0.5 if number % 2 else -0.5)) for number, (at, _) in enumerate(steady(0.0))]
    assert value(by_key(heart(sources({"p_heart.pressure": pressure}), HEART))["pulsatility"]) == pytest.approx(0.2)


def test_a_flow_sensor_in_the_line_is_compared_with_the_pump() -> None:
    rig = load_rig(RIGS / "other_makers.yaml")
    made = sources({"reglo.heart.flow": steady(2000.0), "liquid.flow": steady(1900.0)}, rig=rig)
    found = by_key(heart(made, HEART))["flow_sensor_error"]
    assert value(found) == pytest.approx(100 * (2000 / 1900 - 1))


def test_each_of_several_hearts_has_figures_of_its_own() -> None:
    rig = three_hearts()
    readings = {
        f"{pump(heart)}.flow": steady(flow) for heart, flow in zip(HEARTS, (2000.0, 1000.0, 500.0), strict=True)
    }
    found = {organ.name: organ for organ in organs(sources(readings, rig=rig))}
    for name, flow in zip(HEARTS, (2000.0, 1000.0, 500.0), strict=True):
        organ = found[f"heart.{name}"]
        assert value(by_key(organ.figures)["flow"]) == flow
        assert organ.title == f"Heart {name}"
        assert (organ.series[0], organ.series[-1]) == (f"{pump(name)}.flow", gauge(name))
    assert "heart" not in found


def test_a_rig_without_a_heart_has_no_figures_of_one() -> None:
    names = [organ.name for organ in organs(sources(rig=dish()))]
    assert not any(name.startswith("heart") for name in names)
    assert "skin" in names, "its thermometer is judged"


# --- gut, kidney, liver ---------------------------------------------------------------------------------


def test_the_gut_is_judged_by_the_balance() -> None:
    doses = [dose("feed", 950.0, asked=1000.0, sd=10.0, at_h=hour) for hour in (1, 9, 17)]
    found = by_key(gut(sources(None, doses, volumes=VOLUMES)))
    assert value(found["fresh"]) == pytest.approx(2.85)
    assert value(found["dose_error"]) == pytest.approx(-5.0)
    low, high = found["dose_error"].low, found["dose_error"].high
    assert low is not None
    assert high is not None
    assert (high - low) / 2 == pytest.approx(1.96 * 100 * math.sqrt(3) * 10 / 3000)
    assert value(found["reservoir_left"]) == pytest.approx(490.0)
    assert value(found["reservoir_run_out"]) == pytest.approx(490.0 / 2.85)
    assert found["reservoir_run_out"].verdict is FigureStatus.GOOD


def test_a_stock_for_a_day_is_bad_and_an_unused_one_has_no_run_out() -> None:
    nearly = {**VOLUMES, "reservoir": Volume(12_000.0, 100.0)}
    found = by_key(gut(sources(None, [dose("feed", 1500.0)], volumes=nearly)))
    assert value(found["reservoir_run_out"]) == pytest.approx(2.0 / 1.5)
    assert found["reservoir_run_out"].verdict is FigureStatus.BAD
    assert "none was used" in by_key(gut(sources(None, [], volumes=VOLUMES)))["reservoir_run_out"].why


def test_doses_that_the_balance_did_not_see_whole_tell_nothing_of_the_pump() -> None:
    blind = dose("feed", 500.0, asked=1000.0, source="command")
    stopped = dose("feed", 500.0, asked=1000.0, ended="stopped")
    found = by_key(gut(sources(None, [blind, stopped])))
    assert "seen whole by the balance" in found["dose_error"].why
    assert value(found["fresh"]) == 1.0


def test_the_kidney_balances() -> None:
    moved = [dose("draw", 18_000.0), dose("return", 17_000.0, asked=17_500.0), dose("discard", 1440.0)]
    totals = Totals(recycled_ul=16_000.0, fresh_ul=4_000.0, unaccounted_ul=-2_000.0)
    found = by_key(kidney(sources(None, moved, volumes=VOLUMES, totals=totals)))
    assert value(found["drawn"]) == 18.0
    assert value(found["returned"]) == 17.0
    assert value(found["net_removed"]) == pytest.approx(1.0)
    assert value(found["return_error"]) == pytest.approx(100 * (17 / 17.5 - 1))
    assert value(found["clearance"]) == pytest.approx(1.0)
    assert value(found["fresh_saved"]) == pytest.approx(80.0), "4 of 20 mL a day"
    assert value(found["unexplained"]) == pytest.approx(-2.0)
    assert found["unexplained"].verdict is FigureStatus.WATCH
    assert "no dialyser" in found["sieving"].why


def assay(analyte: str, mm: float, at_h: float, **rest: Any) -> RecordedNote:
    taken = datetime.fromtimestamp(BEGIN + at_h * 3600.0, UTC).isoformat(timespec="seconds")
    body = {"analyte": analyte, "vessel": "spent", "taken_utc": taken, "value": mm, "sd": 0.01, "used": True}
    return RecordedNote(BEGIN + 20 * 3600.0, {**body, **rest})


def test_a_dialyser_is_judged_by_assays_before_and_after() -> None:
    rig = load_rig(RIGS / "bench_dialysis.yaml")
    organ = required(rig.organs.kidney, "a kidney")
    line = required(organ.dialyse, "a line of dialysate")
    basal = rig.media[rig.vessels[rig.lines[line].from_].contains or ""].lactate_mm
    filled = dose("draw", 18_000.0, at_h=1.0, spent_ul=20_000.0)
    run = dose(line, 60_000.0, at_h=2.0, flow_ul_min=500.0, ended="done")  # two hours
    known = (assay("lactate", basal + 8.0, 1.5), assay("lactate", basal + 2.0, 4.5))
    found = by_key(dialysis(sources(None, [filled, run], rig=rig, assays=known), organ))
    assert value(found["clearance_lactate"]) == pytest.approx(20_000.0 / 120.0 * math.log(4.0))
    assert found["clearance_ammonia"].value is None
    assert "promises" in found["clearance_ammonia"].why
    assert value(found["dialysate"]) == 60.0
    doubted = tuple(replace(note, body={**note.body, "used": False}) for note in known)
    assert (
        by_key(dialysis(sources(None, [filled, run], rig=rig, assays=doubted), organ))["clearance_lactate"].value
        is None
    )


def test_the_liver_tells_ph_doses_and_what_ammonia_left() -> None:
    ph = [(at, 7.45 if at < BEGIN + DAY_S / 2 else 7.15) for at, _ in steady(0.0)]
    interval = {"value": 0.5, "low": 0.4, "high": 0.6}
    medium = {"ammonia_mm": interval, "lactate_mm": interval, "glucose_mm": interval, "osmolality_mosm": interval}
    note = RecordedNote(BEGIN + 1800, {"estimate": {"loop": medium, "spent": medium}})
    moved = [dose("base", 2000.0, asked=2100.0), dose("discard", 3000.0)]
    found = by_key(liver(sources({"ph_loop.ph": ph}, moved, volumes=VOLUMES, estimates=(note,))))
    assert value(found["ph_deviation"]) == pytest.approx(7.30 - required(RIG.organs.lung, "organs.lung").ph_setpoint)
    assert value(found["ph_out"]) == pytest.approx(50.0)
    assert found["ph_out"].verdict is FigureStatus.BAD
    assert value(found["base_given"]) == 2.0
    assert value(found["dose_error"]) == pytest.approx(100 * (2000 / 2100 - 1))
    removed = found["ammonia_removed"]
    assert (value(removed), removed.low, removed.high) == pytest.approx((1.5, 1.2, 1.8))
    assert (found["ammonia_mm"].low, found["ammonia_mm"].high) == (0.4, 0.6)


# --- immune, lung, skin, nerves -------------------------------------------------------------------------


def filtering(kpa: list[float]) -> list[Figure]:
    """One pass of 12 mL in 3 min every two hours, at these pressures, through 4 cm²."""
    passes = [dose("return", 12_000.0, at_h=1.0 + 2 * n, peak_kpa=each + 1) for n, each in enumerate(kpa)]
    pressure = []
    for each, level in zip(passes, kpa, strict=True):
        assert each.begin is not None
        pressure += [(each.begin + second, level) for second in range(0, 300, 2) if second < 180]
        pressure += [(each.begin + second, 0.0) for second in range(180, 300, 2)]
    return immune(sources({"p_filter.pressure": pressure}, passes))


def test_the_filter_is_judged_while_it_filters() -> None:
    found = by_key(filtering([10.0, 10.0, 10.0, 10.0]))
    assert value(found["tmp"]) == pytest.approx(10.0)
    # 12 mL in 3 min through 4 cm²: 4e-3 L/min · 60 / 4e-4 m² = 600 L/(m² h)
    assert value(found["flux"]) == pytest.approx(600.0)
    assert value(found["permeability"]) == pytest.approx(60.0)
    assert value(found["peak"]) == pytest.approx(100 * 11 / 80)
    assert value(found["fouling"]) == pytest.approx(0.0, abs=1e-9)


def test_fouling_is_the_growth_of_resistance_for_each_litre() -> None:
    found = by_key(filtering([10.0, 10.5, 11.0, 11.5, 12.0]))["fouling"]
    assert value(found) == pytest.approx(5.0 / 0.012)  # 5 % with every 12 mL
    assert "needs 4" in by_key(filtering([10.0, 10.5]))["fouling"].why


def test_a_line_has_its_slope_its_error_and_its_start() -> None:
    slope, sd, start = line_through([0.0, 1.0, 2.0, 3.0], [1.0, 3.1, 4.9, 7.0]) or (0.0, 0.0, 0.0)
    assert (slope, start) == pytest.approx((1.98, 1.03))
    rest = sum((y - 1.03 - 1.98 * x) ** 2 for x, y in enumerate([1.0, 3.1, 4.9, 7.0]))
    assert sd == pytest.approx(math.sqrt(rest / 2 / 5.0))
    assert line_through([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None


def test_an_integrity_test_is_told_with_its_pressure() -> None:
    note = RecordedNote(BEGIN + DAY_S / 2, {"peak_kpa": {"value": 11.2, "low": 11.0, "high": 11.4}})
    found = by_key(immune(sources(filter_notes=(note,))))["integrity_tests"]
    assert value(found) == 1
    assert "0.5 d before" in found.basis
    assert "11.2 kPa" in found.basis


def test_the_lung_tells_partial_pressures_and_gas() -> None:
    gas = {"gas_air.flow": steady(45.0), "gas_co2.flow": steady(2.5), "gas_o2.flow": steady(2.5)}
    oxygen = [(at, 50.0 if at < BEGIN + 0.1 * DAY_S else 90.0) for at, _ in steady(0.0)]
    found = by_key(lung(sources({**gas, "do_loop.oxygen": oxygen})))
    assert value(found["pco2"]) == pytest.approx(0.05 * (101.325 - 6.27) * 7.50062)
    assert value(found["po2"]) == pytest.approx(0.86 * 0.2095 * (101.325 - 6.27))
    assert value(found["oxygen_low"]) == pytest.approx(10.0)
    assert found["oxygen_low"].verdict is FigureStatus.BAD
    assert value(found["air_used"]) == pytest.approx(45.0 * 1440 / 1000)
    assert "no step" in found["kla"].why


def test_kla_is_found_after_a_step_of_the_gas() -> None:
    step = BEGIN + 6 * 3600.0
    gas = {
        "gas_air.flow": [(at, 45.0 if at < step else 35.0) for at, _ in steady(0.0)],
        "gas_co2.flow": steady(2.5),
        "gas_o2.flow": [(at, 2.5 if at < step else 12.5) for at, _ in steady(0.0)],
    }
    oxygen = [
        (at, 90.0 if at < step else 130.0 - 40.0 * math.exp(-6.0 * (at - step) / 3600.0)) for at, _ in steady(0.0)
    ]
    found = by_key(lung(sources({**gas, "do_loop.oxygen": oxygen})))["kla"]
    assert value(found) == pytest.approx(6.0, rel=0.01)
    assert "1 of 1" in found.basis


def test_a_step_of_the_gas_that_oxygen_does_not_answer_gives_no_kla() -> None:
    step = BEGIN + 6 * 3600.0
    gas = {
        "gas_air.flow": [(at, 45.0 if at < step else 35.0) for at, _ in steady(0.0)],
        "gas_co2.flow": steady(2.5),
        "gas_o2.flow": [(at, 2.5 if at < step else 12.5) for at, _ in steady(0.0)],
    }
    found = by_key(lung(sources({**gas, "do_loop.oxygen": steady(90.0)})))["kla"]
    assert found.value is None
    assert "no" in found.why


def test_the_skin_tells_how_far_and_how_long() -> None:
    celsius = [(at, 37.1 if at < BEGIN + 0.9 * DAY_S else 37.5) for at, _ in steady(0.0)]
    found = by_key(skin(sources({"t_chamber.temperature": celsius, "relay.heater.duty": steady(48.0)})))
    assert value(found["deviation"]) == pytest.approx(0.14)
    assert value(found["rms"]) == pytest.approx(math.sqrt(0.9 * 0.01 + 0.1 * 0.25))
    assert value(found["out"]) == pytest.approx(10.0)
    assert found["out"].verdict is FigureStatus.WATCH
    assert value(found["duty"]) == pytest.approx(48.0)
    assert value(found["heat"]) == pytest.approx(7.2)
    assert found["humidity"].value is None


def test_the_nerves_tell_electrodes_firing_and_charge() -> None:
    readings = {"nerves.active_electrodes": steady(8.0), "nerves.firing_rate": steady(2.5)}
    given = Stimulation(pulses=120, charge_nc=12.0, unknown=1, refused=3)
    found = by_key(nerves(sources(readings, stimulation=given)))
    assert value(found["active_share"]) == pytest.approx(25.0)
    assert found["active_share"].verdict is FigureStatus.WATCH
    assert value(found["charge"]) == 12.0
    assert "3 requests refused" in found["pulses"].basis
    assert "1 of unknown fate" in found["pulses"].basis
    assert nerves(sources(rig=RIG.model_copy(update={"nerves": None}))) == []
