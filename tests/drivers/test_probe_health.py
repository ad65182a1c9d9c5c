"""Health that probes report of themselves: bytes of the manuals, judgement, drivers against the simulated probes (Q7)."""

from __future__ import annotations

import struct
from functools import partial

import pytest

from drivers.atlas_ezo import AtlasEzoEc, AtlasEzoPh
from drivers.conformance.peer import Peer
from drivers.device import Device, DeviceConfig
from drivers.errors import BadReply
from drivers.hamilton_arc import HamiltonPhArc, HamiltonVisifermDo
from drivers.probe_health import PH_ITEMS, ProbeHealth
from drivers.registry import MODELS
from sim.devices.atlas_ezo import EzoEc, EzoPh
from sim.devices.hamilton_arc import HamiltonPhArc as SimulatedPhArc
from sim.devices.hamilton_arc import HamiltonVisifermDo as SimulatedVisiferm
from tests.drivers.against_sim import against
from tests.drivers.facts import all_facts
from tests.drivers.fakes import crc
from tests.drivers.peer import linked
from tests.drivers.test_hamilton_arc import CONFIG as ARC
from tests.drivers.test_hamilton_arc import GOLDEN
from tests.sim.bench import RecordingPlant

REPORTING = {"atlas-ezo-ph", "atlas-ezo-ec", "hamilton-ph-arc", "hamilton-visiferm-do"}
"""The models whose protocol has a figure of health; each other one was looked through."""


PLANT = partial(RecordingPlant, d__ph=7.0, d__temperature=25.0, d__oxygen=90.0, d__conductivity=15_000.0)


def health_of(device: Device) -> ProbeHealth:
    assert device.health is not None
    return device.health


def ezo(slope: bytes) -> Peer:
    answers = {
        b"C,0\r": b"*OK\r",
        b"i\r": b"?I,pH,2.16\r*OK\r",
        b"*OK,1\r": b"*OK\r",
        b"Status\r": b"?STATUS,P,5.038\r*OK\r",
        b"Cal,?\r": b"?CAL,3\r*OK\r",
        b"Slope,?\r": slope + b"\r*OK\r",
    }
    return Peer(answers.get)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("answer", "figures"),
    [
        (b"?SLOPE,99.7,100.3,-0.89", {"slope_acid": 99.7, "slope_base": 100.3, "zero_offset": -0.89}),
        (b"?Slope,99.7,100.3,12.5", {"slope_acid": 99.7, "slope_base": 100.3, "zero_offset": 12.5}),
        (b"?SLOPE,99.7,100.3", {"slope_acid": 99.7, "slope_base": 100.3}),
    ],
)
async def test_Q7_golden_slope_and_zero_offset_of_an_electrode(answer: bytes, figures: dict[str, float]) -> None:
    peer = ezo(answer)
    async with linked(AtlasEzoPh, peer, DeviceConfig("ph")) as circuit:
        peer.sent.clear()
        health = health_of(circuit)
        assert await health.read() == pytest.approx(figures)
        assert set(peer.sent) == {b"Cal,?\r", b"Slope,?\r"}
        assert health.faults(await health.read()) == ()
        assert health.point_of("ph_loop") == "ph_loop.ph"


@pytest.mark.virtual_time
@pytest.mark.parametrize("answer", [b"?SLOPE,99.7", b"?SLOPE,99.7,x", b"?SLOPE,99.7,100.3,", b"?SLOPE,99.7,100.3,1,2"])
async def test_Q7_an_answer_that_is_no_slope_is_refused(answer: bytes) -> None:
    async with linked(AtlasEzoPh, ezo(answer), DeviceConfig("ph")) as circuit:
        with pytest.raises(BadReply):
            await health_of(circuit).read()


QUALITY, WARNINGS, ERRORS = "01 03 13 07 00 02 71 4E", (0x127F, 8), (0x12BF, 8)


def arc(quality: float, calibration: int = 0, errors: int = 0) -> Peer:
    def flags(*words: int) -> bytes:
        packed = b"".join(struct.pack(">HH", word & 0xFFFF, word >> 16) for word in words)
        return crc(bytes((1, 3, len(packed))) + packed)

    value = struct.pack(">f", quality)
    answers = {bytes.fromhex(asked): told for asked, told in GOLDEN.items()}
    if quality != 100.0:
        answers[bytes.fromhex(QUALITY)] = crc(bytes((1, 3, 4)) + value[2:] + value[:2])
    answers[crc(struct.pack(">BBHH", 1, 3, *WARNINGS))] = flags(0, calibration, 0, 0)
    answers[crc(struct.pack(">BBHH", 1, 3, *ERRORS))] = flags(0, 0, 0, errors)
    return Peer(answers.get)


