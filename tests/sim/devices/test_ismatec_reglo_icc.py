"""The simulated Reglo ICC against the manual: golden frames, modes, doses that end themselves, events, power."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.ismatec_numbers import CHART_ML_MIN, from_volume_2, total_text, volume_1
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

HEART = {"1": ("heart", 1.02), "2": ("draw", 1.02)}


async def pump(plant: RecordingPlant | None = None, *, by_channel: bool = True) -> tuple[IsmatecRegloIcc, Talker]:
    device = device_on_a_line(IsmatecRegloIcc, plant or RecordingPlant(), channels=HEART)
    assert isinstance(device, IsmatecRegloIcc)
    talker = await client_of(device)
    if by_channel:
        assert await talker.ask(b"1~1\r") == b"*"
    return device, talker


GOLDEN = [
    (b"0x!\r", b"2\r\n"),
    (b"2H\r", b"*"),
    (b"2I\r", b"*"),
    (b"1K\r", b"*"),
    (b"1xD\r", b"K\r\n"),
    (b"2S012300\r", b"*"),
    (b"4S001230\r", b"*"),
    (b"4S\r", b"12.30\r\n"),
    (b"1f1300-3\r", b"1300E-3\r\n"),
    (b"4v3000+2\r", b"3000E+2\r\n"),
    (b"1+0013\r", b"*"),
    (b"2+\r", b"1.02 mm\r\n"),
    (b"3+\r", b"3.17 mm\r\n"),
    (b"4xU1000+2\r", b"1000E+2\r\n"),
    (b"4xV1010+2\r", b"1010E+2\r\n"),
    (b"1f1300+0\r", b"1300E+0\r\n"),
    (b"1S001230\r", b"*"),
    (b"1xM\r", b"L\r\n"),
    (b"4N\r", b"*"),
    (b"4xM\r", b"N\r\n"),
    (b"1xT00001500\r", b"*"),
    (b"1xT\r", b"1500\r\n"),
    (b"1xP00000200\r", b"*"),
    (b"1xP\r", b"200\r\n"),
    (b'1"0023\r', b"*"),
    (b'1"\r', b"23\r\n"),
    (b"1%0000\r", b"*"),
    (b"2%\r", b"0\r\n"),
    (b"0xA\r", b"4\r\n"),
    (b"1xB\r", b"8\r\n"),
    (b"1xB0012\r", b"*"),
    (b"1xB\r", b"12\r\n"),
    (b"3xC\r", b"0000000000\r\n"),
    (b"3xG\r", b"0000000000\r\n"),
    (b"3xJ\r", b"0000000000\r\n"),
    (b"0xS12345ABC\r", b"*"),
    (b"0xS\r", b"12345ABC\r\n"),
    (b"0xNReagent A\r", b"*"),
    (b"0xL3\r", b"*"),
    (b"0xE\r", b"0\r\n"),
    (b"0xE1\r", b"*"),
    (b"0xE\r", b"1\r\n"),
    (b"0xE0\r", b"*"),
    (b"1E\r", b"-"),
    (b"1?\r", b"0.110 ml/min\r\n"),
    (b"2!\r", b"6.30 ml/min\r\n"),
    (b"1A\r", b"*"),
    (b"1DAhello\r", b"*"),
    (b"0(\r", b"0208\r\n"),
    (b"0#\r", b"REGLO ICC 0208 408\r\n"),
    (b"1nonsense\r", b"#"),
    (b"1S12\r", b"#"),
    (b"1+0143\r", b"#"),
    (b"7H\r", b"#"),
    (b"@1\r", b"*"),
    (b"@9\r", b""),
]


@pytest.mark.virtual_time
async def test_golden_frames() -> None:
    device, talker = await pump()
    for request, reply in GOLDEN:
        assert await talker.ask(request, 0.3) == reply, request
    device.power_off()


TIMES_AND_STEPS = [  # manual 14-036-E Rev. C, references 3.25, 3.26 and 6.25 to 6.39; channel 3 has 3.17 mm tubing
    (b"3xv3000+2|1500+1\r", b"12000\r\n"),  # 300 mL at 15 mL/min: 20 min
    (b"3xv1000-2|1000+0\r", b"6\r\n"),
    (b"3xw3500+1|010000\r", b"600\r\n"),  # 35 mL at 100 rpm: 1 min
    (b"3xv3000+2\r", b"#"),
    (b"3xv3000+2|0000+0\r", b"#"),
    (b"3xw3000+2|000000\r", b"#"),
    (b"3xv9999+3|1000-9\r", b"#"),
    (b"3V0045\r", b"*"),
    (b"3V\r", b"45\r\n"),
    (b"3xT\r", b"45\r\n"),
    (b"3VM030\r", b"*"),
    (b"3xT\r", b"18000\r\n"),
    (b"3V\r", b"9999\r\n"),
    (b"3VH999\r", b"*"),
    (b"3xT\r", b"35964000\r\n"),
    (b"3V45\r", b"#"),
    (b"3VM30\r", b"#"),
    (b"3T0020\r", b"*"),
    (b"3T\r", b"20\r\n"),
    (b"3TM001\r", b"*"),
    (b"3T\r", b"600\r\n"),
    (b"3TH001\r", b"*"),
    (b"3xP\r", b"36000\r\n"),
    (b"3r\r", b"4375E+4\r\n"),  # 0.35 mL a revolution, eight rollers
    (b"3v3500+1\r", b"3500E+1\r\n"),
    (b"3U\r", b"000800\r\n"),
    (b"3u\r", b"000000\r\n"),
    (b"3U00016\r", b"*"),
    (b"3v\r", b"7000E-1\r\n"),
    (b"3u00001\r", b"*"),
    (b"3v\r", b"2868E+3\r\n"),  # 65,552 steps
    (b"3u\r", b"000001\r\n"),
    (b"3U65536\r", b"#"),
    (b"3U16\r", b"#"),
    (b"3r5000+4\r", b"*"),
    (b"3r\r", b"5000E+4\r\n"),
    (b"3!\r", b"40.0 ml/min\r\n"),
    (b"3r0000+0\r", b"#"),
    (b"3000000\r", b"*"),
    (b"3r\r", b"4375E+4\r\n"),
]


@pytest.mark.virtual_time
async def test_times_and_roller_steps() -> None:
    """xv, xw, V, VM, U, u, r, T and TM were documented, and answered with #."""
    device, talker = await pump()
    for request, reply in TIMES_AND_STEPS:
        assert await talker.ask(request, 0.3) == reply, request
    device.power_off()


