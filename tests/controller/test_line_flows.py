"""Flow sensors in the lines of a heart: a line that is blocked or leaks is an alarm; a pump that rests or starts is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.rig_file.check import check_rig
from choroid.simulation.simulate import simulate
from controller.alarms.definitions import DEFINITIONS
from controller.core.state import ActuatorView, Reading, State
from controller.process.controller import Controller
from controller.readings.line_flows import SETTLED_S, LineFlows
from controller.rig.description import Rig
from controller.rig.flow_sensors import expected_flows
from controller.rig.loading import load_rig
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from drivers.registry import MODELS
from sim.lab import SimulatedLab

RIGS = Path(__file__).resolve().parents[1] / "rigs"
SENSOR = {"model": "sensirion-slf3x", "every": "2 s"}
PUMP = "pump.pump"


def plates(folder: Path) -> Path:
    """Return two plates with a flow sensor in the heart's line and in each branch."""
    data: dict[str, Any] = yaml.safe_load((RIGS / "two_plates.yaml").read_text(encoding="utf-8"))
    for name, line in (("f_heart", "heart"), ("f_a", "to_a"), ("f_b", "to_b")):
        data["devices"][name] = SENSOR | {"link": f"sim:{name}", "at": line}
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return load_rig(plates(tmp_path), models=MODELS)


class Bench:
    """The watched flows of a rig, tick by tick."""

    def __init__(self, rig: Rig) -> None:
        self.flows = LineFlows(rig)
        self.at_s = 0.0
        self.unseen: list[tuple[str, str]] = []

    def run(self, seconds: float, *, pump: float, readings: dict[str, float | None]) -> dict[tuple[str, str], str]:
        """Let the pump report a flow and the sensors show theirs; None for a sensor that fails."""
        causes: dict[tuple[str, str], str] = {}
        for _ in range(int(seconds)):
            self.at_s += 1.0
            view = ActuatorView(
                PumpStatus(pump > 0.0, pump, 0.0, 1.0), self.at_s, Run(pump), Run(pump), Guarantee.DEVICE
            )
            seen = {
                point: Reading(value or 0.0, "uL/min", Quality.MISSING if value is None else Quality.GOOD, self.at_s)
                for point, value in readings.items()
            }
            causes, self.unseen = {}, []
            self.flows.update(State(self.at_s, "", seen, {PUMP: view}, {}, (), {}), causes, self.unseen)
        return causes


def test_each_sensor_is_compared_with_its_share_of_the_pump(rig: Rig) -> None:
    assert expected_flows(rig) == {"f_heart.flow": (PUMP, 1.0), "f_a.flow": (PUMP, 0.5), "f_b.flow": (PUMP, 0.5)}


@pytest.mark.parametrize(
    ("heart", "a", "b", "wrong"),
    [
        (2000.0, 1000.0, 1000.0, []),
        (1500.0, 700.0, 800.0, []),
        (1300.0, 650.0, 650.0, ["f_heart.flow"]),
        (2000.0, 100.0, 1900.0, ["f_a.flow", "f_b.flow"]),
        (0.0, 0.0, 0.0, ["f_heart.flow", "f_a.flow", "f_b.flow"]),
        (-2000.0, 1000.0, 1000.0, ["f_heart.flow"]),
    ],
)
def test_a_flow_that_is_not_that_of_the_pump_is_found(
    rig: Rig, heart: float, a: float, b: float, wrong: list[str]
) -> None:
    readings: dict[str, float | None] = {"f_heart.flow": heart, "f_a.flow": a, "f_b.flow": b}
    found = Bench(rig).run(SETTLED_S + 60.0, pump=2000.0, readings=readings)
    assert {point for _, point in found} == set(wrong)


def test_nothing_is_said_of_a_pump_at_rest_one_that_starts_or_a_sensor_that_fails(rig: Rig) -> None:
    bench = Bench(rig)
    none: dict[str, float | None] = {"f_heart.flow": 0.0, "f_a.flow": 0.0, "f_b.flow": 0.0}
    assert bench.run(300.0, pump=0.0, readings=none) == {}
    assert bench.run(SETTLED_S - 1.0, pump=2000.0, readings=none) == {}
    assert len(bench.run(30.0, pump=2000.0, readings=none)) == 3
    assert bench.run(10.0, pump=1000.0, readings=none) == {}, "another flow is settled first"
    lost: dict[str, float | None] = dict.fromkeys(none)
    assert bench.run(200.0, pump=1000.0, readings=lost) == {}
    assert ("line_flow", "f_a.flow") in bench.unseen, "an alarm that stands is not cleared by a lost sensor"


def test_a_pulsating_flow_counts_by_its_mean(rig: Rig) -> None:
    bench = Bench(rig)
    found = {}
    for turn in range(120):
        flow = 2000.0 * (1.0 + (0.8 if turn % 2 else -0.8))
        found = bench.run(1.0, pump=2000.0, readings={"f_heart.flow": flow, "f_a.flow": 1000.0, "f_b.flow": 1000.0})
    assert found == {}


def test_the_hazard_table_knows_the_sensor_of_a_branch(tmp_path: Path) -> None:
    rows = {row["hazard"]: row for row in check_rig(plates(tmp_path))["hazards"]}
    assert (rows["blocked_to_a"]["sensor"], rows["blocked_to_a"]["interlock"]) == (
        "f_a.flow",
        "line_flow: alarm; a person acts",
    )
    assert rows["blocked_to_a"]["detection_s"] == 4.0 + 20.0 + DEFINITIONS["line_flow"].on_delay_s
    assert "line_flow: alarm of f_heart.flow" in rows["loss_of_flow"]["interlock"]


def test_air_in_a_line_is_found_and_a_lost_sensor_clears_nothing(rig: Rig) -> None:
    bench = Bench(rig)
    assert bench.run(1.0, pump=0.0, readings={"f_a.air": 0.0}) == {}
    assert list(bench.run(1.0, pump=0.0, readings={"f_a.air": 1.0})) == [("air_in_line", "f_a.air")]
    assert bench.run(1.0, pump=0.0, readings={"f_a.air": None}) == {}
    assert ("air_in_line", "f_a.air") in bench.unseen


def test_a_blocked_branch_raises_its_alarm_and_a_sound_rig_raises_none(tmp_path: Path) -> None:
    alarms: list[list[str]] = []

    def watch(_: float, lab: SimulatedLab, controller: Controller) -> None:
        alarms.append([alarm.id for alarm in controller.alarms.active() if alarm.kind in ("line_flow", "air_in_line")])
        lab.plant.faults.flow_scale["to_a"] = 0.02

    simulate(plates(tmp_path), days=0.09, seed=1, watch=watch)
    assert alarms[0] == []
    assert set(alarms[-1]) == {"line_flow:f_a.flow", "line_flow:f_b.flow"}
