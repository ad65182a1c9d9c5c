"""`choroid device probe` in real time over TCP sockets and pseudo-terminals, on every model that it can find."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator

import pytest

from choroid.tools.conformance.benches import all_benches
from choroid.tools.conformance.lab_end import LabEnd
from choroid.tools.probe import Found, probe, unasked
from drivers.conformance.bench import Bench
from drivers.transport.opener import open_real
from drivers.transport.url import LinkUrl

ASKED = [bench for bench in all_benches() if bench.model not in unasked()]
NEVER_OVER_TCP = {"masterflex-usb", "masterflex-ls"}
"""Their questions may mean something else to another maker's drive, and over TCP all of them would receive it."""
BOOT_S = 1.5
"""Maximum time until a device receives after a start (s)."""


def far_end(bench: Bench) -> LabEnd:
    end = bench.far_end(bench.config)
    assert isinstance(end, LabEnd)
    return end


@contextlib.asynccontextmanager
async def on_tcp(bench: Bench) -> AsyncIterator[str]:
    """A serial server with a device of `bench` behind it."""
    end = far_end(bench)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end.connect(writer.write)
        while data := await reader.read(4096):
            end.receive(data)
        end.connect(lambda data: None)
        writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0)
    async with server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def on_terminal(bench: Bench) -> AsyncIterator[str]:
    """A pseudo-terminal with a device of `bench` at its far end. It receives at all baud rates, as a USB adapter does."""
    end = far_end(bench)
    near, far = os.openpty()
    tty.setraw(far)
    loop = asyncio.get_running_loop()

    def say(data: bytes) -> None:
        os.write(near, data)

    end.connect(say)
    loop.add_reader(near, lambda: end.receive(os.read(near, 4096)))
    try:
        yield f"serial://{os.ttyname(far)}"
    finally:
        loop.remove_reader(near)
        end.connect(lambda data: None)  # what it says later goes nowhere
        os.close(near)
        os.close(far)


async def found_at(bench: Bench, *, terminal: bool) -> tuple[str, list[Found]]:
    async with (on_terminal if terminal else on_tcp)(bench) as link:
        await asyncio.sleep(BOOT_S)
        return bench.model, await probe(LinkUrl.parse(link), open_real)


def missed(answers: list[tuple[str, list[Found]]]) -> list[tuple[str, list[Found]]]:
    """The models that were not found, or not alone."""
    return [
        (model, found) for model, found in answers if [model in each.model.split(" or ") for each in found] != [True]
    ]


@pytest.mark.long
async def test_every_model_is_found_over_tcp_sockets_and_on_pseudo_terminals() -> None:
    """All at once, since nearly all of the time is spent in waiting for silence."""
    sockets = [bench for bench in ASKED if bench.model not in NEVER_OVER_TCP]
    answers = await asyncio.gather(
        *(found_at(bench, terminal=False) for bench in sockets), *(found_at(bench, terminal=True) for bench in ASKED)
    )
    assert len(ASKED) > 20
    assert missed(answers[: len(sockets)]) == []
    assert missed(answers[len(sockets) :]) == []