@pytest.mark.virtual_time
@pytest.mark.parametrize("request_", [b"3V0045\r", b"3T0020\r", b"3U00016\r", b"3u00001\r", b"3r5000+4\r"])
async def test_times_and_roller_steps_of_a_running_channel_stay(request_: bytes) -> None:
    _, talker = await pump()
    assert await talker.ask(b"3H\r") == b"*"
    query = request_[:2] + b"\r"
    before = await talker.ask(query)
    assert await talker.ask(request_) == b"#"
    assert await talker.ask(query) == before


@pytest.mark.virtual_time
async def test_a_dose_of_roller_steps_moves_their_volume() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant)
    assert await talker.ask(b"3U00800\r3O\r3f3500+1\r3H\r", 1.0) == b"**3500E+1\r\n*"
    assert await talker.ask(b"3E\r", 60.0) == b"+"
    assert await talker.ask(b"3E\r", 2.0) == b"-"
    assert device.channels["3"].totals()[0] == pytest.approx(35.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize("end", [b"\r", b"\r\n"])
async def test_both_line_ends_are_taken_and_lf_is_not_an_empty_command(end: bytes) -> None:
    _, talker = await pump()
    assert await talker.ask(b"1xM" + end) == b"L\r\n"
    assert await talker.ask(b"1H" + end + b"1E" + end + b"1I" + end) == b"*+*"


@pytest.mark.virtual_time
async def test_a_channels_command_may_name_the_pump() -> None:
    """As a client sends it that has run perfusion rigs; another pump's address is no such thing."""
    device, talker = await pump()
    assert await talker.ask(b"2K1\r") == b"*"
    assert await talker.ask(b"2xD1\r") == b"K\r\n"
    assert await talker.ask(b"2H1\r") == b"*"
    assert await talker.ask(b"2E1\r") == b"+"
    assert await talker.ask(b"2I7\r") == b"#"
    assert device.channels["2"].running
    assert await talker.ask(b"2I1\r") == b"*"
    assert not device.channels["2"].running
    await talker.ask(b"1~0\r")
    assert await talker.ask(b"1H1\r") == b"#"  # one pump, no channel: there is nothing to name


@pytest.mark.virtual_time
async def test_legacy_addressing_drives_all_channels_and_only_this_pump_answers() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, by_channel=False)
    assert await talker.ask(b"1~\r") == b"0\r\n"
    assert await talker.ask(b"2H\r") == b""
    assert await talker.ask(b"@2\r") == b"*"
    assert await talker.ask(b"2H\r") == b"*"
    assert plant.last("d.heart") > 0
    assert plant.last("d.draw") > 0
    assert await talker.ask(b"2I\r") == b"*"
    assert plant.last("d.heart") == plant.last("d.draw") == 0.0
    assert await talker.ask(b"2~1\r2~\r") == b"*1\r\n"
    assert await talker.ask(b"0I\r") == b"*"


