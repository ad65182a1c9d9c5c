"""Probes that must agree are compared; a disagreement names the suspects (I10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.hazards.table import hazards_of
from controller.process.controller import Controller
from controller.readings.agreement import KIND
from controller.rig.agreement import balanced, same_medium
from controller.rig.loading import load_rig
from tests.controller.test_several_hearts import laboratory, living

pytestmark = pytest.mark.virtual_time
RIGS = Path(__file__).parents[2] / "examples" / "rigs"
COMPARED = [
    path.stem for path in sorted(RIGS.glob("*.yaml")) if same_medium(load_rig(path)) or balanced(load_rig(path))
]


def disagreements(controller: Controller) -> dict[str, str]:
    return {each.source: each.detail for each in controller.alarms.active() if each.kind == KIND}


@pytest.mark.parametrize(
    ("name", "point", "offset", "suspects"),
    [
        ("bench", "ph_spent.ph", 0.4, ("ph_loop.ph", "ph_spent.ph")),
        ("bench", "do_loop.oxygen", -40.0, ("do_loop.oxygen", "gas_o2.flow")),
        ("bench_monitored", "six.temperature", 1.6, ("six.temperature", "t_chamber.temperature")),
        ("straw_vial", "t_vial.temperature", -2.5, ("t_vial.temperature", "block.setpoint")),
        ("bench", "t_chamber.temperature", -2.5, ("t_chamber.temperature", "relay.heater")),
    ],
)
async def test_I10_an_offset_between_probes_names_both(
    tmp_path: Path, name: str, point: str, offset: float, suspects: tuple[str, ...]
) -> None:
    rig = load_rig(RIGS / f"{name}.yaml")
    async with laboratory(rig) as lab, living(lab, rig, tmp_path) as controller:
        await asyncio.sleep(3600.0)
        assert disagreements(controller) == {}
        lab.plant.faults.sensor_offset[point] = offset
        for _ in range(5 * 60):
            await asyncio.sleep(60.0)
            if found := disagreements(controller):
                break
        assert [source for source in found if point in source], found
        text = " ".join(found.values())
        assert all(suspect in text for suspect in suspects), text
        assert "Next: " in text
        assert lab.plant.truth().temperature_c < 39.5


@pytest.mark.parametrize(("name", "held_c"), [("bench", 33.5), ("bench_monitored", 36.5)])
async def test_I10_a_colder_room_is_believed_if_a_second_thermometer_agrees(
    tmp_path: Path, name: str, held_c: float
) -> None:
    rig = load_rig(RIGS / f"{name}.yaml")
    async with laboratory(rig) as lab, living(lab, rig, tmp_path) as controller:
        await asyncio.sleep(5400.0)
        lab.plant.fleet.spaces["ambient_c"] -= 6.0
        await asyncio.sleep(7200.0)
        warm = lab.plant.truth().temperature_c
        told = any("t_chamber" in source for source in disagreements(controller))
    assert (warm > held_c, told) == (name == "bench_monitored", name == "bench"), warm


async def test_I10_a_thermometer_that_a_second_one_contradicts_does_not_overheat(tmp_path: Path) -> None:
    rig = load_rig(RIGS / "bench_monitored.yaml")
    async with laboratory(rig) as lab, living(lab, rig, tmp_path) as controller:
        await asyncio.sleep(5400.0)
        lab.plant.faults.sensor_offset["t_chamber.temperature"] = -2.5
        for _ in range(8):
            await asyncio.sleep(900.0)
            assert lab.plant.truth().temperature_c < 39.0
        assert disagreements(controller)


@pytest.mark.long
@pytest.mark.parametrize("name", COMPARED)
async def test_I10_a_sound_rig_raises_no_disagreement(tmp_path: Path, name: str) -> None:
    rig = load_rig(RIGS / f"{name}.yaml")
    async with laboratory(rig) as lab, living(lab, rig, tmp_path) as controller:
        await asyncio.sleep(2.5 * 3600.0)
        assert disagreements(controller) == {}


@pytest.mark.parametrize("path", sorted(RIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_I8_a_probe_that_drifts_alone_is_in_the_table_with_its_remedy(path: Path) -> None:
    rig = load_rig(path)
    rows = {row.place: row for row in hazards_of(rig) if row.id.startswith("drift_")}
    followed = {each.point for each in balanced(rig)} | {point for group in same_medium(rig) for point in group.points}
    assert followed <= rows.keys()
    for row in rows.values():
        assert row.residual == ("fit a second" in row.note), row
    skin = rig.organs.skin
    if skin is not None and rows[skin.temperature].residual:
        assert "limiting thermostat" in rows[skin.temperature].note
