"""Control of the electrodes: a lease that is renewed, and the calls that stimulate under it."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from typing import Any

import grpc

from choroid.client.cl.clock import local_s
from choroid.client.cl.errors import ControlRequestError, ControlRequiredError, StimulationRefused
from choroid.client.cl.feed import Sample
from choroid.client.cl.queues import Placed
from choroid.client.errors import NervesError
from choroid.client.nerves import NervesClient
from choroid.client.nerves_terms import granted, pulse_request
from choroid.client.wire import nerves_pb2 as pb

TTL_MS = 2_000
RENEW_S = 0.5
CALL_WITHIN_S = 75.0


class Control:
    """Holds a lease on channels. Every call stays open until its last pulse: when this process dies, the engine cancels
    the rest.

    Attributes:
        refused: Reasons of the stimulations that were refused or not delivered, in their order.
    """

    def __init__(
        self,
        nerves: NervesClient,
        channels: list[int],
        purpose: str,
        delivered: Callable[[list[Sample]], None],
        again: Callable[[Placed], Placed | None],
    ) -> None:
        """Acquire the lease.

        Raises:
            ControlRequestError: It was not granted.
        """
        self.refused: list[str] = []
        self._nerves = nerves
        self._channels = channels
        self._purpose = purpose
        self._delivered = delivered
        self._again = again
        self._calls: dict[Any, Placed] = {}
        self._lock = threading.Lock()
        self._renewed_s = 0.0
        self._closed = False
        self._lease = self._acquire()

    def keep(self) -> None:
        """Renew the lease when it is time; acquire a new one after a gap of frames has ended it."""
        if self._closed or local_s() - self._renewed_s < RENEW_S:
            return
        try:
            self._nerves.renew_lease(self._lease.lease)
            self._renewed_s = local_s()
        except NervesError:
            self._lease = self._acquire()

    def stimulate(self, placed: Placed) -> None:
        """Send pulses; the answer comes in the background.

        Args:
            placed: The pulses, with their frames.

        Raises:
            ControlRequiredError: The connection is closed.
        """
        if self._closed:
            raise ControlRequiredError("the connection is closed; next: open it again")
        request = pulse_request(
            self._lease.lease,
            placed.channels,
            placed.design.pulse(),
            self._purpose,
            placed.at_frame,
            0,
            placed.pulses,
            placed.period_frames,
            False,
            "",
            self._lease.fence,
        )
        call = self._nerves._stub.Stimulate.future(request, metadata=self._nerves._metadata, timeout=CALL_WITHIN_S)
        with self._lock:
            self._calls[call] = placed
        call.add_done_callback(self._answered)

    def interrupt(self, channels: set[int]) -> None:
        """Cut off the calls that stimulate any of the channels; their waiting pulses are cancelled.

        Args:
            channels: The channels; a call for several of them is cut off as a whole.
        """
        with self._lock:
            cut = [call for call, placed in self._calls.items() if channels & set(placed.channels)]
        for call in cut:
            call.cancel()

    def wait(self, within_s: float) -> None:
        """Wait until every stimulation has its answer.

        Args:
            within_s: Longest wait (s); after it this returns as well.
        """
        until = local_s() + within_s
        waiting = threading.Event()
        while self._calls and local_s() < until:
            waiting.wait(0.002)

    def close(self) -> None:
        """Cancel what waits and give the lease back."""
        self._closed = True
        self.interrupt(set(self._channels))
        with contextlib.suppress(NervesError):  # it ends by itself
            self._nerves.release_lease(self._lease.lease)

    def _acquire(self) -> pb.LeaseReply:
        request = pb.AcquireLeaseRequest(electrodes=self._channels, ttl_ms=TTL_MS)
        self._renewed_s = local_s()
        try:
            return granted(self._nerves._stub.AcquireLease(request, metadata=self._nerves._metadata, timeout=10.0))
        except NervesError as error:
            raise ControlRequestError(str(error)) from None
        except grpc.RpcError as error:
            raise ControlRequestError(f"no lease: {error}") from None

    def _answered(self, call: Any) -> None:
        try:
            self._note(call, self._calls.get(call))
        finally:
            with self._lock:
                self._calls.pop(call, None)

    def _note(self, call: Any, placed: Placed | None) -> None:
        if call.cancelled() or placed is None:
            return
        error = call.exception()
        if error is not None:
            self._refuse(placed, f"the engine gave no answer: {error.code().name}")
            return
        reply: pb.StimulateReply = call.result()
        late = not reply.accepted and {reason.limit for reason in reply.reasons} == {"time"}
        again = self._again(placed) if late and not self._closed else None
        if again is not None:
            self.stimulate(again)
            return
        if not reply.accepted:
            self._refuse(placed, "; ".join(reason.text for reason in reply.reasons))
            return
        self._delivered([(p.delivered_frame, p.electrode) for p in reply.pulses if p.HasField("delivered_frame")])
        lost = sum(not pulse.HasField("delivered_frame") for pulse in reply.pulses)
        if lost:
            self._refuse(placed, f"{lost} of {len(reply.pulses)} pulses came too late or were cancelled")

    def _refuse(self, placed: Placed, why: str) -> None:
        text = f"stimulation of channels {', '.join(map(str, placed.channels))}: {why}"
        self.refused.append(text)
        warnings.warn(text, StimulationRefused, stacklevel=2)
