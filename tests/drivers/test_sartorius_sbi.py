"""SBI balances against lines from the operating instructions, and the driver against the simulated balance."""

from __future__ import annotations

import asyncio

import pytest

from drivers.commands import Quality
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, WrongDevice
from drivers.sartorius_sbi import SartoriusSbi
from drivers.settings import BadSetting
from sim.devices import sartorius_sbi as sim
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import RecordingPlant

FACTS = {
    "sartorius-sbi": DriverFacts(
        line="1200 7O1",
        queries=frozenset({"\x1bx1_", "\x1bP"}),
        stored=({"with_id": True, "unit": "kg"}, {"with_id": False, "unit": "g"}),
    ),
}

pytestmark = pytest.mark.virtual_time

CONFIG = DeviceConfig("balance", settings=settings(tare_g=20.0))
PRINT = bytes.fromhex("1B 50 0D 0A")


class FakeBalance:
    def __init__(self) -> None:
        self.line = b"+   123.56 g  \r\n"
        self.model: bytes = b"LE2202S\r\n"

    def __call__(self, request: bytes) -> bytes | None:
        return {PRINT: self.line, b"\x1bx1_\r\n": self.model}.get(request)


@pytest.mark.parametrize(
    ("line", "grams", "stable"),
    [
        (b"+   123.56 g  \r\n", 123.56, True),
        (b"N     +   123.56 g  \r\n", 123.56, True),
        (b"G#    -   123.56 g  \r\n", -123.56, True),
        (b"+   123.56    \r\n", 123.56, False),
        (b"N     +   123.56    \r\n", 123.56, False),
        (b"      0.00 g  \r\n", 0.0, True),
        (b"-     0.05 g  \r\n", -0.05, True),
        (b"+     1235 g  \r\n", 1235.0, True),
        (b"+12345.678 g  \r\n", 12345.678, True),
    ],
)
async def test_golden_weights_are_good_and_stable_where_they_have_a_unit(
    line: bytes, grams: float, stable: bool
) -> None:
    fake = FakeBalance()
    peer = Peer(fake)
    async with linked(SartoriusSbi, peer, CONFIG) as balance:
        await balance.mass.read()
        fake.line = line
        assert await balance.sensors["mass"].read() == pytest.approx(grams - 20.0)
        assert (balance.mass.quality, balance.mass.stable, balance.mass.unit) == (Quality.GOOD, stable, "g")
        assert peer.sent == [PRINT, PRINT]
        assert peer.lines[0].text == "1200 7O1"
        assert balance.identity is not None
        assert balance.identity.model == "LE2202S"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"      H       \r\n", DeviceFault),
        (b"      L       \r\n", DeviceFault),
        (b"      C       \r\n", DeviceFault),
        (b"      High    \r\n", DeviceFault),
        (b"      Low     \r\n", DeviceFault),
        (b"      --      \r\n", DeviceFault),
        (b"Stat        H       \r\n", DeviceFault),
        (b"Err 054       \r\n", DeviceFault),
        (b"   Err 054    \r\n", DeviceFault),
        (b"Stat     ERR 054    \r\n", DeviceFault),
        (b"+  0.12356 kg \r\n", DeviceFault),
        (b"+   253    pcs\r\n", BadReply),
        (b"+      253 pcs\r\n", DeviceFault),
        (b"+   123.5[6]g \r\n", BadReply),
        (b"+  123.56 g  \r\n", BadReply),  # a character was lost
        (b"+   12 .56 g  \r\n", BadReply),
        (b"+   12\xb3.56 g  \r\n", BadReply),
        (b"+      nan g  \r\n", BadReply),
        (b"+    1.2.3 g  \r\n", BadReply),
        (b"LE2202S\r\n", BadReply),
        (b"+   123.56 g  ", BadReply),
        (b"x" * 300, BadReply),
        (b"", NoReply),
    ],
)
async def test_C2_what_is_no_weight_is_no_number(line: bytes, error: type[DeviceError]) -> None:
    fake = FakeBalance()
    async with linked(SartoriusSbi, Peer(fake), CONFIG) as balance:
        good, fake.line = fake.line, line
        with pytest.raises(error):
            await balance.mass.read()
        fake.line = good
        assert await balance.mass.read() == pytest.approx(103.56)


