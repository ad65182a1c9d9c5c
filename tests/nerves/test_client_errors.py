"""What ends in the background of a client reaches the program: a broken stream of spikes, a release without an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from choroid.client import nerves_leases
from choroid.client.cl.feed import EngineFeed
from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_leases import HeldLease
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc


class Nerves:
    """An engine that answers for its clock, and whose stream of spikes ends on command."""

    def __init__(self, error: Exception | None) -> None:
        self.over = threading.Event()
        self._error = error

    def status(self) -> Any:
        return SimpleNamespace(next_frame=1000)

    def spikes(self) -> Iterator[Any]:
        self.over.wait(10.0)
        if self._error is not None:
            raise self._error
        yield from ()


@pytest.mark.parametrize("error", [NervesError("the engine stopped", code="UNAVAILABLE"), None])
def test_a_program_learns_that_its_spikes_have_ended(error: Exception | None) -> None:
    """A closed loop that silently gets no more spikes would act on a silence that the tissue does not have."""
    nerves = Nerves(error)
    feed = EngineFeed(nerves, 25_000.0, lambda: None)  # type: ignore[arg-type]
    asked: tuple[Callable[[], object], ...] = (feed.now, feed.take, lambda: feed.between(0, 10))
    for ask in asked:
        ask()
    nerves.over.set()
    feed._threads[0].join(10.0)
    for ask in asked:
        with pytest.raises(NervesError, match=r"spikes.*(the engine stopped|ended the stream).*Next:"):
            ask()
    feed.close()
    feed.join()


def test_a_program_that_closes_its_connection_sees_no_error() -> None:
    nerves = Nerves(NervesError("the channel is closed"))
    feed = EngineFeed(nerves, 25_000.0, lambda: None)  # type: ignore[arg-type]
    feed.close()
    nerves.over.set()
    feed.join()
    feed.take()


class Silent(pb_grpc.NervesServicer):
    """An engine that takes a request for a lease, and never answers."""

    async def HoldLease(self, requests: Any, context: Any) -> Any:
        await asyncio.Event().wait()
        yield pb.LeaseReply()


async def test_a_lease_that_is_never_answered_is_an_error_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nerves_leases, "GRANTED_WITHIN_S", 0.2)
    server = grpc.aio.server()
    pb_grpc.add_NervesServicer_to_server(Silent(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = AsyncNervesClient(f"127.0.0.1:{port}", token="t")
    with pytest.raises(NervesError, match="has not answered in time") as refused:
        await client.acquire_lease([1])
    assert refused.value.code == "DEADLINE_EXCEEDED"
    await client.close()
    await server.stop(0.0)


class Call:
    """A call that grants a lease and then never ends by itself."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._replies = self._reply()

    def __iter__(self) -> Iterator[pb.LeaseReply]:
        return self._replies

    def _reply(self) -> Iterator[pb.LeaseReply]:
        yield pb.LeaseReply(granted=True, lease="1")
        assert self.cancelled.wait(30.0)
        raise grpc.RpcError

    def cancel(self) -> None:
        self.cancelled.set()


def test_a_release_ends_although_the_engine_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nerves_leases, "RELEASED_WITHIN_S", 0.05)
    call = Call()
    stub = SimpleNamespace(HoldLease=lambda beats, metadata: call)
    lease = HeldLease(stub, (), [1], 1000)  # type: ignore[arg-type]
    done = threading.Thread(target=lease.release, daemon=True)
    done.start()
    done.join(5.0)
    assert not done.is_alive()
    assert call.cancelled.is_set(), "a lease ends with its call"
