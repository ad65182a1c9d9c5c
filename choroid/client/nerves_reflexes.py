"""Reflexes: ONNX graphs that close a loop inside the engine, uploaded by a client and ended with its call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence

import grpc
import grpc.aio

from choroid.client.errors import NervesError
from choroid.client.nerves_terms import PulsePhase
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc

PART_BYTES = 60_000
Metadata = tuple[tuple[str, str], ...]


def reflex_requests(
    lease: str,
    fence: int,
    model: bytes,
    designs: Sequence[Sequence[PulsePhase]],
    purpose: str,
    min_interval_frames: int,
    bin_frames: int = 0,
) -> Iterator[pb.ReflexRequest]:
    """Yield the messages that upload a reflex.

    Args:
        lease: Name of the lease under which it stimulates.
        fence: Fencing number of the lease; 0 where it is not known.
        model: The ONNX graph; it is sent in parts of 60 kB.
        designs: The pulses that it can ask for.
        purpose: What it is for; kept in the stimulation ledger.
        min_interval_frames: Shortest time between two requests of the reflex (frames).
        bin_frames: Frames of one bin of its input; 0: those of 1 ms.

    Yields:
        The terms with the first part of the graph, then its other parts.
    """
    first = pb.ReflexRequest(
        lease=lease,
        fence=fence,
        purpose=purpose,
        min_interval_frames=min_interval_frames,
        bin_frames=bin_frames,
        designs=[
            pb.PulseDesign(
                phases=[pb.Phase(duration_us=each.duration_us, current_ua=each.current_ua) for each in design]
            )
            for design in designs
        ],
    )
    parts = [model[at : at + PART_BYTES] for at in range(0, len(model), PART_BYTES)] or [b""]
    first.model = parts[0]
    yield first
    for part in parts[1:]:
        yield pb.ReflexRequest(model=part)


class RunningReflex:
    """Follows a reflex, which runs until it is stopped, its lease ends or it fails.

    Attributes:
        report: The latest report: `running`, `ended` (why), and counts of calls, late answers, requests and accepted ones.
    """

    def __init__(self, stub: pb_grpc.NervesStub, metadata: Metadata, requests: Iterator[pb.ReflexRequest]) -> None:
        """Upload it and wait until it runs.

        Raises:
            NervesError: It was refused; the text says why.
            grpc.RpcError: The engine cannot be reached or refuses the call.
        """
        self._call = stub.RunReflex(requests, metadata=metadata)
        self._stopped = False
        self.report = _running(next(iter(self._call), pb.ReflexReport(ended="the engine has ended the call")))

    def reports(self) -> Generator[pb.ReflexReport]:
        """Yield a report each second; the last one says why the reflex has ended. :meth:`stop` ends them as well."""
        try:
            for report in self._call:
                self.report = report
                yield report
        except grpc.RpcError:
            if not self._stopped:
                raise

    def stop(self) -> None:
        """End the reflex. Pulses that were accepted are still delivered."""
        self._stopped = True
        self._call.cancel()  # type: ignore[no-untyped-call]


class AsyncRunningReflex:
    """Follows a reflex as :class:`RunningReflex` does, for use with asyncio."""

    def __init__(self, stub: pb_grpc.NervesAsyncStub, metadata: Metadata) -> None:
        """Prepare the call; :meth:`begin` makes it."""
        self._call: grpc.aio.StreamStreamCall[pb.ReflexRequest, pb.ReflexReport] = stub.RunReflex(  # type: ignore[call-arg]
            metadata=metadata
        )
        self._stopped = False
        self.report = pb.ReflexReport()

    async def begin(self, requests: Iterator[pb.ReflexRequest]) -> None:
        """Upload the reflex and wait until it runs.

        Args:
            requests: The messages of :func:`reflex_requests`.

        Raises:
            NervesError: It was refused; the text says why.
            grpc.RpcError: The engine cannot be reached or refuses the call.
        """
        for request in requests:
            await self._call.write(request)
        await self._call.done_writing()
        report = await self._call.read()
        ended = pb.ReflexReport(ended="the engine has ended the call")
        self.report = _running(report if isinstance(report, pb.ReflexReport) else ended)

    async def reports(self) -> AsyncGenerator[pb.ReflexReport]:
        """Yield a report each second, as :meth:`RunningReflex.reports` does."""
        while isinstance(report := await self._read(), pb.ReflexReport):
            self.report = report
            yield report

    async def _read(self) -> object:
        """Return the next report; anything else after the last one. gRPC cancels who reads a call that was stopped."""
        try:
            return await self._call.read()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stopped or (task is not None and task.cancelling()):
                raise
            return None

    async def stop(self) -> None:
        """End the reflex; see :meth:`RunningReflex.stop`."""
        self._stopped = True
        self._call.cancel()
        await self._call.code()


def _running(report: pb.ReflexReport) -> pb.ReflexReport:
    if not report.running:
        raise NervesError(f"no reflex: {report.ended}")
    return report
