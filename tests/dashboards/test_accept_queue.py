"""The accept queue on a busy machine: many connections must not delay the stop of a known caller (A9)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from dashboards import accept_queue
from dashboards.accept_queue import AcceptQueue
from dashboards.admission import Admission, AdmittedConnection

STOP = b"POST /api/estop HTTP/1.1\r\nAuthorization: Bearer known\r\n\r\n"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(4096)
        yield made


def connect(listening: socket.socket, sends: bytes = b"") -> socket.socket:
    """Connect without a turn of the event loop: the connection waits in the system's queue."""
    one = socket.create_connection(listening.getsockname())
    if sends:
        one.sendall(sends)
    return one


class Recorder:
    """An accept queue that records the heads that it hands over."""

    def __init__(self, listening: socket.socket) -> None:
        self.admission = Admission()
        self.entered: list[bytes] = []
        self.queue = AcceptQueue(listening, self.admission, lambda head, _: b"known" in head, self._enter)

    def _enter(self, connection: socket.socket, head: bytes, admitted: AdmittedConnection) -> None:
        self.entered.append(head)
        self.admission.remove(admitted)
        connection.close()

    def close(self) -> None:
        self.queue.close()
        self.admission.close()


async def test_A9_closed_connections_cost_no_reader_and_a_stop_behind_them_is_handed_over_when_it_is_accepted(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(200):
        connect(listening).close()
    stop = connect(listening, STOP)
    watched: list[int] = []
    add_reader = loop.add_reader

    def counted(descriptor: int, *how: object) -> None:
        watched.append(descriptor)
        add_reader(descriptor, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "add_reader", counted)
    monkeypatch.setattr(accept_queue, "ACCEPT_FOR_S", 60.0)
    recorder = Recorder(listening)
    try:
        for _ in range(2):  # one turn looks at what is ready, the next accepts
            await asyncio.sleep(0)
        assert recorder.entered == [STOP]
        assert watched == [listening.fileno()]
        assert len(recorder.admission) == 0
    finally:
        recorder.close()
        stop.close()


async def test_A9_a_turn_accepts_a_minimum_though_its_time_passed_while_the_process_did_not_run(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [connect(listening) for _ in range(accept_queue.MIN_ACCEPTS_A_TURN - 1)]
    stop = connect(listening, STOP)
    monkeypatch.setattr(accept_queue, "ACCEPT_FOR_S", -1.0)
    recorder = Recorder(listening)
    try:
        for _ in range(2):
            await asyncio.sleep(0)
        assert recorder.entered == [STOP]
        assert len(recorder.admission) == len(others)
    finally:
        recorder.close()
        for one in (stop, *others):
            one.close()


async def test_a_head_that_comes_in_pieces_goes_on_when_it_is_whole(listening: socket.socket) -> None:
    recorder = Recorder(listening)
    one = connect(listening, STOP[:30])
    try:
        await asyncio.sleep(0.05)
        assert recorder.entered == []
        one.sendall(STOP[30:])
        async with asyncio.timeout(5.0):
            while not recorder.entered:
                await asyncio.sleep(0.01)
        assert recorder.entered == [STOP]
    finally:
        recorder.close()
        one.close()
