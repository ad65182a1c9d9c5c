"""Connecting and sampling a whole rig over the wire: one table of failures, every device on its own period (C1, C3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from controller.core.state import Reading, StateStore
from controller.links.connect import ConnectError
from controller.links.connected_rig import ConnectedRig
from controller.rig.loading import load_rig
from drivers.commands import Quality
from drivers.device import Actuator
from drivers.errors import DeviceError
from sim.lab import SimulatedLab

pytestmark = pytest.mark.virtual_time

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
LINKS = {spec.link for spec in RIG.devices.values()}


class Store(StateStore):
    """A store that remembers when each reading was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, list[float]] = {}

    def read(
        self,
        point: str,
        value: float,
        unit: str,
        quality: Quality,
        at_s: float,
        detail: str = "",
        *,
        stable: bool = True,
    ) -> bool:
        self.times.setdefault(point, []).append(at_s)
        return super().read(point, value, unit, quality, at_s, detail, stable=stable)


class Polls:
    """Asks actuators for their status as the gate does."""

    def __init__(self, actuators: dict[str, Actuator]) -> None:
        self.actuators = actuators
        self.times: dict[str, list[float]] = {name: [] for name in actuators}
        self.faults: dict[str, str] = {}

    async def __call__(self, name: str) -> None:
        try:
            await self.actuators[name].status()
        except DeviceError as error:
            self.faults[name] = str(error)
        else:
            self.faults.pop(name, None)
            self.times[name].append(asyncio.get_running_loop().time())


@asynccontextmanager
async def sampled(lab: SimulatedLab) -> AsyncIterator[tuple[ConnectedRig, Store, Polls]]:
    store = Store()
    body = await ConnectedRig.connect(RIG, lab.opener, store)
    polls = Polls(body.hand_over_actuators())
    try:
        await body.begin(polls)
        yield body, store, polls
    finally:
        await body.close()
        await lab.close()


def longest_gap(times: list[float], begin_s: float, end_s: float) -> float:
    inside = [begin_s, *(at_s for at_s in times if begin_s < at_s < end_s), end_s]
    return max(later - earlier for earlier, later in pairwise(inside))


# --- connecting -------------------------------------------------------------------------------------------


async def test_a_whole_rig_comes_up_at_once() -> None:
    lab = SimulatedLab(RIG, seed=1)
    begun_s = asyncio.get_running_loop().time()
    body = await ConnectedRig.connect(RIG, lab.opener, StateStore())
    assert body.failures == []
    assert asyncio.get_running_loop().time() - begun_s < 3.0
    await body.close()
    await lab.close()


async def test_a_rig_without_devices_comes_up() -> None:
    """A plate that is fed by hand has none, and none is missing."""
    bare = RIG.model_copy(update={"devices": {}})
    lab = SimulatedLab(RIG, seed=1)
    body = await ConnectedRig.connect(bare, lab.opener, StateStore())
    assert body.failures == []
    await body.close()
    await lab.close()


async def test_every_failure_is_told_in_one_table_and_the_rest_comes_up() -> None:
    lab = SimulatedLab(RIG, seed=1)
    lab.lines["sim:gas"].unplug()
    lab.lines["sim:balance"].unplug()
    lab.devices["t_chamber"].power_off()
    lab.devices["p_heart"].power_off()
    begun_s = asyncio.get_running_loop().time()
    body = await ConnectedRig.connect(RIG, lab.opener, StateStore())
    assert {failure.device for failure in body.failures} == {
        "gas_air", "gas_co2", "gas_o2", "balance", "t_chamber", "p_heart",
    }  # fmt: skip
    for failure in body.failures:
        assert failure.link == RIG.devices[failure.device].link
        assert "Likely cause" in failure.error
        assert "Next" in failure.error
    assert asyncio.get_running_loop().time() - begun_s < 10.0, "all links at once, not one after the other"
    await body.close()
    await lab.close()


async def test_a_rig_of_which_nothing_answers_does_not_start() -> None:
    lab = SimulatedLab(RIG, seed=1)
    for line in lab.lines.values():
        line.unplug()
    with pytest.raises(ConnectError) as caught:
        await ConnectedRig.connect(RIG, lab.opener, StateStore())
    assert {failure.device for failure in caught.value.failures} == set(RIG.devices)
    assert len(caught.value.table.splitlines()) == len(RIG.devices)
    assert caught.value.table in str(caught.value)
    await lab.close()


async def test_the_actuators_are_handed_over_once() -> None:
    lab = SimulatedLab(RIG, seed=1)
    body = await ConnectedRig.connect(RIG, lab.opener, StateStore())
    assert set(body.hand_over_actuators()) >= {"reglo.heart", "relay.heater", "gas_co2.flow", "dose_base.pump"}
    with pytest.raises(RuntimeError, match="only the gate"):
        body.hand_over_actuators()
    held = [value for value in vars(body).values() if isinstance(value, dict)]
    assert not any(isinstance(item, Actuator) for mapping in held for item in mapping.values())
    await body.close()
    await lab.close()


# --- sampling ---------------------------------------------------------------------------------------------


async def test_every_point_is_known_when_sampling_has_begun() -> None:
    async with sampled(SimulatedLab(RIG, seed=1)) as (_, store, polls):
        assert set(store.readings) == {
            "ph_loop.ph", "ph_spent.ph", "do_loop.oxygen", "t_chamber.temperature", "p_heart.pressure",
            "p_filter.pressure", "balance.mass", "gas_air.flow", "gas_co2.flow", "gas_o2.flow",
        }  # fmt: skip
        assert all(reading.quality is not Quality.MISSING for reading in store.readings.values())
        assert all(times for times in polls.times.values())
        store.snapshot(0.0, "", ())
        assert set(store.state.links.values()) == {"verified"}
        assert set(store.state.links) == LINKS


