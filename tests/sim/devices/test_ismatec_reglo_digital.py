"""The simulated Reglo Digital and IPC against the manual: golden frames, doses, overload, a chain of pumps."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.ismatec_reglo_digital import IsmatecRegloDigital
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def pump(
    plant: RecordingPlant | None = None, *, variant: str = "ipc", **settings: float | str | bool
) -> tuple[IsmatecRegloDigital, Talker]:
    device = device_on_a_line(IsmatecRegloDigital, plant or RecordingPlant(), settings={"variant": variant, **settings})
    assert isinstance(device, IsmatecRegloDigital)
    return device, await client_of(device)


GOLDEN = [  # IPC manual 14-013 pp. 36-41
    (b"1#\r", b"IPC 403\r\n"),
    (b"1(\r", b"0403\r\n"),
    (b"1+\r", b"1.6 mm\r\n"),
    (b"1+0317\r", b"*"),
    (b"1S00603\r", b"*"),
    (b"1S\r", b"60.3\r\n"),
    (b"1H\r", b"*"),
    (b"1E\r", b"+"),
    (b"1I\r", b"*"),
    (b"1E\r", b"-"),
    (b"1J\r", b"*"),
    (b"1K\r", b"*"),
    (b"1[\r", b"2\r\n"),
    (b"1[02500\r", b"*"),
    (b"1V6000\r", b"*"),
    (b"1VM030\r", b"*"),
    (b"1VH024\r", b"*"),
    (b"1V0045\r", b"*"),
    (b"1V\r", b"45\r\n"),
    (b"1VM030\r", b"*"),
    (b"1V\r", b"18000\r\n"),
    (b"1U0200\r", b"*"),
    (b"1U\r", b"200\r\n"),
    (b"1U65535\r", b"*"),
    (b"1U65536\r", b"#"),
    (b"1U200\r", b"#"),
    (b"1T0020\r", b"*"),
    (b"1T\r", b"20\r\n"),
    (b"1TM045\r", b"*"),
    (b"1TH024\r", b"*"),
    (b"1T0030\r", b"*"),
    (b"1%0003\r", b"*"),
    (b"1%\r", b"3\r\n"),
    (b"1%0101\r", b"#"),
    (b'1"0012\r', b"*"),
    (b'1"\r', b"12\r\n"),
    (b"1!2503\r", b"*"),
    (b"1!\r", b"25.03 ml/min\r\n"),
    (b"1A\r", b"*"),
    (b"1B\r", b"*"),
    (b"1C\r", b"-"),
    (b"1?x\r", b"#"),
    (b"1[250\r", b"#"),
    (b"1Z\r", b"#"),
    (b"2E\r", b""),
    (b"@3\r", b"*"),
    (b"1E\r", b""),
    (b"3E\r", b"-"),
]


async def test_golden_frames() -> None:
    _, talker = await pump()
    for request, reply in GOLDEN:
        assert await talker.ask(request, 0.3) == reply, request


async def test_golden_total_and_dose_by_volume_end_by_themselves() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant, tubing_mm=1.02)
    assert await talker.ask(b"1O\r1[00498\r1S01000\r1H\r") == b"****"
    await asyncio.sleep(60)
    assert plant.moved("d.pump", 1e6) == pytest.approx(4980.0)
    assert await talker.ask(b"1E\r1:\r") == b"-4.980 ml\r\n"
    assert await talker.ask(b"1W\r1:\r") == b"*0.000 ul\r\n"
    device.power_off()


async def test_a_reglo_digital_is_told_a_flow() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, variant="reglo-digital", tubing_mm=1.02)
    assert await talker.ask(b"1M\r1f1300+0\r1H\r") == b"*1300E+0\r\n*"
    assert plant.last("d.pump") == pytest.approx(1300.0, rel=1e-3)
    assert await talker.ask(b"1f9000+0\r") == b"1300E+0\r\n"  # more than it can: it keeps what it had
    assert await talker.ask(b"1S\r") == b"20.63\r\n"


@pytest.mark.parametrize(
    ("setting", "volume_ul", "seconds"),
    [
        (b"1N\r1S00500\r1V0300\r", 1575.0, 30.0),
        (b"1G\r1[00200\r1V0600\r", 2000.0, 60.0),
    ],
    ids=["time", "volume in a time"],
)
async def test_finite_modes(setting: bytes, volume_ul: float, seconds: float) -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, tubing_mm=1.02)
    assert b"#" not in await talker.ask(setting)
    assert await talker.ask(b"1H\r", 100) == b"*"
    assert plant.moved("d.pump", 1e6) == pytest.approx(volume_ul, rel=1e-3)
    assert plant.log[-1][0] - plant.log[0][0] == pytest.approx(seconds)


async def test_in_overload_every_command_is_refused_until_it_is_reset() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant)
    await talker.ask(b"1H\r")
    device.block()
    assert plant.last("d.pump") == 0.0
    assert await talker.ask(b"1E\r1#\r1I\r1H\r") == b"####"
    assert await talker.ask(b"1-\r1E\r") == b"*-"


async def test_tubing_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.00 mm"):
        await pump(tubing_mm=1.0)
