"""Simulated sensors and balances: no bytes make them raise, and chunking never matters (C2)."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.atlas_ezo import EzoEc, EzoOrp
from sim.devices.hamilton_arc import HamiltonPhArc, HamiltonVisifermDo
from sim.devices.keller_bus import KellerBus
from sim.devices.modbus_slave import sealed
from sim.devices.sartorius_sbi import SartoriusSbi
from sim.devices.sensirion_slf3x import SensirionSlf3x
from sim.devices.vaisala_gmp25x import VaisalaGmp25x
from sim.virtual_time import run_virtual
from tests.sim.bench import Build, RecordingPlant, client_of, device_on_a_line


def hexed(*frames: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(frame) for frame in frames)


ARC = (
    *hexed("01 03 08 29 00 0A 16 65", "01 03 10 BF 00 04 71 2D", "01 10 14 29 00 02 04 00 00 00 00 CE DD"),
    *hexed("01 10 10 BF 00 04 08 00 0C 00 00 5D EA 01 14 21 07"),
    sealed(bytes.fromhex("01 10 10 BF 00 04 08 00 30 00 00 79 CE 00 F4")),
    sealed(bytes.fromhex("01 10 10 C3 00 04 08 00 30 00 00 00 01 00 00")),
)
REAL: dict[Build, tuple[bytes, ...]] = {
    HamiltonPhArc: (*ARC, sealed(bytes.fromhex("01 10 08 29 00 02 04 00 00 00 20"))),
    HamiltonVisifermDo: (*ARC, sealed(bytes.fromhex("01 10 08 29 00 02 04 00 10 00 00"))),
    SensirionSlf3x: hexed(
        *("7E 00 D1 00 2E 7E", "7E 00 33 04 00 64 36 08 26 7E", "7E 00 35 01 03 C6 7E", "7E 00 34 00 CB 7E"),
        *("7E 00 D0 01 03 2B 7E", "7E 00 D3 00 2C 7E", "7E 7D 5E 7D 5D 04 7D 31 12 7D 33 14 B6 7E"),
    ),
    VaisalaGmp25x: (
        *hexed("F0 03 00 00 00 02 D1 2A", "F0 03 08 00 00 02 D3 4A"),
        sealed(bytes.fromhex("F0 2B 0E 01 00")),
        sealed(bytes.fromhex("F0 10 02 08 00 02 04 00 00 44 61")),
    ),
    SartoriusSbi: (b"\x1bP\r\n", b"\x1bP", b"\x1bx1_", b"\x1bx2_\r\n", b"\x1bT", b"\x1bV", b"\x1bZ", b"\x1bS"),
    EzoEc: (
        b"C,0\r",
        b"R\r",
        b"O,?\r",
        b"O,EC,0\r",
        b"K,0.1\r",
        b"Cal,dry\r",
        b"Cal,1413\r",
        b"Cal,low,1\r",
        b"RT,37\r",
    ),
    EzoOrp: (b"C,0\r", b"R\r", b"Cal,225\r", b"Cal,clear\r", b"Factory\r", b"Sleep\r"),
    KellerBus: hexed("01 30 34 00", "01 45 D3 C1", "01 49 01 50 D6", "01 03 00 02 00 02 65 CB"),
}


async def exchange(build: Build, chunks: list[bytes], *, gap_s: float = 0.0) -> bytes:
    """Send `chunks` to a device; return what it sends."""
    plant = RecordingPlant(
        **{f"d__{point}": 7.0 for point in ("ph", "oxygen", "temperature", "flow", "co2", "mass", "pressure", "orp")},
        d__conductivity=1413.0,
    )
    device = device_on_a_line(build, plant, address="" if build in (SensirionSlf3x, VaisalaGmp25x) else "1")
    talker = await client_of(device)
    for chunk in chunks:
        talker.say(chunk)
        if gap_s:
            await asyncio.sleep(gap_s)
    await asyncio.sleep(3)
    received = talker.received
    device.power_off()
    await asyncio.sleep(100)
    assert talker.received == received
    assert plant.log == []
    return received


def _mutations(frame: bytes) -> st.SearchStrategy[bytes]:
    return st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)).map(
        lambda change: frame[: change[0]] + bytes((change[1],)) + frame[change[0] + 1 :]
    )


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_C2_any_bytes_among_real_requests_never_raise(build: Build, data: st.DataObject) -> None:
    real = st.sampled_from(REAL[build])
    sealed_noise = st.binary(min_size=2, max_size=12).map(lambda body: sealed(b"\x01" + body))
    pieces = st.one_of(st.binary(max_size=40), real, real.flatmap(_mutations), sealed_noise)
    run_virtual(
        exchange(build, data.draw(st.lists(pieces, max_size=12)), gap_s=data.draw(st.sampled_from((0.0, 0.02, 1.0))))
    )


@pytest.mark.parametrize("build", REAL)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_chunking_does_not_matter(build: Build, data: st.DataObject) -> None:
    stream = b"".join(data.draw(st.lists(st.sampled_from(REAL[build]), min_size=1, max_size=6)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(stream) - 1)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = run_virtual(exchange(build, [stream]))
    assert run_virtual(exchange(build, chunks)) == whole
    assert run_virtual(exchange(build, [bytes((byte,)) for byte in stream])) == whole


@pytest.mark.parametrize("build", [HamiltonPhArc, SensirionSlf3x, VaisalaGmp25x, SartoriusSbi, KellerBus])
@pytest.mark.virtual_time
async def test_S3_an_endless_request_costs_no_memory_and_the_next_is_understood(build: Build) -> None:
    plant = RecordingPlant(d__ph=7.0, d__temperature=7.0, d__co2=7.0, d__mass=7.0, d__pressure=7.0)
    device = device_on_a_line(build, plant, address="" if build in (SensirionSlf3x, VaisalaGmp25x) else "1")
    talker = await client_of(device)
    for _ in range(200):
        talker.say(b"\x1bx" + b"y" * 1000)
    await asyncio.sleep(20)
    kept = [getattr(device, name, None) for name in ("_buffer", "_inside", "_typed")]
    assert sum(len(each) for each in kept if each is not None) <= 260
    assert await talker.ask(REAL[build][0], 20.0) != b""
