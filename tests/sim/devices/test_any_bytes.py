"""Whatever arrives: no device raises, none moves the plant on garbage, and chunking never matters (C2, S3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.alicat_mfc import AlicatMfc
from sim.devices.ascii_line import decimal
from sim.devices.atlas_ezo import EzoDo, EzoPh, EzoRtd
from sim.devices.atlas_ezo_pmp import AtlasEzoPmp
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc
from sim.devices.keller_x_line import KellerXLine
from sim.devices.mettler_sics import MettlerSics
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.modbus_slave import sealed
from sim.devices.tecan_cavro import TecanCavro
from sim.virtual_time import run_virtual
from tests.sim.bench import Build, RecordingPlant, client_of, device_on_a_line

CHANNELS: Mapping[str, tuple[str, float | None]] = {"0": ("zero", None), "1": ("one", 1.02)}
PUMP_CHANNELS: Mapping[str, tuple[str, float | None]] = {"1": ("one", 1.02), "2": ("two", 1.02)}

REAL: dict[Build, tuple[bytes, ...]] = {
    IsmatecRegloIcc: (b"1~1\r", b"1O\r\n", b"1f2000+0\r", b"1v1000+0\r", b"1H\r", b"1xG\r", b"0xE1\r", b"1I\r"),
    EzoPh: (b"C,0\r", b"R\r", b"Cal,mid,7\r", b"Slope,?\r", b"Sleep\r", b"T,20\r"),
    EzoDo: (b"C,0\r", b"R\r", b"O,%,1\r", b"Cal\r", b"S,1,ppt\r", b"Factory\r"),
    EzoRtd: (b"C,0\r", b"R\r", b"S,k\r", b"Cal,37\r"),
    AtlasEzoPmp: (b"C,0\r", b"D,10,1\r", b"P\r", b"X\r", b"DC,10,*\r", b"Cal,9\r", b"TV,?\r", b"Dstart,1\r"),
    KellerXLine: (sealed(b"\x01\x03\0\x02\0\x02"), bytes.fromhex("01303400"), bytes.fromhex("0145D3C1")),
    AlicatMfc: (b"A\r", b"AS5\r", b"A@=@\r", b"@@=A\r", b"AHC\r", b"A??D*\r", b"AW122=37\r"),
    TecanCavro: (b"/1ZR\r", b"/1IA300OA0R\r", b"/1gP50D50G3R\r", b"/1T\r", b"/1?\r", bytes.fromhex("023131510350")),
    MettlerSics: (b"SI\r\n", b"S\r\n", b"SIR\r\n", b"T\r\n", b"@\r\n", b"I0\r\n", b"TA 5 g\r\n"),
    ModbusCoilRelay: (
        bytes.fromhex("01050000FF008C3A"),
        bytes.fromhex("010100000 0083DCC".replace(" ", "")),
        bytes.fromhex("0105020000078DB0"),
        sealed(bytes.fromhex("010F00000008 01FF".replace(" ", ""))),
    ),
}


def plant_for() -> RecordingPlant:
    return RecordingPlant(d__ph=7.0, d__oxygen=90.0, d__temperature=37.0, d__pressure=1.0, d__mass=50.0, d__flow=0.0)


async def exchange(
    build: Build, chunks: list[bytes], *, gap_s: float = 0.0
) -> tuple[bytes, list[tuple[float, str, float]]]:
    """Send `chunks` to a device; return what it sends and what it does to the plant."""
    plant = plant_for()
    channels = PUMP_CHANNELS if build is IsmatecRegloIcc else CHANNELS
    device = device_on_a_line(build, plant, channels=channels, address="A" if build is AlicatMfc else "1")
    talker = await client_of(device)
    for chunk in chunks:
        talker.say(chunk)
        if gap_s:
            await asyncio.sleep(gap_s)
    await asyncio.sleep(3)
    received, log = talker.received, list(plant.log)
    device.power_off()
    await asyncio.sleep(100)
    return received, log


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_C2_any_bytes_among_real_requests_never_raise(build: Build, data: st.DataObject) -> None:
    pieces = st.one_of(
        st.binary(max_size=40),
        st.sampled_from(REAL[build]),
        st.sampled_from(REAL[build]).flatmap(_mutations),
        st.text("0123456789ABCDEFXSTR@,.*?-+=x~\r\n", max_size=12).map(str.encode),
    )
    run_virtual(
        exchange(build, data.draw(st.lists(pieces, max_size=12)), gap_s=data.draw(st.sampled_from((0.0, 0.02, 1.0))))
    )


def _mutations(frame: bytes) -> st.SearchStrategy[bytes]:
    return st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)).map(
        lambda change: frame[: change[0]] + bytes((change[1],)) + frame[change[0] + 1 :]
    )


@pytest.mark.parametrize("build", [build for build in REAL if build not in (ModbusCoilRelay, KellerXLine)])
@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.tuples(st.binary(max_size=200), st.integers(128, 255), st.binary(max_size=200)), max_size=8))
def test_C2_no_line_with_a_garbled_character_moves_the_plant(
    build: Build, lines: list[tuple[bytes, int, bytes]]
) -> None:
    cut = bytes.maketrans(b"\r\n", b"..")
    noise = [before.translate(cut) + bytes((bad,)) + after.translate(cut) + b"\r\n" for before, bad, after in lines]
    assert run_virtual(exchange(build, noise))[1] == []


@settings(max_examples=100, deadline=None)
@given(frame=st.sampled_from(REAL[ModbusCoilRelay]).flatmap(_mutations), tail=st.binary(max_size=30))
def test_C2_no_frame_with_a_changed_byte_moves_the_relays(frame: bytes, tail: bytes) -> None:
    received, log = run_virtual(exchange(ModbusCoilRelay, [frame]))
    if frame not in REAL[ModbusCoilRelay]:
        assert (received, log) == (b"", [])
    else:
        run_virtual(exchange(ModbusCoilRelay, [frame + tail]))


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_chunking_does_not_matter(build: Build, data: st.DataObject) -> None:
    stream = b"".join(data.draw(st.lists(st.sampled_from(REAL[build]), min_size=1, max_size=6)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(stream) - 1)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    said, did = run_virtual(exchange(build, [stream]))
    for parts in (chunks, [bytes((byte,)) for byte in stream]):
        said_of_parts, did_of_parts = run_virtual(exchange(build, parts))
        assert did_of_parts == did
        if build is AlicatMfc:
            assert _same_but_for_the_last_line(said_of_parts, said)
        else:
            assert said_of_parts == said


def _same_but_for_the_last_line(one: bytes, other: bytes) -> bool:
    """Whether two records of a unit that streams are the same; the exchange may end before or after a line."""
    shorter, longer = sorted((one, other), key=len)
    return longer.startswith(shorter) and longer[len(shorter) :].count(b"\r") <= 1


@pytest.mark.parametrize("build", [build for build in REAL if build not in (ModbusCoilRelay, KellerXLine)])
@pytest.mark.virtual_time
async def test_S3_an_endless_line_costs_no_memory_and_its_tail_is_no_command(build: Build) -> None:
    plant = plant_for()
    channels = PUMP_CHANNELS if build is IsmatecRegloIcc else CHANNELS
    device = device_on_a_line(build, plant, channels=channels, address="A" if build is AlicatMfc else "1")
    talker = await client_of(device)
    for _ in range(200):
        talker.say(b"x" * 1000)
    assert len(device._buffer) <= 128  # type: ignore[attr-defined]
    for request in (b"D,10\r\n", b"0H\r\n", b"AS5\r\n"):
        talker.say(b"y" * 500 + request)
    await asyncio.sleep(2)
    assert plant.log == []
    device.power_off()


@pytest.mark.virtual_time
async def test_S3_an_endless_frame_costs_no_memory() -> None:
    device = device_on_a_line(ModbusCoilRelay, plant_for(), address="1")
    talker = await client_of(device)
    for _ in range(200):
        talker.say(b"\x01\x2b" + b"x" * 1000)
    assert isinstance(device, ModbusCoilRelay)
    assert len(device._buffer) <= 257
    assert await talker.ask(b"") == b""
    assert await talker.ask(bytes.fromhex("01050000FF008C3A")) == bytes.fromhex("01050000FF008C3A")


@pytest.mark.parametrize(("text", "value"), [("5", 5.0), ("+5.25", 5.25), ("-.5", -0.5), ("7.", 7.0), ("007", 7.0)])
def test_numbers_that_firmware_reads(text: str, value: float) -> None:
    assert decimal(text) == value


@pytest.mark.parametrize("text", ["", ".", "-", "nan", "inf", "1e5", "1_0", "٣", "0x10", " 5", "5 ", "1" * 40, "1.2.3"])
def test_numbers_that_it_does_not(text: str) -> None:
    assert decimal(text) is None