async def test_every_device_keeps_its_own_period() -> None:
    async with sampled(SimulatedLab(RIG, seed=1)) as (_, store, polls):
        begin_s = asyncio.get_running_loop().time()
        await asyncio.sleep(600.0)
        for point, times in (store.times | polls.times).items():
            every_s = RIG.devices[point.partition(".")[0]].every_s
            taken = [at_s for at_s in times if at_s > begin_s]
            assert len(taken) == pytest.approx(600.0 / every_s, abs=2), point
            assert longest_gap(times, begin_s + every_s, begin_s + 600.0) < every_s + 1.5, point


async def test_C3_a_dead_device_does_not_delay_the_others() -> None:
    lab = SimulatedLab(RIG, seed=1)
    async with sampled(lab) as (_, store, polls):
        lab.devices["p_heart"].power_off()  # shares its line with the other gauge and the relays
        lab.devices["gas_air"].power_off()
        lab.devices["t_chamber"].power_off()
        await asyncio.sleep(5.0)
        begin_s = asyncio.get_running_loop().time()
        await asyncio.sleep(300.0)
        dead = {"p_heart", "gas_air", "t_chamber"}
        for point, times in (store.times | polls.times).items():
            name = point.partition(".")[0]
            if name in dead:
                assert not [at_s for at_s in times if at_s > begin_s], point
            else:
                gap_s = longest_gap(times, begin_s, begin_s + 300.0)
                assert gap_s < RIG.devices[name].every_s + 2.5, (point, gap_s)


async def went(store: StateStore, point: str, quality: Quality, within_s: float) -> Reading:
    for _ in range(int(within_s * 10)):
        if store.readings[point].quality is quality:
            return store.readings[point]
        await asyncio.sleep(0.1)
    raise AssertionError(f"{point} did not become {quality}: {store.readings[point]}")


POWER: list[Callable[[SimulatedLab, bool], None]] = [
    lambda lab, on: lab.devices["do_loop"].power_on() if on else lab.devices["do_loop"].power_off(),
    lambda lab, on: lab.lines["sim:do_loop"].plug() if on else lab.lines["sim:do_loop"].unplug(),
]


@pytest.mark.parametrize("switch", POWER, ids=["power", "cable"])
async def test_C1_a_device_that_comes_back_is_read_again(switch: Callable[[SimulatedLab, bool], None]) -> None:
    lab = SimulatedLab(RIG, seed=1)
    point = "do_loop.oxygen"
    async with sampled(lab) as (body, store, _):
        before = store.readings[point]
        switch(lab, False)
        bad = await went(store, point, Quality.MISSING, 30.0)
        assert bad.value == before.value or bad.at_s > before.at_s
        assert "Likely cause" in bad.detail
        body.see_links()
        store.snapshot(0.0, "", ())
        await asyncio.sleep(120.0)
        taken_s = store.readings[point].at_s
        switch(lab, True)
        good = await went(store, point, Quality.GOOD, 60.0)
        assert good.at_s > taken_s


async def test_C3_a_defect_in_a_driver_costs_only_its_own_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = SimulatedLab(RIG, seed=1)
    async with sampled(lab) as (body, store, _):
        (name, sensor), *_ = body._sensors["ph_loop"]

        async def slip() -> float:
            raise ZeroDivisionError("a slip")

        monkeypatch.setattr(sensor, "read", slip)
        await asyncio.sleep(60.0)
        assert store.readings[name].quality is Quality.MISSING
        assert "its driver fails" in store.readings[name].detail
        now_s = asyncio.get_running_loop().time()
        assert now_s - store.readings["ph_spent.ph"].at_s < 15.0


async def test_a_poll_that_fails_does_not_end_sampling() -> None:
    lab = SimulatedLab(RIG, seed=1)
    async with sampled(lab) as (_, store, polls):
        lab.lines["sim:reglo"].unplug()
        await asyncio.sleep(30.0)
        assert "reglo.heart" in polls.faults
        lab.lines["sim:reglo"].plug()
        await asyncio.sleep(60.0)
        assert "reglo.heart" not in polls.faults
        assert store.readings


async def test_flat_readings_are_known_for_what_they_are() -> None:
    store = StateStore()
    for at_s, value in ((1.0, 37.0), (2.0, 37.0), (3.0, 37.1), (4.0, 37.1)):
        store.read("t", value, "degC", Quality.GOOD, at_s)
    assert store.readings["t"].same_since_s == 3.0
    store.failed("t", "degC", "no answer")
    assert (store.readings["t"].value, store.readings["t"].at_s) == (37.1, 4.0)
    store.read("t", 37.1, "degC", Quality.GOOD, 9.0)
    assert store.readings["t"].same_since_s == 3.0


async def test_a_snapshot_does_not_change_any_more() -> None:
    store = StateStore()
    store.read("t", 37.0, "degC", Quality.GOOD, 1.0)
    state = store.snapshot(1.0, "", ())
    store.read("t", 38.0, "degC", Quality.GOOD, 2.0)
    assert state.readings["t"].value == 37.0
    with pytest.raises(TypeError):
        state.readings["t"] = store.readings["t"]  # type: ignore[index]
