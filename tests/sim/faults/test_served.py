"""Faults of lines that are served over TCP, in real time."""

from __future__ import annotations

import asyncio

import pytest

from sim.faults.schedule import Fault
from tests.sim.faults.bench import lab_with

BALANCE = "sim:balance"
ASK, ANSWER = b"I11\r\n", b'I11 A "MS3002S"\r\n'


async def connect(endpoint: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def asked(endpoint: str) -> bytes:
    """Return what a new client receives as answer; empty when its connection is refused."""
    reader, writer = await connect(endpoint)
    try:
        writer.write(ASK)
        async with asyncio.timeout(5.0):
            while line := await reader.readline():
                if line == ANSWER:
                    return line
        return b""
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def broken(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends, in order or not, within a few seconds."""
    try:
        await asyncio.wait_for(reader.read(), 5.0)
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return reader.at_eof()


@pytest.mark.parametrize("kind", ["unplug", "replug"])
async def test_a_served_line_sends_everybody_away_and_serves_again(kind: str) -> None:
    async with lab_with() as (lab, injector):
        endpoint = (await lab.serve_tcp())[BALANCE]
        assert await asked(endpoint) == ANSWER
        reader, writer = await connect(endpoint)
        writer.write(ASK)
        assert await reader.readline()
        applied = injector.inject(Fault(kind, BALANCE, 0.0))
        assert await broken(reader)
        writer.close()
        assert await asked(endpoint) == b""
        assert applied is not None
        injector.end(applied)
        assert await asked(endpoint) == ANSWER


async def test_a_half_open_connection_over_tcp_carries_nothing_until_it_breaks() -> None:
    async with lab_with() as (lab, injector):
        endpoint = (await lab.serve_tcp())[BALANCE]
        reader, writer = await connect(endpoint)
        writer.write(ASK)
        while await reader.readline() != ANSWER:
            pass
        applied = injector.inject(Fault("half_open", BALANCE, 0.0))
        writer.write(ASK)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readline(), 0.3)
        assert await asked(endpoint) == ANSWER
        assert applied is not None
        injector.end(applied)
        assert await broken(reader)
        writer.close()
