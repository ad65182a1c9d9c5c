"""The lab in software: its lines in memory, over TCP and on pseudo-terminals; the same seed gives the same bytes."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.rig.description import Rig
from controller.rig.families import FAMILIES
from controller.rig.loading import load_rig
from drivers.device import DeviceConfig
from drivers.errors import LinkDown
from drivers.mettler_sics import MettlerSics
from drivers.registry import MODELS
from drivers.transport.link import Link
from drivers.transport.opener import open_real
from drivers.transport.url import LinkUrl
from sim.devices.catalogue import DEVICES
from sim.devices.modbus_slave import sealed
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual

BENCH = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")

QUESTIONS = {
    "reglo": (b"1~\r", b"0\r\n"),
    "dose_fresh": (b"C,0\ri\r", b"*OK\r?I,PMP,1.06\r*OK\r"),
    "dose_glucose": (b"C,0\rTV,?\r", b"*OK\r?TV,0.00\r*OK\r"),
    "dose_base": (b"C,0\rD,?\r", b"*OK\r?D,0.00,0\r*OK\r"),
    "ph_loop": (b"C,0\ri\r", b"*OK\r?I,pH,2.16\r*OK\r"),
    "ph_spent": (b"C,0\rCal,?\r", b"*OK\r?CAL,0\r*OK\r"),
    "do_loop": (b"C,0\ri\r", b"*OK\r?I,DO,2.14\r*OK\r"),
    "t_chamber": (b"C,0\ri\r", b"*OK\r?I,RTD,2.10\r*OK\r"),
    "rs485": (bytes.fromhex("010300080002") + b"\x45\xc9", None),
    "gas": (b"BR122\r", b"B   122 = 37\r"),
    "balance": (b"I11\r\n", b'I11 A "MS3002S"\r\n'),
}


@dataclass(frozen=True)
class Url:
    target: str
    scheme: str = "sim"


@asynccontextmanager
async def bench_lab(rig: Rig = BENCH, *, seed: int = 1) -> AsyncIterator[SimulatedLab]:
    lab = SimulatedLab(rig, seed=seed)
    try:
        yield lab
    finally:
        await lab.close()


async def received(reader: asyncio.StreamReader, for_s: float) -> bytes:
    """Return all that arrives in the next `for_s` seconds."""
    data = b""
    try:
        async with asyncio.timeout(for_s):
            while chunk := await reader.read(4096):
                data += chunk
    except TimeoutError:
        pass
    return data


@pytest.mark.virtual_time
async def test_every_line_of_the_bench_answers_in_memory() -> None:
    async with bench_lab() as lab:
        assert {link.removeprefix("sim:") for link in lab.lines} == set(QUESTIONS)
        for name, (request, reply) in QUESTIONS.items():
            reader, writer = await lab.opener(Url(name), None)
            await received(reader, 0.5)
            writer.write(request)
            await writer.drain()
            answer = await received(reader, 0.7)
            assert answer.endswith(reply or answer), name
            assert answer, name
            writer.close()
            await writer.wait_closed()


@pytest.mark.virtual_time
async def test_a_line_that_is_not_there_is_named_with_those_that_are() -> None:
    async with bench_lab() as lab:
        for url in (Url("nowhere"), Url("reglo", scheme="tcp")):
            with pytest.raises(FileNotFoundError, match=r"sim:reglo.*Next:"):
                await lab.opener(url, None)


@pytest.mark.virtual_time
async def test_a_model_that_is_not_simulated_is_named_with_those_that_are() -> None:
    strange = BENCH.devices["balance"].model_copy(update={"model": "abacus"})
    with pytest.raises(ValueError, match=r"balance.*abacus.*mettler-sics"):
        SimulatedLab(BENCH.model_copy(update={"devices": {"balance": strange}}), seed=1)


def test_every_model_that_has_a_driver_is_simulated() -> None:
    assert set(MODELS) <= set(DEVICES)
    assert set(FAMILIES) == set(DEVICES) - {"modbus-generic"}  # its points are what its description says


async def _hour_of_bytes(seed: int) -> list[tuple[float, str, bytes]]:
    """Return all that a scripted client receives in an hour, with its times."""
    loop = asyncio.get_running_loop()
    record: list[tuple[float, str, bytes]] = []

    async def talk(name: str, requests: list[bytes], every_s: float) -> None:
        reader, writer = await lab.opener(Url(name), None)
        for number in range(int(3600 / every_s)):
            writer.write(requests[number % len(requests)])
            record.append((loop.time(), name, await received(reader, every_s)))
        writer.close()

    async with bench_lab(seed=seed) as lab, asyncio.TaskGroup() as group:
        group.create_task(talk("reglo", [b"0~1\r", b"2M\r2f2000+0\r2H\r", b"2xG\r", b"1xE1\r", b"2I\r"], 30))
        group.create_task(talk("dose_fresh", [b"C,0\r", b"D,2,0.2\r", b"R\r", b"TV,?\r"], 20))
        for name in ("ph_loop", "do_loop", "t_chamber"):
            group.create_task(talk(name, [b"C,0\r", b"R\r"], 10))
        group.create_task(talk("balance", [b"SI\r\n", b"S\r\n"], 15))
        group.create_task(talk("rs485", [sealed(b"\x01\x03\0\x02\0\x02"), sealed(b"\x03\x05\x02\0\0\x64")], 7))
        group.create_task(talk("gas", [b"A\r", b"BS5\r", b"CS1\r"], 11))
    return record


def test_E6_the_same_seed_gives_the_same_bytes_at_the_same_times() -> None:
    first = run_virtual(_hour_of_bytes(1))
    assert len(first) > 1500
    assert run_virtual(_hour_of_bytes(1)) == first
    other = run_virtual(_hour_of_bytes(2))
    assert [(at, name) for at, name, _ in other] == [(at, name) for at, name, _ in first]
    assert other != first


@pytest.mark.virtual_time
async def test_a_dose_moves_liquid_and_ends_though_its_client_is_gone() -> None:
    async with bench_lab() as lab:
        before = lab.plant.truth().volumes_ul
        _, writer = await lab.opener(Url("dose_fresh"), None)
        writer.write(b"D,5,1\r")
        writer.close()
        await asyncio.sleep(3600)
        after = lab.plant.truth().volumes_ul
        assert before["reservoir"] - after["reservoir"] == pytest.approx(5000, rel=0.15)
        given = after["reservoir"]
        await asyncio.sleep(3600)
        assert lab.plant.truth().volumes_ul["reservoir"] == pytest.approx(given, abs=1.0)


@pytest.mark.virtual_time
async def test_C1_a_pulled_cable_breaks_the_streams_and_a_new_client_finds_the_devices_as_they_were() -> None:
    async with bench_lab() as lab:
        line = lab.lines["sim:reglo"]
        reader, writer = await lab.opener(Url("reglo"), None)
        writer.write(b"1~1\r1M\r1f2000+0\r1H\r")
        assert await received(reader, 0.2) == b"**2000E+0\r\n*"
        line.unplug()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        assert writer.is_closing()
        writer.write(b"1I\r")
        with pytest.raises(ConnectionRefusedError):
            await lab.opener(Url("reglo"), None)
        line.plug()
        reader, writer = await lab.opener(Url("reglo"), None)
        writer.write(b"1E\r")
        assert await received(reader, 0.2) == b"+"
        writer.close()


@pytest.mark.virtual_time
async def test_S3_a_client_that_never_reads_costs_no_memory() -> None:
    async with bench_lab() as lab:
        reader, writer = await lab.opener(Url("gas"), None)
        writer.write(b"A@=@\r")
        await asyncio.sleep(3600)
        assert len(reader._buffer) < 200_000  # type: ignore[attr-defined]
        assert (await reader.read(8)).startswith(b"+014.70")
        writer.close()


@pytest.mark.virtual_time
async def test_link_text_sets_speed_and_echo() -> None:
    devices = {
        "balance": BENCH.devices["balance"].model_copy(update={"link": "sim:balance?baud=1200&echo=1"}),
        **{name: device for name, device in BENCH.devices.items() if name != "balance"},
    }
    async with bench_lab(BENCH.model_copy(update={"devices": devices})) as lab:
        assert lab.lines["sim:balance?baud=1200&echo=1"].baud == 1200
        assert lab.lines["sim:gas"].baud == 19200
        reader, writer = await lab.opener(Url("balance"), None)
        writer.write(b"I11\r\n")
        assert await received(reader, 0.6) == b'I11\r\nI4 A "B000000000"\r\nI11 A "MS3002S"\r\n'.replace(
            b"B000000000",
            lab.devices["balance"].serial_number.encode(),  # type: ignore[attr-defined]
        )
        writer.close()


@pytest.mark.virtual_time
async def test_closing_the_lab_brings_every_output_to_rest() -> None:
    lab = SimulatedLab(BENCH, seed=1)
    reader, writer = await lab.opener(Url("reglo"), None)
    writer.write(b"0~1\r1M\r1H\r0xE1\r")
    _, gas = await lab.opener(Url("gas"), None)
    gas.write(b"AS20\rB@=@\r")
    await received(reader, 1)
    await lab.close()
    assert not asyncio.get_running_loop()._scheduled or all(  # type: ignore[attr-defined]
        timer.cancelled() or "arrive" in repr(timer)
        for timer in asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    )
    before = lab.plant.truth().volumes_ul["chamber"]
    await asyncio.sleep(60)
    assert lab.plant.truth().volumes_ul["chamber"] == pytest.approx(before, abs=5)


async def test_tcp_round_trip_with_two_clients_that_each_receive_their_own_answers() -> None:
    async with bench_lab() as lab:
        endpoints = await lab.serve_tcp("127.0.0.1")
        assert set(endpoints) == set(lab.lines)
        host, _, port = endpoints["sim:reglo"].removeprefix("tcp://").partition(":")
        first = await asyncio.open_connection(host, int(port))
        second = await asyncio.open_connection(host, int(port))
        first[1].write(b"0x!\r")
        second[1].write(b"@1\r")
        assert await first[0].readexactly(3) == b"2\r\n"
        assert await second[0].readexactly(1) == b"*"
        first[1].write(b"1~1\r1M\r1H\r")
        assert await first[0].readexactly(3) == b"***"
        for _, writer in (first, second):
            writer.close()
            await writer.wait_closed()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"1E\r")
        assert await reader.readexactly(1) == b"+"  # it went on while no client was connected
        lab.lines["sim:reglo"].unplug()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


async def test_tcp_ports_follow_the_base_port_and_the_lines_unplugged_turn_clients_away() -> None:
    async with bench_lab() as lab:
        free = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        base = free.sockets[0].getsockname()[1] + 1000
        free.close()
        await free.wait_closed()
        endpoints = await lab.serve_tcp("127.0.0.1", base if base < 60_000 else base - 20_000)
        ports = [int(endpoint.rpartition(":")[2]) for endpoint in endpoints.values()]
        assert ports == list(range(ports[0], ports[0] + len(lab.lines)))
        lab.lines["sim:balance"].unplug()
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[list(endpoints).index("sim:balance")])
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


async def _read(descriptor: int, end: bytes) -> bytes:
    """What a program reads from a terminal up to `end`."""
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(10):
        while not data.endswith(end):
            ready = loop.create_future()
            loop.add_reader(descriptor, ready.set_result, None)
            try:
                await ready
            finally:
                loop.remove_reader(descriptor)
            data += os.read(descriptor, 4096)
    return data


async def test_pty_round_trip_and_a_second_program_after_the_first() -> None:
    async with bench_lab() as lab:
        paths = await lab.serve_pty()
        assert set(paths) == set(lab.lines)
        for _ in range(2):
            port = os.open(paths["sim:reglo"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                tty.setraw(port)
                os.write(port, b"0x!\r1E\r")
                assert await _read(port, b"-") == b"2\r\n-"
            finally:
                os.close(port)
        bus = os.open(paths["sim:rs485"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(bus, bytes.fromhex("03050000FF008DD8"))
            assert await _read(bus, b"\xd8") == bytes.fromhex("03050000FF008DD8")
        finally:
            os.close(bus)


async def test_a_pty_without_a_reader_keeps_no_old_bytes() -> None:
    async with bench_lab() as lab:
        paths = await lab.serve_pty()
        line = lab.lines["sim:ph_loop"]
        for _ in range(2000):
            line.clients[0].deliver(b"7.000\r")
        port = os.open(paths["sim:ph_loop"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            assert 0 < len(os.read(port, 65_536)) <= 2048
        finally:
            os.close(port)


async def test_C1_a_pty_is_gone_while_unplugged_and_comes_back_under_its_name() -> None:
    async with bench_lab() as lab:
        path = Path((await lab.serve_pty())["sim:reglo"])
        assert path.name == "reglo"
        for _ in range(3):
            port = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                os.write(port, b"0x!\r")
                assert await _read(port, b"\n") == b"2\r\n"
                lab.lines["sim:reglo"].unplug()
                assert not path.is_symlink()
                with pytest.raises(OSError, match="Input/output error"):
                    os.write(port, b"0x!\r")
            finally:
                os.close(port)
            lab.lines["sim:reglo"].plug()
            lab.lines["sim:reglo"].plug()  # twice does no harm
        folder = path.parent
    assert not folder.exists()


async def test_C1_a_driver_on_a_pty_is_back_by_itself_after_the_cable_was_pulled() -> None:
    async with bench_lab() as lab:
        path = (await lab.serve_pty())["sim:balance"]
        link = Link(LinkUrl.parse(f"serial://{path}"), open_real, line=MettlerSics.line)
        balance = MettlerSics(link, DeviceConfig("balance"))
        assert await link.start() == {}
        await balance.sensors["mass"].read()
        lab.lines["sim:balance"].unplug()
        with pytest.raises(LinkDown):
            await balance.sensors["mass"].read()
        await asyncio.sleep(0.3)
        lab.lines["sim:balance"].plug()
        async with asyncio.timeout(10):
            while not balance.conversation.verified:
                await asyncio.sleep(0.05)
        await balance.sensors["mass"].read()
        await link.close()