async def test_a_moving_weight_is_no_gram_before_one_stood_still_in_gram() -> None:
    fake = FakeBalance()
    peer = Peer(fake)
    moving, still, in_kg = b"+   123.56    \r\n", fake.line, b"+  0.12356 kg \r\n"
    async with linked(SartoriusSbi, peer, CONFIG) as balance:
        for line in (moving, in_kg, moving):
            fake.line = line
            with pytest.raises(DeviceFault, match=r"not known yet|weighs in kg"):
                await balance.mass.read()
        for line in (still, moving):
            fake.line = line
            assert await balance.mass.read() == pytest.approx(103.56)
        await balance.verify()
        with pytest.raises(DeviceFault, match="not known yet"):
            await balance.mass.read()
    fixed = DeviceConfig("balance", settings=settings(unit_is_gram=True))
    async with linked(SartoriusSbi, peer, fixed) as balance:
        assert await balance.mass.read() == 123.56
        assert (balance.mass.quality, balance.mass.stable) == (Quality.GOOD, False)


@pytest.mark.parametrize("late_s", [1.51, 1.6, 2.0, 2.9, 4.0])
async def test_C2_a_late_weight_is_not_the_next_weight(late_s: float) -> None:
    fake = FakeBalance()
    peer = Peer(fake)
    async with linked(SartoriusSbi, peer, CONFIG) as balance:
        peer.answers = lambda request: [(late_s, fake.line)]
        with pytest.raises(NoReply):
            await balance.mass.read()
        free_at = asyncio.get_running_loop().time() - 1.5 + late_s
        old, new = fake.line, b"+    99.00 g  \r\n"
        assert old != new
        fake.line = new

        def in_order(request: bytes) -> list[Say]:
            wait_s = max(0.01, free_at - asyncio.get_running_loop().time() + 0.01)
            return [(wait_s, fake(request) or b"")]

        peer.answers = in_order
        for _ in range(6):
            try:
                assert await balance.mass.read() == 79.0
            except DeviceError:
                await asyncio.sleep(0.2)
        assert await balance.mass.read() == 79.0


async def test_who_speaks_another_language_is_not_trusted() -> None:
    fake = FakeBalance()
    fake.model = b"ES\r\n"
    async with linked(SartoriusSbi, Peer(fake), CONFIG, verified=False) as balance:
        assert isinstance(balance.link.failures["balance"], WrongDevice)


@pytest.mark.parametrize("given", [settings(tare_g="much"), settings(unit_is_gram=1.0), settings(unit="g")])
async def test_settings_that_make_no_sense(given: dict[str, float | str | bool]) -> None:
    with pytest.raises(BadSetting):
        async with linked(SartoriusSbi, Peer(FakeBalance()), DeviceConfig("balance", settings=given)):
            pass


@pytest.mark.parametrize("with_id", [False, True])
async def test_the_whole_cycle_with_the_simulated_balance(with_id: bool) -> None:
    plant = RecordingPlant(d__mass=50.0)
    async with simulated(SartoriusSbi, sim.SartoriusSbi, plant, settings=settings(tare_g=200.0)) as (balance, device):
        assert isinstance(device, sim.SartoriusSbi)
        device.with_id = with_id
        assert [await balance.mass.read(), balance.mass.stable] == [pytest.approx(50.0), True]
        plant.values["d.mass"] = 60.0
        await asyncio.sleep(0.5)
        assert [await balance.mass.read(), balance.mass.stable] == [pytest.approx(60.0), False]
        assert balance.mass.quality is Quality.GOOD, "a weight in motion is true"
        await asyncio.sleep(0.5)
        assert [await balance.mass.read(), balance.mass.stable] == [pytest.approx(60.0), True]
        plant.values["d.mass"] = 9000.0
        with pytest.raises(DeviceFault, match="overloaded"):
            await balance.mass.read()
        plant.values["d.mass"] = 60.0
        device.error = 54
        with pytest.raises(DeviceFault, match="Err 054"):
            await balance.mass.read()
        device.error = 0
        device.power_cycle()  # it answers nothing while it starts
        with pytest.raises(NoReply):
            await balance.mass.read()
        await asyncio.sleep(2)
        assert await balance.mass.read() == pytest.approx(60.0)


async def test_a_reading_cut_short_leaves_nothing_that_the_next_one_could_take() -> None:
    plant = RecordingPlant(d__mass=50.0)
    async with simulated(SartoriusSbi, sim.SartoriusSbi, plant) as (balance, _):
        reading = asyncio.ensure_future(balance.mass.read())
        await asyncio.sleep(0.1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        plant.values["d.mass"] = 70.0
        await asyncio.sleep(0.3)
        with pytest.raises(DeviceFault, match="not known yet"):  # it moves, and no weight has stood still
            await balance.mass.read()
        await asyncio.sleep(0.3)
        assert await balance.mass.read() == 70.0