@pytest.mark.virtual_time
async def test_Q7_golden_quality_warnings_and_errors_of_an_arc_sensor() -> None:
    peer = arc(100.0)
    async with linked(HamiltonPhArc, peer, ARC) as sensor:
        peer.sent.clear()
        assert await health_of(sensor).read() == {"quality": 100.0, "calibration_warnings": 0.0, "errors": 0.0}
        assert peer.sent[0] == bytes.fromhex(QUALITY)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("quality", "calibration", "errors", "said"),
    [
        (34.0, 0, 0, "quality indicator is 34 %"),
        (90.0, 2, 0, "number of warnings of its calibration is 1"),
        (90.0, 0, 0x80000001, "number of active errors is 2"),
    ],
)
async def test_Q7_an_arc_sensor_that_is_not_fit_is_named(
    quality: float, calibration: int, errors: int, said: str
) -> None:
    async with linked(HamiltonPhArc, arc(quality, calibration, errors), ARC) as sensor:
        health = health_of(sensor)
        (fault,) = health.faults(await health.read())
        assert said in fault
        assert "Next: " in fault


@pytest.mark.virtual_time
@pytest.mark.parametrize("quality", [float("nan"), -1.0, 101.0, float("inf")])
async def test_Q7_a_quality_that_is_none_is_refused(quality: float) -> None:
    async with linked(HamiltonPhArc, arc(quality), ARC) as sensor:
        with pytest.raises(BadReply, match="quality indicator"):
            await health_of(sensor).read()


@pytest.mark.parametrize(
    ("name", "value", "sound"),
    [
        ("slope_acid", 85.0, True),
        ("slope_acid", 84.9, False),
        ("slope_base", 105.0, True),
        ("slope_base", 105.1, False),
        ("zero_offset", -30.0, True),
        ("zero_offset", -30.1, False),
        ("zero_offset", 30.1, False),
        ("zero_offset", float("nan"), False),
    ],
)
def test_Q7_an_electrode_is_judged_by_its_slopes_and_its_offset(name: str, value: float, sound: bool) -> None:
    (item,) = (each for each in PH_ITEMS if each.name == name)
    fault = item.fault(value)
    assert (fault is None) == sound
    assert fault is None or "replace the electrode" in fault


@pytest.mark.virtual_time
@pytest.mark.parametrize("slope", [1.0, 0.93, 0.6])
@pytest.mark.parametrize("zero_mv", [0.0, -45.0])
async def test_Q7_the_simulated_electrode_tells_its_wear_after_a_calibration(slope: float, zero_mv: float) -> None:
    plant = PLANT()
    async with against(AtlasEzoPh, EzoPh, plant=plant) as pair:
        pair.box.slope, pair.box.zero_mv = slope, zero_mv
        for place, ph in (("mid", 7.0), ("low", 4.0), ("high", 10.0)):
            plant.values["d.ph"] = ph
            await pair.driver.command(f"Cal,{place},{ph:.2f}".encode(), timeout_s=2.5)
        figures = await health_of(pair.driver).read()
        assert figures["slope_acid"] == pytest.approx(100.0 * slope, abs=0.1)
        assert figures["slope_base"] == pytest.approx(100.0 * slope, abs=0.1)
        assert figures["zero_offset"] == pytest.approx(zero_mv, abs=0.1)
        assert len(health_of(pair.driver).faults(figures)) == 2 * (slope < 0.85) + (abs(zero_mv) > 30.0)


@pytest.mark.virtual_time
async def test_Q7_the_cell_constant_that_the_circuit_counts_with_is_that_of_the_rig_file() -> None:
    async with against(AtlasEzoEc, EzoEc, settings={"probe_k": 0.1}, plant=PLANT()) as pair:
        health = health_of(pair.driver)
        assert await health.read() == {"cell_constant": pytest.approx(0.1)}
        pair.box.probe_k = 1.0  # set at a terminal
        (fault,) = health.faults(await health.read())
        assert "cell constant is 1 1/cm" in fault
        assert "probe_k" in fault


@pytest.mark.virtual_time
@pytest.mark.parametrize("driver", [HamiltonPhArc, HamiltonVisifermDo])
async def test_Q7_the_simulated_arc_sensor_tells_its_wear(driver: type[Device]) -> None:
    build = SimulatedPhArc if driver is HamiltonPhArc else SimulatedVisiferm
    async with against(driver, build, address="1", plant=PLANT()) as pair:
        health = health_of(pair.driver)
        assert health.faults(await health.read()) == ()
        pair.box.quality_pct = 20.0
        pair.box.warnings[1] |= 2
        assert len(health.faults(await health.read())) == 2


def test_Q7_each_model_whose_protocol_tells_its_health_reports_it() -> None:
    """A new driver of a probe reports a figure, or its facts give the reason why not."""
    sensors = {name for name, model in MODELS.items() if model.model.kind == "sensor"}
    assert sensors >= REPORTING
    assert sensors - REPORTING == {name for name, facts in all_facts().items() if facts.no_health}
