"""Receive uploaded reflexes over gRPC, open them in their sandboxes, and give them to the real-time thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any

from choroid.client.wire import nerves_pb2 as pb
from controller.sandbox.errors import SandboxError
from controller.sandbox.limits import MIB, ModelLimits
from controller.sandbox.model import SandboxedModel
from nerves.cards.contract import Phase
from nerves.core import Core
from nerves.precedence import JUDGED_EVERY_S, LightPriority
from nerves.reflexes import MAX_BIN_S, ReflexRefused, ReflexTerms, UploadedReflex, interface_of
from nerves.tokens import Grant

LIMITS = ModelLimits(
    max_model=1 * MIB, max_initializers=1 * MIB, max_nodes=1000, max_tensors=16, max_io=1 * MIB, max_memory=64 * MIB
)
MIN_INTERVAL_S = 0.005
MAX_TEXT = 200
UPLOADED_WITHIN_S = 30.0
REPORT_EVERY_S = 1.0
CONFIRMED_WITHIN_S = 2.0
"""A real-time thread that has not let go of a reflex after this time (s) has ended itself."""


class ReflexUploads:
    """The calls of `RunReflex`."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, requests: AsyncIterator[pb.ReflexRequest], grant: Grant) -> AsyncGenerator[pb.ReflexReport]:
        """Run one reflex; the last report says why it has ended. It ends as well when this generator is closed."""
        ended: asyncio.Future[str] = self._loop.create_future()
        try:
            async with asyncio.timeout(UPLOADED_WITHIN_S):
                first, model = await _received(requests)
                sandboxed = await SandboxedModel.open_async(model, LIMITS)
        except TimeoutError:
            yield pb.ReflexReport(ended=f"the graph was not received and loaded within {UPLOADED_WITHIN_S:g} s")
            return
        except (SandboxError, ReflexRefused) as error:
            yield pb.ReflexReport(ended=str(error))
            return
        try:
            reflex = self._reflex(sandboxed, first, grant, ended)
        except ReflexRefused as error:
            sandboxed.close()
            yield pb.ReflexReport(ended=str(error))
            return
        self._core.uploaded.attach(reflex)
        self._watch(_kept_light(sandboxed, ended), "priority of a reflex")
        try:
            while not ended.done():
                yield _report(reflex)
                await asyncio.wait([ended], timeout=REPORT_EVERY_S)
            yield _report(reflex, ended.result())
        finally:
            self._core.uploaded.detach(reflex)
            self._watch(_close(sandboxed, ended), "end of a reflex")

    def _watch(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something apart from the calls, which a client that reads no reports may hold up."""
        task = self._loop.create_task(work, name=name)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _reflex(
        self, model: SandboxedModel, first: pb.ReflexRequest, grant: Grant, ended: asyncio.Future[str]
    ) -> UploadedReflex:
        info = self._core.info
        terms = ReflexTerms(
            requester=grant.requester,
            lease=first.lease[:MAX_TEXT],
            designs=tuple(
                tuple(Phase(phase.duration_us, phase.current_ua) for phase in design.phases) for design in first.designs
            ),
            fence=first.fence,
            budget=grant.budget,
            purpose=first.purpose[:MAX_TEXT],
            min_interval_s=max(MIN_INTERVAL_S, first.min_interval_frames / info.sample_rate_hz),
            bin_frames=first.bin_frames,
        )
        if terms.bin_frames > MAX_BIN_S * info.sample_rate_hz:
            raise ReflexRefused(
                f"a bin of {terms.bin_frames} frames is longer than {MAX_BIN_S:g} s. Next: declare more and shorter bins"
            )
        interface = interface_of(model.inputs, model.outputs, info.electrodes, len(terms.designs))

        def confirm(why: str) -> None:
            if not ended.done():
                ended.set_result(why)

        def from_the_real_time_thread(why: str) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(confirm, why)

        return UploadedReflex(model, interface, terms, info, from_the_real_time_thread)


async def _received(requests: AsyncIterator[pb.ReflexRequest]) -> tuple[pb.ReflexRequest, bytes]:
    """Return the first message and the whole graph."""
    first = None
    model = bytearray()
    async for request in requests:
        first = first or request
        model += request.model
        if len(model) > LIMITS.max_model:
            raise ReflexRefused(f"the graph has more than {LIMITS.max_model} bytes")
    if first is None:
        raise ReflexRefused("nothing was uploaded")
    return first, bytes(model)


async def _kept_light(model: SandboxedModel, ended: asyncio.Future[str]) -> None:
    """Judge the priority of a graph until its reflex has ended; then close it, whether or not its client listens."""
    priority = LightPriority(model.pid)
    while not ended.done():
        await asyncio.wait([ended], timeout=JUDGED_EVERY_S)
        priority.judge()
    model.close()


async def _close(model: SandboxedModel, ended: asyncio.Future[str]) -> None:
    """Close a sandbox when the real-time thread does not use it any more."""
    await asyncio.wait([ended], timeout=CONFIRMED_WITHIN_S)
    model.close()


def _report(reflex: UploadedReflex, ended: str = "") -> pb.ReflexReport:
    return pb.ReflexReport(
        running=not ended,
        ended=ended,
        calls=reflex.calls,
        late=reflex.late,
        blocks=reflex.blocks,
        requests=reflex.asked,
        accepted=reflex.accepted,
    )
