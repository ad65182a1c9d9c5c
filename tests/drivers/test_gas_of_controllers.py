"""The gas that a flow controller is set to is compared with the rig file, set only where the rig says so, and felt (Q3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from choroid.rig_file.check import check_rig
from controller.guard.guarding import guard_plan
from controller.guard.plan import GuardPlan
from controller.links.connect import device_config
from controller.rig.description import DeviceSpec
from controller.rig.document import read_document
from drivers.alicat_mfc import AlicatMfc
from drivers.bronkhorst_propar import BronkhorstPropar
from drivers.commands import Level, LevelStatus
from drivers.device import Device, DeviceConfig
from drivers.errors import DeviceError, WrongDevice
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.alicat_mfc import GASES
from sim.devices.alicat_mfc import AlicatMfc as SimAlicat
from sim.devices.bronkhorst_propar import BronkhorstPropar as SimBronkhorst
from sim.devices.wire import Bus, WireDevice
from sim.serving import open_in_memory
from tests.controller.test_life import RIG
from tests.hazards.files import BENCH
from tests.sim.bench import RecordingPlant

pytestmark = pytest.mark.virtual_time


class Joined:
    def __init__(self, device: Device, sim: WireDevice, plant: RecordingPlant, link: Link) -> None:
        self.device, self.sim, self.plant, self.link = device, sim, plant, link

    @property
    def failure(self) -> DeviceError:
        return self.link.failures["gas"]


@asynccontextmanager
async def controller(
    driver: type[Device],
    build: type[SimAlicat | SimBronkhorst],
    *,
    gas: str = "co2",
    settings: Mapping[str, float | str | bool] | None = None,
    sim_settings: Mapping[str, float | str | bool] | None = None,
    before: str = "",
) -> AsyncIterator[Joined]:
    plant = RecordingPlant(gas__flow=0.0)
    told = {"full_scale_ml_min": 20.0, **(settings or {})}
    address = "A" if driver is AlicatMfc else ""
    spec = DeviceSpec(
        model="test", link="sim:t", address=address, gas=gas or None, settings={**told, **(sim_settings or {})}
    )
    sim = build("gas", spec, plant)
    line = Bus("sim:t", baud=sim.baud)
    line.attach(sim)
    sim.power_on()
    if before and isinstance(sim, SimAlicat):
        sim.command(before)

    async def opener(_url: LinkUrl, _settings: LineSettings) -> Streams:
        return open_in_memory(line)

    link = Link(LinkUrl.parse("sim:t"), opener, line=driver.line)
    device = driver(link, DeviceConfig("gas", address, told, gas=gas))
    await link.start()
    try:
        yield Joined(device, sim, plant, link)
    finally:
        await link.close()
        sim.power_off()


WRONG = [
    pytest.param(AlicatMfc, SimAlicat, {"gas": "N2", "firmware": version}, id=f"alicat-{version}")
    for version in ("5v12", "8v30", "10v05")
] + [pytest.param(BronkhorstPropar, SimBronkhorst, {"fluid": "N2"}, id="bronkhorst")]
RIGHT = [
    pytest.param(AlicatMfc, SimAlicat, id="alicat"),
    pytest.param(BronkhorstPropar, SimBronkhorst, id="bronkhorst"),
]


@pytest.mark.parametrize(("driver", "build", "sim_settings"), WRONG)
async def test_Q3_a_controller_that_is_set_to_another_gas_is_the_wrong_device(
    driver: type[Device], build: type[SimAlicat | SimBronkhorst], sim_settings: dict[str, str]
) -> None:
    async with controller(driver, build, sim_settings=sim_settings) as rig:
        assert isinstance(rig.failure, WrongDevice)
        assert "it is set to N2, and the rig file says CO2" in str(rig.failure)
        with pytest.raises(DeviceError):
            await rig.device.actuators["flow"].apply(Level(3.0))
        assert rig.plant.last("gas.flow") == 0.0


@pytest.mark.parametrize("gas", ["air", "co2", "o2", ""])
@pytest.mark.parametrize(("driver", "build"), RIGHT)
async def test_Q3_a_controller_that_is_set_to_the_gas_of_the_rig_gives_what_it_reports(
    driver: type[Device], build: type[SimAlicat | SimBronkhorst], gas: str
) -> None:
    async with controller(driver, build, gas=gas) as rig:
        assert rig.link.failures == {}
        await rig.device.actuators["flow"].apply(Level(3.0))
        assert rig.plant.last("gas.flow") == pytest.approx(3.0, rel=0.001)
        status = await rig.device.actuators["flow"].status()
        assert isinstance(status, LevelStatus)
        assert status.measured == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize(
    ("driver", "build", "sim_settings", "true_ml_min"),
    [
        (AlicatMfc, SimAlicat, {"gas": "N2"}, 3.0 * 178.0 / 149.3),
        (BronkhorstPropar, SimBronkhorst, {"fluid": "N2"}, 3.0 * 0.74),
    ],
)
async def test_Q3_the_simulator_gives_another_flow_for_another_gas(
    driver: type[Device],
    build: type[SimAlicat | SimBronkhorst],
    sim_settings: dict[str, str],
    true_ml_min: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver that does not compare reports 3 mL/min, and another flow reaches the medium."""

    async def unchecked(*_: object) -> None:
        return

    monkeypatch.setattr(driver, "_require_gas", unchecked)
    async with controller(driver, build, sim_settings=sim_settings) as rig:
        await rig.device.actuators["flow"].write(3.0)  # type: ignore[attr-defined]
        assert rig.plant.last("gas.flow") == pytest.approx(true_ml_min, rel=0.001)


