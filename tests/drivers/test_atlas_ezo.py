"""EZO-EC and EZO-ORP: golden answers, settings written only when they differ, and the simulated circuits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import pytest

from drivers.atlas_ezo import AtlasEzoEc, AtlasEzoOrp, AtlasEzoSensor
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.settings import BadSetting
from sim.devices.atlas_ezo import EzoEc, EzoOrp
from sim.devices.ezo_uart import EzoUart
from tests.drivers.facts import DriverFacts
from tests.drivers.fakes import FakeEzo
from tests.drivers.peer import linked, settings
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import RecordingPlant

FACTS = {
    "atlas-ezo-ec": DriverFacts(line="9600 8N1", queries=frozenset({"i", "Status", "O,?", "R"})),
    "atlas-ezo-orp": DriverFacts(
        line="9600 8N1", queries=frozenset({"i", "Status", "R"}), no_health="the pages read print none"
    ),
}

pytestmark = pytest.mark.virtual_time


class FakeEc(FakeEzo):
    """An EZO-EC with all outputs on."""

    def __init__(self, reading: bytes = b"1413") -> None:
        super().__init__(b"EC", reading)
        self.outputs = {b"EC": True, b"TDS": True, b"S": True, b"SG": True}
        self.values = {b"K": b"1.00", b"T": b"25.00"}
        self.locked = False

    def __call__(self, request: bytes) -> Iterable[Say]:
        letter, _, text = request[:-1].partition(b",")
        if letter in self.values:
            if text == b"?":
                return [b"?" + letter + b"," + self.values[letter] + b"\r*OK\r"]
            if not self.locked:
                self.values[letter] = text
        return super().__call__(request)


@pytest.mark.parametrize(
    ("driver", "fake", "point", "value", "unit"),
    [
        (AtlasEzoEc, FakeEc(b"1413"), "conductivity", 1413.0, "uS/cm"),
        (AtlasEzoEc, FakeEc(b"0.07"), "conductivity", 0.07, "uS/cm"),
        (AtlasEzoEc, FakeEc(b"500000"), "conductivity", 500_000.0, "uS/cm"),
        (AtlasEzoOrp, FakeEzo(b"ORP", b"209.6"), "orp", 209.6, "mV"),
        (AtlasEzoOrp, FakeEzo(b"ORP", b"-1019.9"), "orp", -1019.9, "mV"),
    ],
)
async def test_golden_reading(driver: type[AtlasEzoSensor], fake: FakeEzo, point: str, value: float, unit: str) -> None:
    peer = Peer(fake)
    async with linked(driver, peer, FakeEzo.config) as probe:
        assert await probe.sensors[point].read() == value
        assert probe.sensors[point].unit == unit
        assert peer.sent == [b"R\r"]


async def test_golden_conductivity_alone_is_put_out_and_written_only_when_it_differs() -> None:
    fake = FakeEc()
    peer = Peer(fake)
    config = DeviceConfig("probe", settings=settings(probe_k=0.1, temperature_c=37.0))
    async with linked(AtlasEzoEc, peer, config, verified=False) as probe:
        assert [each for each in peer.sent if each[:2] in (b"O,", b"K,", b"T,")] == [
            b"O,?\r",
            b"O,EC,1\r",
            b"O,TDS,0\r",
            b"O,S,0\r",
            b"O,SG,0\r",
            b"O,?\r",
            b"K,?\r",
            b"K,0.10\r",
            b"K,?\r",
            b"T,?\r",
            b"T,37.00\r",
            b"T,?\r",
        ]
        assert (fake.values[b"K"], fake.values[b"T"]) == (b"0.10", b"37.00")
        peer.sent.clear()
        await probe.verify()
        assert [each for each in peer.sent if each[:2] in (b"O,", b"K,", b"T,")] == [b"O,?\r", b"K,?\r", b"T,?\r"]


async def test_a_locked_circuit_is_told_of() -> None:
    fake = FakeEc()
    fake.locked = True
    config = DeviceConfig("probe", settings=settings(probe_k=10.0))
    async with linked(AtlasEzoEc, Peer(fake), config, verified=False) as probe:
        failure = probe.link.failures["probe"]
        assert isinstance(failure, Refused)
        assert failure.what == "K was set to 10.00 and is 1"


@pytest.mark.parametrize(
    ("reading", "error"),
    [
        (b"1413,763,0.70,1.000", BadReply),  # another program has turned the others on
        (b"no output", BadReply),
        (b"", BadReply),
        (b"nan", BadReply),
        (b"14\xb13", BadReply),
        (b"-1.0", DeviceFault),
        (b"500001", DeviceFault),
    ],
)
async def test_C2_what_is_no_conductivity_is_no_number(reading: bytes, error: type[DeviceError]) -> None:
    fake = FakeEc()
    async with linked(AtlasEzoEc, Peer(fake), FakeEzo.config) as probe:
        fake.reading = reading
        with pytest.raises(error):
            await probe.sensors["conductivity"].read()
        fake.reading = b"1413"
        assert await probe.sensors["conductivity"].read() == 1413.0


@pytest.mark.parametrize("late_s", [2.6, 3.0, 4.0])
async def test_C2_a_late_potential_is_not_the_next_potential(late_s: float) -> None:
    fake = FakeEzo(b"ORP", b"100.0")
    late = [late_s]
    free_at = [0.0]

    def answers(request: bytes) -> Iterable[Say]:
        now = asyncio.get_running_loop().time()
        if request != b"R\r":
            said = [text for text in fake(request) if isinstance(text, bytes)]
            return [(max(0.01, free_at[0] - now + 0.01), text) for text in said]
        takes = late.pop() if late else 0.9
        free_at[0] = max(now, free_at[0]) + takes
        return [(free_at[0] - now, fake.reading + b"\r*OK\r")]

    async with linked(AtlasEzoOrp, Peer(answers), FakeEzo.config) as probe:
        with pytest.raises(NoReply):
            await probe.sensors["orp"].read()
        fake.reading = b"-50.0"
        for _ in range(4):
            with suppress(DeviceError):
                assert await probe.sensors["orp"].read() == -50.0
            await asyncio.sleep(0.4)
        assert await probe.sensors["orp"].read() == -50.0


async def test_an_orp_circuit_is_no_conductivity() -> None:
    async with linked(AtlasEzoEc, Peer(FakeEzo(b"ORP", b"1.0")), FakeEzo.config, verified=False) as probe:
        assert isinstance(probe.link.failures["probe"], WrongDevice)


@pytest.mark.parametrize(
    ("driver", "given"),
    [
        (AtlasEzoEc, settings(probe_k=0.05)),
        (AtlasEzoEc, settings(probe_k=11.0)),
        (AtlasEzoEc, settings(temperature_c=300.0)),
        (AtlasEzoOrp, settings(temperature_c=25.0)),
        (AtlasEzoOrp, settings(probe_k=1.0)),
    ],
)
async def test_settings_beyond_the_makers_range(
    driver: type[AtlasEzoSensor], given: dict[str, float | str | bool]
) -> None:
    with pytest.raises(BadSetting):
        async with linked(driver, Peer(FakeEc()), DeviceConfig("probe", settings=given)):
            pass


@pytest.mark.parametrize(
    ("driver", "build", "point", "value"),
    [(AtlasEzoEc, EzoEc, "conductivity", 15_230.0), (AtlasEzoOrp, EzoOrp, "orp", -213.4)],
)
async def test_the_whole_cycle_with_the_simulated_circuit(
    driver: type[AtlasEzoSensor], build: type[EzoUart], point: str, value: float
) -> None:
    plant = RecordingPlant(d__conductivity=15_230.0, d__orp=-213.4)
    async with simulated(driver, build, plant) as (probe, device):
        assert await probe.sensors[point].read() == value
        plant.values[f"d.{point}"] = 55.5
        assert await probe.sensors[point].read() == 55.5
        device.power_cycle()  # it reports by itself again, until it is verified again
        await asyncio.sleep(5.0)
        assert await probe.sensors[point].read() == 55.5


async def test_the_temperature_is_given_again_after_a_power_cut_and_the_memory_is_spared() -> None:
    plant = RecordingPlant(d__conductivity=12_400.0)
    given = settings(temperature_c=37.0, probe_k=0.5)
    async with simulated(AtlasEzoEc, EzoEc, plant, settings=given) as (probe, device):
        assert isinstance(device, EzoEc)
        stores = device.stores
        assert await probe.sensors["conductivity"].read() == 5000.0
        device.power_cycle()
        assert device.temperature_c == 25.0
        await asyncio.sleep(5.0)
        assert device.temperature_c == 37.0
        assert await probe.sensors["conductivity"].read() == 5000.0
        assert device.stores == stores