@pytest.mark.virtual_time
async def test_flow_mode_moves_what_the_chart_says_in_steps_of_the_motor() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    assert await talker.ask(b"1M\r1f2000+0\r1H\r", 0.1) == b"*2000E+0\r\n*"
    rpm = round(2.0 / 0.063, 2)
    assert plant.last("d.heart") == pytest.approx(rpm * 63.0)
    assert await talker.ask(b"1f1000+0\r", 0.1) == b"1000E+0\r\n"
    assert plant.last("d.heart") == pytest.approx(round(1.0 / 0.063, 2) * 63.0)
    assert await talker.ask(b"1K\r", 0.1) == b"#"  # not while it turns
    assert await talker.ask(b"1I\r1K\r1H\r", 0.1) == b"***"
    assert plant.last("d.heart") < 0
    assert await talker.ask(b"1I\r", 0.1) == b"*"


@pytest.mark.virtual_time
async def test_A4_a_command_given_twice_equals_once() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    await talker.ask(b"1O\r1v1000+0\r1f2000+0\r1H\r", 10)
    assert await talker.ask(b"1H\r", 100) == b"*"
    assert plant.moved("d.heart", 1e6) == pytest.approx(1000, rel=1e-3)


@pytest.mark.virtual_time
async def test_a_dose_ends_by_itself_at_its_volume_with_every_client_gone() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant)
    talker.say(b"1O\r1v3000+0\r1f4000+0\r1H\r")
    assert device.line is not None
    device.line.disconnect(talker)
    await asyncio.sleep(3600)
    assert plant.moved("d.heart", 1e6) == pytest.approx(3000, rel=1e-9)
    again = await client_of(device)
    assert await again.ask(b"1E\r1xG\r1:\r") == b"-0000000003\r\n3.000 ml\r\n"


@pytest.mark.virtual_time
async def test_a_new_flow_during_a_dose_keeps_the_volume() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    await talker.ask(b"1O\r1v2000+0\r1f1000+0\r1H\r", 30)
    assert await talker.ask(b"1f5000+0\r", 600) == b"5000E+0\r\n"
    assert plant.moved("d.heart", 1e6) == pytest.approx(2000, rel=1e-9)


@pytest.mark.virtual_time
async def test_pause_keeps_the_rest_of_a_dose_and_stop_forgets_it() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    await talker.ask(b"1O\r1v2000+0\r1f1000+0\r1H\r", 30)
    assert await talker.ask(b"1xI\r1E\r", 300) == b"*-"
    assert await talker.ask(b"1H\r", 300) == b"*"
    assert plant.moved("d.heart", 1e6) == pytest.approx(2000, rel=1e-9)
    await talker.ask(b"1H\r", 30)
    await talker.ask(b"1I\r", 30)
    assert await talker.ask(b"1H\r", 300) == b"*"
    assert plant.moved("d.heart", 1e6) == pytest.approx(2000 + 500 + 2000, rel=1e-3)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("setting", "volume_ul", "seconds"),
    [
        (b"1v1500+0\r1xT00000600\r1G\r", 1500, 60),
        (b'1v1000+0\r1f2000+0\r1xP00000100\r1"0003\r1Q\r', 3000, 90 + 20),
        (b"1f2000+0\r1xT00000300\r1N\r", 1000, 30),
        (b"1S001000\r1xf0\r1xT00000600\r1N\r", 630, 60),
        (b'1f2000+0\r1xT00000300\r1xP00000050\r1"0002\r1P\r', 2000, 65),
    ],
    ids=["volume over time", "volume and pause", "time", "time by rpm", "time and pause"],
)
async def test_finite_modes(setting: bytes, volume_ul: float, seconds: float) -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    assert b"#" not in await talker.ask(setting)
    began = asyncio.get_running_loop().time()
    assert await talker.ask(b"1H\r", 600) == b"*"
    assert plant.moved("d.heart", 1e6) == pytest.approx(volume_ul, rel=1e-3)
    assert plant.log[-1][0] - began == pytest.approx(seconds, rel=1e-3)
    assert plant.log[-1][2] == 0.0


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (b"1M\r1f9000+0\r", b"R 6300E+0\r\n"),
        (b"1M\r1f0000+0\r", b"R 6300E+0\r\n"),
        (b"1O\r1v0000+0\r", b"V 9999E+3\r\n"),
        (b'1Q\r1"0000\r', b"C 0000E+0\r\n"),
    ],
    ids=["too fast", "no flow", "no volume", "no cycles"],
)
async def test_what_cannot_be_done_is_refused_with_its_reason(setting: bytes, reason: bytes) -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    await talker.ask(setting)
    assert await talker.ask(b"1H\r") == b"-"
    assert await talker.ask(b"1xe\r") == reason
    assert plant.log == []


