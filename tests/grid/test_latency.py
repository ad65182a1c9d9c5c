"""The measurements of latency: a slow line keeps order and delay; answers are paired with the spike that they answer."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from grid.commands.latency import APART_FRAMES, first_spikes
from grid.commands.slow_line import slow_line


async def test_a_slow_line_delays_every_byte_and_keeps_their_order() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    async with server, slow_line("127.0.0.1", server.sockets[0].getsockname()[1], 0.05) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start = loop.time()
        for number in range(100):
            writer.write(number.to_bytes(1, "big") * 100)
        assert await reader.readexactly(10_000) == b"".join(number.to_bytes(1, "big") * 100 for number in range(100))
        assert loop.time() - start >= 0.1
        writer.close()


def test_an_answer_is_paired_with_the_first_spike_that_it_was_free_to_answer() -> None:
    ready = 1000 + APART_FRAMES
    spikes = np.array([990, 1100, ready + 50, ready + 70, ready + 5000])
    answers = [(1000, 1010), (ready + 90, ready + 100), (ready + 4000, ready + 4010)]
    assert first_spikes(spikes, answers, [0], 25_000.0) == pytest.approx([2.0])


def test_spikes_between_two_uploads_are_not_paired_with_an_answer() -> None:
    """They made a p99 of seconds."""
    spikes, answers = np.array([990, 3000, 90_950]), [(1000, 1010), (91_000, 91_010)]
    assert first_spikes(spikes, answers, [0, 90_000], 25_000.0) == []
