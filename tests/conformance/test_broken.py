"""The kit is no rubber stamp: each broken driver is caught, and by the property that is meant for it (J1)."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from choroid.cli import main
from choroid.tools.conformance.benches import all_benches, lab_bench
from choroid.tools.conformance.lab_end import LabEnd
from choroid.tools.conformance.table import in_virtual_time
from drivers.conformance.bench import Bench
from drivers.conformance.examine import examine
from drivers.conformance.properties import PROPERTIES
from drivers.device import Device
from verification.conformance.broken import ALL, GENERIC
from verification.conformance.broken.making import Broken, SensorLayer, around_sensors
from verification.conformance.broken.modbus_device import modbus_bench
from verification.conformance.broken.text_device import text_bench
from verification.conformance.score import pairs, score, trials, try_broken

TRIALS = trials()
FIRST_REPORT = {
    "no effect": "effect",
    "scaled by 100": "truth",
    "stuck": "truth",
    "sign reversed": "truth",
    "direction reversed": "effect",
    "total times 10": "total",
    "task left": "left-behind",
    "blocks for 20 ms": "no-blocking",
    "anybody will do": "impostor",
    "checksum ignored": "checksum",
}
"""What the kit let pass when it was examined from outside, and what must catch it."""


@pytest.mark.parametrize(("broken", "bench"), TRIALS, ids=[f"{one}-{bench}" for one, bench in TRIALS])
def test_J1_a_broken_driver_is_caught_by_its_property(broken: Broken, bench: Bench) -> None:
    outcome = try_broken(broken, bench, in_virtual_time)
    assert (outcome.outcome, outcome.others) == ("caught", ()), outcome.told
    assert outcome.told not in ("", "None"), "its author must know what is wrong"


def test_J1_what_the_kit_once_let_pass_is_among_the_broken_drivers() -> None:
    assert {one.name: one.property for one in ALL if one.name in FIRST_REPORT} == FIRST_REPORT


def test_J1_there_are_enough_broken_drivers_and_every_property_has_one() -> None:
    assert len({one.name for one in ALL}) == len(ALL) >= 60
    assert {one.property for one in ALL} == set(PROPERTIES)
    assert [one.name for one in ALL] == [one.name for one, _ in TRIALS], "one fits no bench of the lab"


def test_J1_broken_drivers_are_spread_over_the_kinds_of_devices() -> None:
    kinds = {bench.driver.model.kind for _, bench in TRIALS}
    assert kinds == {"pump", "sensor", "gas", "balance", "relay", "thermostat", "valve", "analyser"}


@pytest.mark.parametrize("bench", [text_bench(), modbus_bench()], ids=str)
def test_J1_the_drivers_that_are_broken_on_purpose_are_sound_before(bench: Bench) -> None:
    verdicts = examine(bench, in_virtual_time)
    assert {each.property: each.told for each in verdicts if each.outcome == "fail"} == {}


def test_J1_a_driver_that_hangs_is_given_up_and_the_kit_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    class Spinning(SensorLayer):
        async def read(self) -> float:
            while True:
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    continue

    caplog.set_level(logging.CRITICAL, "asyncio")
    (one,) = (bench for bench in all_benches() if bench.model == "keller-x-line")
    bench = around_sensors(Spinning)(one)
    asked = {name: PROPERTIES[name] for name in ("truth", "own-address")}
    truth, address = examine(bench, in_virtual_time, asked, max_s=1.0)
    assert truth.outcome == "fail"
    assert "it has not ended after 1 s of real time" in truth.told
    assert address.outcome == "pass"


def test_J1_a_driver_that_blocks_the_thread_is_given_up() -> None:
    class Blocking(SensorLayer):
        async def read(self) -> float:
            while True:
                pass

    bench = around_sensors(Blocking)(lab_bench("mettler-sics"))
    (verdict,) = examine(bench, in_virtual_time, {"truth": PROPERTIES["truth"]}, max_s=1.0)
    assert "it has not ended after 1 s of real time" in verdict.told


def test_J1_a_bench_that_does_not_know_the_truth_lets_broken_drivers_pass_and_is_told() -> None:
    """A bench whose total is what the pump says itself cannot judge that total."""

    class Credulous(LabEnd):
        def delivered(self) -> dict[str, float]:
            return {"pump": 0.0}

    sound = lab_bench("longer-0xe9")
    weak = replace(sound, far_end=lambda config: Credulous("longer-0xe9", config))
    (no_total,) = (one for one in GENERIC if one.name == "no total")
    assert try_broken(no_total, sound, in_virtual_time).outcome == "caught"
    assert try_broken(no_total, weak, in_virtual_time).outcome == "missed"
    (verdict,) = examine(weak, in_virtual_time, {"total": PROPERTIES["total"]})
    assert verdict.outcome == "fail"


def test_J1_a_far_end_may_leave_out_its_outputs_at_rest() -> None:
    class Sparing(LabEnd):
        def outputs(self) -> dict[str, float]:
            return {point: value for point, value in super().outputs().items() if value}

    bench = replace(lab_bench("longer-0xe9"), far_end=lambda config: Sparing("longer-0xe9", config))
    asked = {name: PROPERTIES[name] for name in ("effect", "stopped", "restarted", "power-cut", "readback", "dose")}
    verdicts = examine(bench, in_virtual_time, asked)
    assert {each.property: (each.outcome, each.told) for each in verdicts} == dict.fromkeys(asked, ("pass", ""))


def test_J1_a_sensor_of_which_the_bench_states_no_truth_fails() -> None:
    bench = replace(lab_bench("keller-x-line"), senses={})
    (verdict,) = examine(bench, in_virtual_time, {"truth": PROPERTIES["truth"]})
    assert verdict.outcome == "fail"
    assert "the bench does not say what is true at sensor pressure" in verdict.told


def test_a_broken_driver_that_falls_over_its_own_feet_is_not_caught() -> None:
    def spoil(bench: Bench) -> Bench:
        def change(self: Device, *_: object) -> None:
            raise AttributeError("a slip")

        return replace(bench, driver=type("Slip", (bench.driver,), {"__init__": change}))

    slip = Broken("slip", "a slip of its author", "truth", spoil, lambda bench, points: True)
    assert try_broken(slip, lab_bench("keller-x-line"), in_virtual_time).outcome == "missed"


def test_one_broken_driver_is_tried_on_every_bench_that_it_fits_when_asked() -> None:
    (reversed_,) = (one for one in GENERIC if one.name == "direction reversed")
    found = [bench.model for _, bench in pairs(all_benches(), [reversed_], every=True)]
    assert {"ismatec-reglo-icc", "ismatec-reglo-digital", "longer-0xe9", "masterflex-ls"} <= set(found)
    assert "modbus-coil-relay" not in found


def test_the_score_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "conformance", "keller-x-line", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["caught"] == answer["of"] > 20
    assert {each["model"] for each in answer["broken"]} == {"keller-x-line"}
    assert all(each["property"] in PROPERTIES for each in answer["broken"])


def test_the_score_names_what_was_missed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sound = lab_bench("keller-x-line")
    weak = replace(sound, impostors={})
    monkeypatch.setattr("verification.conformance.score.all_benches", lambda models: [weak])
    monkeypatch.setattr(
        "verification.conformance.score.GENERIC", [one for one in GENERIC if one.property == "impostor"]
    )
    answer = score(["keller-x-line"])
    assert (answer["caught"], answer["of"]) == (0, 1)
    assert main(["verify", "conformance", "keller-x-line"]) == 1
    told = capsys.readouterr().out
    assert "MISSED" in told
    assert "the bench has no other device to put in its place" in told
    assert told.endswith("0 of 1 broken drivers caught\n")