@pytest.mark.virtual_time
async def test_events_tell_the_natural_end_but_not_a_commanded_stop() -> None:
    _, talker = await pump()
    assert await talker.ask(b"2xE1\r", 0.5) == b"*"
    received = await talker.ask(b"2O\r2v1000-1\r2f6000+0\r2H\r", 4)
    assert b"^X2|A\r\n" in received
    assert b"^U2|A|0000000000|" in received
    assert b"^U3|C|0000000000|0000000000|0000\r\n" in received
    await talker.ask(b"2H\r", 0.1)
    assert b"^X" not in await talker.ask(b"2I\r", 4)
    assert (await talker.ask(b"2xE0\r", 5)).count(b"*") == 1
    assert await talker.ask(b"2E\r", 5) == b"-"


@pytest.mark.virtual_time
async def test_calibration_corrects_belief_and_a_new_tubing_discards_it() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant)
    await talker.ask(b"1xU1000+0\r1xW00000300\r", 0.5)
    assert b"^X1|B\r\n" in await talker.ask(b"1xE1\r1xY\r", 31)
    await talker.ask(b"1xE0\r")
    assert plant.moved("d.heart", 1e6) == pytest.approx(1000, rel=1e-3)
    assert device.channels["1"].state == "E"
    assert await talker.ask(b"1xV9000-1\r") == b"9000E-1\r\n"
    assert await talker.ask(b"1!\r") == b"5.67 ml/min\r\n"
    await talker.ask(b"1M\r1f1000+0\r1H\r")
    assert plant.last("d.heart") == pytest.approx(1000 / 0.9, rel=1e-3)
    assert await talker.ask(b"1+0317\r") == b"#"
    assert await talker.ask(b"1I\r1+0317\r1+0102\r1!\r") == b"***6.30 ml/min\r\n"


@pytest.mark.virtual_time
async def test_tubing_set_wrongly_moves_what_the_fitted_tubing_gives() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    await talker.ask(b"1+0317\r1M\r1f3500+0\r1H\r")
    assert plant.last("d.heart") == pytest.approx(630.0)  # 10 rpm, through 1.02 mm


@pytest.mark.virtual_time
async def test_power_cut_stops_everything_and_zeroes_totals_but_keeps_what_was_saved() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant)
    await talker.ask(b"1M\r1f2000+0\r1*\r1f1000+0\r1H\r", 600)
    assert await talker.ask(b"1xJ\r") != b"0000000000\r\n"
    talker.say(b"1E\r")
    device.power_cycle()
    assert await talker.ask(b"1E\r") == b"-"  # the answer under way was lost with the power
    assert plant.last("d.heart") == 0.0
    assert await talker.ask(b"1~\r1f\r1xM\r1xG\r1:\r") == b"1\r\n2000E+0\r\nM\r\n0000000000\r\n0.000 ul\r\n"


@pytest.mark.virtual_time
async def test_time_unit_is_a_profile_option() -> None:
    plant = RecordingPlant()
    device = device_on_a_line(IsmatecRegloIcc, plant, channels=HEART, settings={"time_unit_s": 1.0})
    talker = await client_of(device)
    await talker.ask(b"1~1\r1N\r1f2000+0\r1xT00000030\r1H\r", 100)
    assert plant.log[-1][0] - plant.log[0][0] == pytest.approx(30)


@pytest.mark.virtual_time
async def test_tubing_that_no_reglo_takes_is_refused_with_the_sizes() -> None:
    with pytest.raises(ValueError, match=r"1\.00 mm.*1\.02"):
        device_on_a_line(IsmatecRegloIcc, RecordingPlant(), channels={"1": ("heart", 1.0)})


@pytest.mark.parametrize("value", [1.3e-3, 300.0, 1.0, 9.999, 9.9996, 0.0, 1e-9, 4.2e9])
def test_volumes_survive_the_wire(value: float) -> None:
    text = volume_1(value)
    assert len(text) == 7
    assert from_volume_2(text.replace("E", "")) == pytest.approx(value, rel=5e-4)


@pytest.mark.parametrize("text", ["", "1300", "1300-", "130-3", "1300E-3", "13００-3", "-300-3", "nan0-3"])
def test_what_is_no_volume_is_none(text: str) -> None:
    assert from_volume_2(text) is None


def test_totals_choose_their_unit() -> None:
    assert [total_text(ml) for ml in (0.983, 4.983, 49.83, 498.3, 1204.0)] == [
        "983.0 ul", "4.983 ml", "49.83 ml", "498.3 ml", "1.204 l",
    ]  # fmt: skip


def test_the_chart_is_the_manuals() -> None:
    assert len(CHART_ML_MIN) == 26
    assert list(CHART_ML_MIN.values()) == sorted(CHART_ML_MIN.values())
    assert CHART_ML_MIN[142] == 11.0
