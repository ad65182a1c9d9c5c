"""`choroid device calibrate-…`: what was measured becomes a record, or is refused with the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choroid.cli import main
from controller.memory.calibrations import (
    FILE,
    Calibration,
    CalibrationError,
    check_sensor,
    current,
    keep,
    pump_fit,
    sensor_fit,
)

RIG = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
RECORD = Calibration(
    "reglo.heart", "pump", "balance", "ada", "2026-01-01T00:00:00.000Z", "2026-01-31T00:00:00.000Z", "bench", 1.02,
    "uL", ((5000.0, 4900.0),), 0.98, 0.0, 0.0,
)  # fmt: skip


def calibrate(tmp_path: Path, kind: str, *words: str) -> int:
    return main(["device", f"calibrate-{kind}", *words, "--rig", str(RIG), "--data", str(tmp_path)])


def test_a_pump_by_balance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ("5 mL=4.9 g", "10 mL=9.8 g")
    assert calibrate(tmp_path, "pump", "reglo.heart", *runs, "--who", "ada", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["gain"] == pytest.approx(0.98)
    assert told["spread"] == pytest.approx(0.0, abs=1e-9)
    assert (told["by"], told["tubing_mm"], told["rig"], told["unit"]) == ("ada", 1.02, "bench", "uL")
    assert told["at_utc"] < told["expires_utc"]
    measured = [number for pair in current(tmp_path)["reglo.heart"].measured for number in pair]
    assert measured == pytest.approx([5000.0, 4900.0, 10000.0, 9800.0])


def test_density_and_stopwatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(tmp_path, "pump", "dose_fresh.pump", "10 mL=10 g", "--density", "1.25 g/mL", "--json") == 0
    assert json.loads(capsys.readouterr().out)["gain"] == pytest.approx(0.8)
    watch = ("--by", "stopwatch", "2 mL/min=9.5 mL in 300 s")
    assert calibrate(tmp_path, "pump", "dose_fresh.pump", *watch, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["gain"], told["unit"]) == (pytest.approx(0.95), "uL/min")
    assert current(tmp_path)["dose_fresh.pump"].method == "stopwatch"  # the newest counts


def test_a_sensor_by_buffers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(tmp_path, "sensor", "ph_loop.ph", "7.00=7.10", "4.00=4.20", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["gain"] * 7.10 + told["offset"] == pytest.approx(7.0)
    assert told["gain"] * 4.20 + told["offset"] == pytest.approx(4.0)
    assert told["unit"] == "pH"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("pump", "reglo.heart", "5 mL=1 g"), "no calibration but a fault"),
        (("pump", "reglo.heart", "5 mL=5 g", "5 mL=4 g"), "measure again"),
        (("pump", "reglo.heart", "5 mL=0 g"), "above 0"),
        (("pump", "reglo.heart", "5 mL"), "cannot be read"),
        (("pump", "reglo.heart", "5 mL=4 s"), "4 s"),
        (("pump", "ph_loop.ph", "5 mL=5 g"), "not a pump"),
        (("pump", "reglo.absent", "5 mL=5 g"), "has no point reglo.absent"),
        (("pump", "reglo.heart", "5 mL=5 g", "--valid", "9 years"), "a year"),
        (("pump", "reglo.heart", "5 mL=5 g", "--density", "13.6 g/mL"), "density"),
        (("sensor", "ph_loop.ph", "7=4", "4=7"), "no working probe"),
        (("sensor", "ph_loop.ph", "7=7", "4=7"), "no working probe"),
        (("sensor", "ph_loop.ph", "7=nan"), "not a number"),
        (("sensor", "ph_loop.ph", "7=3"), "the most that a calibration corrects"),
        (("sensor", "ph_loop.ph", "7=6.4"), "no working electrode"),
        (("sensor", "ph_loop.ph", "7=7", "4=4.6"), "a slope of 80.0%"),
        (("sensor", "ph_loop.ph", "7=7", "4=3.7"), "a slope of 110.0%"),
        (("sensor", "ph_loop.ph", "70=69.8"), "cannot be"),
        (("sensor", "t_chamber.temperature", "37=33"), "the most that a calibration corrects"),
        (("sensor", "t_chamber.temperature", "25=25", "40=39.1"), "a slope of 94.0%"),
        (("sensor", "do_loop.oxygen", "20.9=40"), "the most that a calibration corrects"),
        (("sensor", "p_heart.pressure", "0=25"), "the most that a calibration corrects"),
        (("sensor", "reglo.heart", "7=7"), "not a sensor"),
    ],
)
def test_what_cannot_be_is_refused_and_not_kept(
    words: tuple[str, ...], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(tmp_path, *words) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / FILE).exists()


def test_F5_the_list_says_what_has_expired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "list-calibrations", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing has been calibrated yet\n"
    keep(tmp_path, RECORD)
    keep(tmp_path, replace(RECORD, point="reglo.draw", expires_utc="2999-01-01T00:00:00.000Z"))
    assert main(["device", "list-calibrations", "--data", str(tmp_path)]) == 1
    draw, heart = capsys.readouterr().out.splitlines()
    assert heart.endswith("EXPIRED")
    assert "EXPIRED" not in draw
    assert RECORD.expired("2026-01-31T00:00:00.000Z")
    assert not RECORD.expired("2026-01-30T23:59:59.999Z")


def test_a_record_cut_off_by_a_power_cut_is_passed_over_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = keep(tmp_path, RECORD)
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    assert current(tmp_path) == {"reglo.heart": RECORD}
    keep(tmp_path, replace(RECORD, point="reglo.draw"))
    assert list(current(tmp_path)) == ["reglo.heart", "reglo.draw"]
    path.write_text(whole[:40] + "\n" + whole)
    with pytest.raises(CalibrationError, match=r"calibrations\.jsonl:1 cannot be read"):
        current(tmp_path)


@pytest.mark.parametrize(
    ("was", "edited"),
    [
        (RECORD.expires_utc, "2026-02-31T00:00:00.000Z"),
        (RECORD.expires_utc, "2026-03-01"),
        ('"gain": 1.0', '"gain": "1.0"'),
        ('"gain": 1.0', '"gain": NaN'),
    ],
)
def test_a_typing_error_in_a_record_is_a_damaged_file(was: str, edited: str, tmp_path: Path) -> None:
    """Such a slip was once found where it was first reckoned with, and ended every start."""
    path = keep(tmp_path, replace(RECORD, gain=1.0))
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, edited))
    with pytest.raises(CalibrationError, match=r"calibrations\.jsonl:1 cannot be read"):
        current(tmp_path)


def test_bytes_that_are_no_utf8_are_a_damaged_file_or_a_record_that_was_cut_off(tmp_path: Path) -> None:
    whole = keep(tmp_path, replace(RECORD, by="Müller")).read_text()
    path = tmp_path / "calibrations.jsonl"
    cut = whole.encode().index("ü".encode()) + 1
    path.write_bytes(whole.encode() + whole.encode()[:cut])
    assert current(tmp_path)["reglo.heart"].by == "Müller", "what a power cut left within a letter was never confirmed"
    path.write_bytes(whole.encode() + whole.encode("latin-1"))
    with pytest.raises(CalibrationError, match=r"calibrations\.jsonl:2 cannot be read.*UTF-8"):
        current(tmp_path)


@given(
    gain=st.floats(0.5, 2.0).filter(lambda gain: 0.501 < gain < 1.999),
    asked=st.lists(st.floats(10.0, 1e6), min_size=1, max_size=6),
)
def test_a_perfect_pump_is_fitted_exactly(gain: float, asked: list[float]) -> None:
    fitted, spread = pump_fit([(each, gain * each) for each in asked])
    assert fitted == pytest.approx(gain)
    assert spread == pytest.approx(0.0, abs=1e-9)


def test_F5_every_slope_and_offset_of_a_working_electrode_is_taken_and_none_beyond() -> None:
    """An offset of 4 pH was once accepted. Bounds: slope 85 to 105 %, 0.5 pH (30 mV) at pH 7."""
    for slope_pct in range(50, 141, 5):
        for off in (-4.0, -0.6, -0.45, 0.0, 0.45, 0.6, 4.0):
            slope = slope_pct / 100
            pairs = [(7.0 + off + slope * (true - 7.0), true) for true in (6.5, 7.0, 8.0)]
            works = 85 <= slope_pct <= 105 and abs(off) <= 0.45
            try:
                gain, offset, _ = sensor_fit(pairs)
                check_sensor(pairs, gain, offset, "pH")
                accepted = True
            except CalibrationError:
                accepted = False
            assert accepted == works, (slope, off)


@given(gain=st.floats(0.71, 1.29), offset=st.floats(-3.0, 3.0), readings=st.sets(st.integers(0, 14), min_size=2))
def test_a_perfect_probe_is_fitted_exactly(gain: float, offset: float, readings: set[int]) -> None:
    fitted = sensor_fit([(float(reading), gain * reading + offset) for reading in sorted(readings)])
    assert fitted == pytest.approx((gain, offset, 0.0), abs=1e-6)
