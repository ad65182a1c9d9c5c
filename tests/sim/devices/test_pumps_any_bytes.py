"""Whatever arrives: no simulated pump raises, none moves on garbage, and chunking never matters (C2, S3)."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.ismatec_reglo_digital import IsmatecRegloDigital
from sim.devices.longer import Longer, packed
from sim.devices.masterflex_ls import MasterflexLs
from sim.devices.masterflex_usb import MasterflexUsb
from sim.devices.watson_marlow import WatsonMarlow
from sim.virtual_time import run_virtual
from tests.sim.bench import Build, RecordingPlant, client_of, device_on_a_line

REAL: dict[Build, tuple[bytes, ...]] = {
    IsmatecRegloDigital: (
        b"1M\r",
        b"1f1000+0\r",
        b"1[00100\r",
        b"1O\r\n",
        b"1H\r",
        b"1:\r",
        b"1I\r",
        b"1-\r",
        b"1+0102\r",
    ),
    Longer: (packed(1, b"WJ\x03\xe8\x01\x01"), packed(1, b"RJ"), packed(31, b"WJ\0\0\0\0"), packed(1, b"RID")),
    WatsonMarlow: (b"1SP50\r", b"1GO\r", b"1RS\r", b"1DO5000\r", b"1RC\r", b"#ST\r", b"1TC\r", b"1RT\r", b"1ZY\r"),
    MasterflexUsb: (b"1RE1\r", b"1H\r", b"1N\r", b"1RV0000100\r", b"1RC\r", b"1R006000\r", b'1"\r', b"1I\r", b"1RB\r"),
    MasterflexLs: (
        b"\x05",
        b"\x02P01\r",
        b"\x02P01S+60G0\r",
        b"\x02P01V2G\r",
        b"\x02P01I\r",
        b"\x02P01C\r",
        b"\x02P01H\r",
    ),
}


async def exchange(
    build: Build, chunks: list[bytes], *, gap_s: float = 0.0
) -> tuple[bytes, list[tuple[float, str, float]]]:
    """Send `chunks` to a pump; return what it sends and what it does to the plant."""
    plant = RecordingPlant()
    device = device_on_a_line(build, plant, address="1")
    talker = await client_of(device)
    for chunk in chunks:
        talker.say(chunk)
        if gap_s:
            await asyncio.sleep(gap_s)
    await asyncio.sleep(3)
    received, log = talker.received, list(plant.log)
    device.power_off()
    assert plant.last("d.pump") == 0.0
    await asyncio.sleep(100)
    assert plant.last("d.pump") == 0.0
    return received, log


def _mutations(request: bytes) -> st.SearchStrategy[bytes]:
    return st.tuples(st.integers(0, len(request) - 1), st.integers(0, 255)).map(
        lambda change: request[: change[0]] + bytes((change[1],)) + request[change[0] + 1 :]
    )


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_C2_any_bytes_among_real_requests_never_raise(build: Build, data: st.DataObject) -> None:
    real = st.sampled_from(REAL[build])
    pieces = st.one_of(
        st.binary(max_size=40),
        real,
        real.flatmap(_mutations),
        st.text('0123456789HIJKLMNOPQRSTV@.,*?-+=:["#\r\n\x02', max_size=12).map(str.encode),
    )
    run_virtual(exchange(build, data.draw(st.lists(pieces, max_size=12)), gap_s=0.05))


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=40, deadline=None)
@given(chunks=st.lists(st.binary(max_size=60).filter(lambda data: b"1" not in data and b"#" not in data), max_size=6))
def test_C2_bytes_that_address_no_device_move_nothing(build: Build, chunks: list[bytes]) -> None:
    if build is Longer:
        chunks = [chunk.replace(b"\x01", b"").replace(b"\x1f", b"") for chunk in chunks]
    _, log = run_virtual(exchange(build, chunks))
    assert log == []


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_chunking_never_matters(build: Build, data: st.DataObject) -> None:
    whole = b"".join(data.draw(st.lists(st.sampled_from(REAL[build]), min_size=1, max_size=8)))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    one, many = run_virtual(exchange(build, [whole])), run_virtual(exchange(build, pieces))
    assert one[0] == many[0]
    assert [value for *_, value in one[1]] == [value for *_, value in many[1]]
