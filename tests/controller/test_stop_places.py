"""The two places of the emergency stop, and a rig that does not know whether one stands (B3)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from choroid.common import child
from choroid.running import data_folder, folder_probe
from choroid.running.data_folder import open_folder
from controller.gate import runtime_folders
from controller.gate.latch import NAME, UNKNOWN, Latch, SecondPlace, StopRecord
from controller.safety.kernel import decide
from controller.safety.terms import Intent
from drivers.commands import Dispense, Level, LevelStatus, Run, Stop, Switch
from sim.lab import SimulatedLab
from tests.controller.safety.facts import CO2, DRAW, HEART, HEATER, LIMITS, VALVE, peace
from tests.nerves.test_emergency_stop import RIG, Stimulated, made


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime folder, the only private folder of this machine."""
    for module in (runtime_folders, data_folder):
        monkeypatch.setattr(module, "SERVICE", tmp_path / "none")
        monkeypatch.setattr(module, "shared_bases", lambda user: [])
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run"


def test_B3_a_stop_is_kept_in_two_places_and_either_is_enough(tmp_path: Path, private: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    latch = Latch(data, SecondPlace(data))
    assert SecondPlace(data).read() == (False, None), "nothing has been recorded"
    latch.confirm()
    assert SecondPlace(data).read() == (True, None), "it is known that none stands"
    latch.set("anna", "smoke")
    (data / NAME).unlink()
    assert latch.read() == StopRecord("anna", "smoke")
    latch.set("anna", "smoke")
    shutil.rmtree(private)
    assert latch.read() == StopRecord("anna", "smoke")
    private.mkdir(mode=0o700)
    latch.clear()
    assert latch.read() is None
    assert SecondPlace(data).read() == (True, None)


def test_B3_a_stop_is_kept_where_the_data_folder_takes_no_file(tmp_path: Path, private: Path) -> None:
    gone = tmp_path / "gone"
    Latch(gone, SecondPlace(gone)).set("anna", "smoke")
    assert SecondPlace(gone).read() == (True, StopRecord("anna", "smoke"))
    with pytest.raises(OSError, match="gone"):
        Latch(gone).set("anna", "smoke")


@pytest.mark.parametrize("recorded", ["stop", "none", "nothing"])
def test_B3_a_data_folder_that_hangs_leaves_the_state_of_the_stop_known_by_the_second_place(
    recorded: str, tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if recorded != "nothing":
        Latch(data, SecondPlace(data)).confirm()
    if recorded == "stop":
        Latch(data, SecondPlace(data)).set("anna", "smoke")
    monkeypatch.setattr(folder_probe, "ANSWER_S", 0.3)
    monkeypatch.setattr(folder_probe, "python", lambda module: ["sh", "-c", "echo ready; exec sleep 20"])
    folder = open_folder(data, "{}")
    assert folder.records != data
    stop = Latch(folder.records, SecondPlace(folder.records)).read()
    match recorded:
        case "stop":
            assert stop == StopRecord("anna", "smoke")
        case "none":
            assert stop is None
        case _:
            assert stop == StopRecord("unknown", UNKNOWN, known=False)
            assert "Whether an emergency stop stands is not known" in folder.problem
    monkeypatch.setattr(folder_probe, "ANSWER_S", 10.0)
    monkeypatch.setattr(folder_probe, "python", child.python)
    assert open_folder(data, "{}").records == data
    assert Latch(data).read() == (StopRecord("anna", "smoke") if recorded == "stop" else None)


def test_B3_a_stop_that_may_stand_holds_what_moves_fluid_and_nothing_else() -> None:
    unknown = peace(emergency="unknown: not readable", emergency_known=False)
    for actuator, command in (
        (HEART, Run(2000.0)),
        (DRAW, Dispense(100.0, 1000.0, "a dose")),
        (VALVE, Switch(True, 5.0)),
    ):
        verdict = decide(Intent(actuator, command, "test", "a test"), unknown, LIMITS)
        assert not verdict.accepted
        assert any("not readable" in reason for reason in verdict.reasons)
    assert decide(Intent(HEART, LIMITS.basal[HEART], "test", "a test"), unknown, LIMITS).accepted
    assert decide(Intent(DRAW, Stop(), "test", "a test"), unknown, LIMITS).accepted
    for intent in (
        Intent(HEATER, Switch(True, 1.0), "test", "a test"),
        Intent(CO2, Level(2.0), "test", "a test"),
    ):
        assert decide(intent, unknown, LIMITS) == decide(intent, peace(), LIMITS)
        assert not decide(intent, peace(emergency="anna: smoke"), LIMITS).accepted


@pytest.mark.virtual_time
async def test_B3_a_rig_that_does_not_know_waits_at_basal_flow_with_heat_and_gas_until_a_person_decides(
    tmp_path: Path,
) -> None:
    lab = SimulatedLab(RIG, seed=1)
    before = made(tmp_path, lab, Stimulated())
    await before.start()
    await before.close(leave_running=True)
    Latch(tmp_path).set("unknown", UNKNOWN, known=False)
    stimulated = Stimulated()
    controller = made(tmp_path, lab, stimulated)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        await asyncio.sleep(600.0)
        assert 1400.0 < lab.plant.truth().flows_ul_min["heart"] < 1900.0
        assert stimulated.orders[0].startswith("forbidden")
        gas = controller.store.state.actuators["gas_co2.flow"].status
        assert isinstance(gas, LevelStatus)
        assert gas.setpoint > 0.0
        assert abs(controller.store.readings["t_chamber.temperature"].value - 37.0) < 0.5
        assert "emergency_stop" in {alarm.kind for alarm in controller.alarms.active()}
        await controller.emergency_reset("ben", "no stop stood")
        await asyncio.sleep(60.0)
        assert lab.plant.truth().flows_ul_min["heart"] > 1800.0
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()