@pytest.mark.parametrize("version", ["5v12", "8v30", "10v05"])
async def test_Q3_the_gas_is_selected_only_where_the_rig_says_so_and_nothing_flows(version: str) -> None:
    told = {"gas": "N2", "firmware": version}
    async with controller(AlicatMfc, SimAlicat, settings={"set_gas": True}, sim_settings=told) as rig:
        assert isinstance(rig.sim, SimAlicat)
        assert rig.link.failures == {}
        assert GASES[rig.sim.gas] == "CO2"
    async with controller(AlicatMfc, SimAlicat, settings={"set_gas": True}, sim_settings=told, before="AS 5") as rig:
        assert isinstance(rig.sim, SimAlicat)
        assert isinstance(rig.failure, WrongDevice)
        assert GASES[rig.sim.gas] == "N2", "while gas flows, a change would change the flow"


async def test_Q3_a_gas_that_is_changed_at_the_panel_is_found_by_the_next_poll() -> None:
    async with controller(AlicatMfc, SimAlicat) as rig:
        await rig.device.actuators["flow"].apply(Level(3.0))
        assert isinstance(rig.sim, SimAlicat)
        rig.sim.command("AG 8")
        assert rig.plant.last("gas.flow") == pytest.approx(3.0 * 178.0 / 149.3, rel=0.001)
        await asyncio.sleep(1.0)
        with pytest.raises(WrongDevice, match="set to N2"):
            await rig.device.sensors["flow"].read()


class Silent(SimBronkhorst):
    """An instrument without parameter 17."""

    def _value(self, parameter: tuple[int, int]) -> int | float | bytes | None:
        return None if parameter == (1, 17) else super()._value(parameter)


class Nameless(SimBronkhorst):
    """An instrument whose fluid has no name."""

    def _value(self, parameter: tuple[int, int]) -> int | float | bytes | None:
        return b" " * 10 if parameter == (1, 17) else super()._value(parameter)


@pytest.mark.parametrize("instrument", [Silent, Nameless])
async def test_Q3_an_instrument_that_does_not_tell_its_fluid_needs_a_person_who_has_read_its_label(
    instrument: type[SimBronkhorst],
) -> None:
    async with controller(BronkhorstPropar, instrument) as rig:
        assert isinstance(rig.failure, WrongDevice)
        assert "it does not tell its fluid" in str(rig.failure)
        assert "gas_by_label: true" in str(rig.failure)
        with pytest.raises(DeviceError):
            await rig.device.actuators["flow"].apply(Level(3.0))
        assert rig.plant.last("gas.flow") == 0.0
    async with controller(BronkhorstPropar, instrument, settings={"gas_by_label": True}) as rig:
        assert rig.link.failures == {}
        assert "does not tell its fluid: co2 by its label" in str(await rig.device.verify())
    async with controller(BronkhorstPropar, instrument, gas="") as rig:
        assert rig.link.failures == {}


async def test_Q3_the_statement_of_a_label_does_not_outweigh_what_the_instrument_tells() -> None:
    stated: dict[str, float | str | bool] = {"gas_by_label": True}
    async with controller(BronkhorstPropar, SimBronkhorst, settings=stated, sim_settings={"fluid": "N2"}) as rig:
        assert "it is set to N2, and the rig file says CO2" in str(rig.failure)


def test_Q3_check_names_a_gas_that_only_a_label_tells(tmp_path: Path) -> None:
    data = json.loads(json.dumps(read_document(BENCH).data))
    stated = {"full_scale_ml_min": 20, "gas_by_label": True}
    data["devices"]["gas_co2"] = {
        "model": "bronkhorst-propar", "gas": "co2", "link": "sim:co2", "every": "5 s", "settings": stated,
    }  # fmt: skip
    path = tmp_path / "rig.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    answer = check_rig(path)
    assert answer["ok"], answer["problems"]
    assert any("nothing checks that gas_co2 gives co2" in warning for warning in answer["warnings"])
    assert not any("label" in warning for warning in check_rig(BENCH)["warnings"])


async def test_Q3_the_gas_of_the_rig_reaches_driver_and_guard() -> None:
    spec = RIG.devices["gas_co2"]
    assert device_config("gas_co2", spec).gas == "co2"
    plan = GuardPlan.from_json(guard_plan(RIG).to_json())
    assert {each.name: each.config.gas for each in plan.devices if each.name.startswith("gas")} == {
        "gas_air": "air",
        "gas_co2": "co2",
        "gas_o2": "o2",
    }
    assert replace(device_config("gas_co2", spec), gas="").gas == ""
