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
UNREACHED = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
"""With these codes it is unknown whether a lease lives."""


class Control:
    """Holds a lease on channels. Every call stays open until its last pulse: when this process dies, the engine cancels
    the rest.

    Attributes:
        refused: Reasons of the stimulations that were refused or not delivered, in their order.
        closed: Whether it has ended: the program gave it back, or another agent has taken a channel.
    """

    def __init__(
        self,
        nerves: NervesClient,
        channels: list[int],
        purpose: str,
        delivered: Callable[[list[Sample]], None],
        again: Callable[[Placed], Placed | None],
        in_time: Callable[[], None],
        refused: list[str],
    ) -> None:
        """Acquire the lease.

        Raises:
            ControlRequestError: It was not granted.
        """
        self.refused = refused
        self._nerves = nerves
        self._channels = channels
        self._purpose = purpose
        self._delivered = delivered
        self._again = again
        self._in_time = in_time
        self._calls: dict[Any, Placed] = {}
        self._cut_later: list[tuple[int, Any]] = []
        self._lock = threading.Lock()
        self._renewing = threading.RLock()
        self._cuts: dict[Any, int] = {}
        self._confirmed_s = 0.0
        self.closed = False
        self._lease = self._acquire()

    @property
    def live(self) -> bool:
        """Return whether the lease is known to live: the engine has confirmed it, and its time is not over."""
        return not self.closed and local_s() - self._confirmed_s < TTL_MS / 1000

    def keep(self, frame: int) -> None:
        """Renew the lease when it is time, and acquire a new one after a gap of frames has ended it; cut off calls that are
        due. If a new one is refused, control ends, with a warning.

        Args:
            frame: The array's clock.
        """
        with self._lock:
            due = [call for at, call in self._cut_later if at <= frame]
            self._cut_later = [each for each in self._cut_later if each[0] > frame]
        for call in due:
            call.cancel()
        with self._renewing:
            now_s = local_s()
            if self.closed or now_s - self._confirmed_s < RENEW_S:
                return
            try:
                self._nerves.renew_lease(self._lease.lease)
                self._confirmed_s = now_s
            except NervesError as error:
                if error.code not in UNREACHED:
                    self._regain()

    def stimulate(self, placed: Placed) -> None:
        """Send pulses; the answer comes in the background.

        Args:
            placed: The pulses, with their frames.

        Raises:
            ControlRequiredError: Control has ended.
        """
        self._send(placed)

    def _send(self, placed: Placed) -> Any:
        if self.closed:
            raise ControlRequiredError("control has ended. Next: take_control(), or open the connection again")
        request = pulse_request(
            self._lease.lease,
            placed.channels,
            placed.design.pulse(),
            self._purpose,
            placed.at_frame,
            placed.at_frame if placed.fixed else 0,
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
        return call

    def interrupt(self, channels: set[int], frame: int = 0) -> None:
        """Cut off the calls that stimulate any of the channels; their waiting pulses are cancelled.

        Args:
            channels: The channels; a call for several of them is cut off as a whole.
            frame: From this frame on; 0 means at once. A call that begins before is cut off when the clock is there.
        """
        with self._lock:
            found = [(call, placed) for call, placed in self._calls.items() if channels & set(placed.channels)]
            for call, _ in found:  # for the case that it came too late, and is planned again
                self._cuts[call] = min(frame, self._cuts.get(call, frame))
        for call, placed in found:
            self._cut(call, placed, frame)

    def _cut(self, call: Any, placed: Placed, frame: int) -> None:
        """Cut a call off from a frame on."""
        if placed.at_frame >= frame:
            call.cancel()
            return
        with self._lock:
            self._cut_later.append((frame, call))

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
        self.closed = True
        self.interrupt(set(self._channels))
        with self._renewing, contextlib.suppress(NervesError):  # a renewal under way would acquire another lease
            self._nerves.release_lease(self._lease.lease)

    def _acquire(self) -> pb.LeaseReply:
        request = pb.AcquireLeaseRequest(electrodes=self._channels, ttl_ms=TTL_MS)
        now_s = local_s()
        try:
            lease = granted(self._nerves._stub.AcquireLease(request, metadata=self._nerves._metadata, timeout=10.0))
        except NervesError as error:
            raise ControlRequestError(str(error)) from None
        except grpc.RpcError as error:
            call: Any = error  # gRPC raises errors that are calls as well
            raise ControlRequestError(f"no lease: {error}", code=call.code().name) from None
        self._confirmed_s = now_s
        return lease

    def _regain(self) -> None:
        """Acquire a lease in place of one that has ended; end control if that is refused."""
        try:
            self._lease = self._acquire()
        except ControlRequestError as error:
            if error.code in UNREACHED:  # another turn tries again
                return
            self.closed = True
            self.interrupt(set(self._channels))
            text = f"control is lost: {error}. Next: take_control() when the channels are free"
            self.refused.append(text)
            with contextlib.suppress(StimulationRefused):  # as an error it would end the thread that keeps time
                warnings.warn(text, StimulationRefused, stacklevel=2)

    def _answered(self, call: Any) -> None:
        try:
            self._note(call, self._calls.get(call))
        finally:
            with self._lock:
                self._calls.pop(call, None)
                self._cuts.pop(call, None)

    def _note(self, call: Any, placed: Placed | None) -> None:
        if call.cancelled() or placed is None:
            return
        error = call.exception()
        if error is not None:
            self._refuse(placed, f"the engine gave no answer: {error.code().name}")
            return
        reply: pb.StimulateReply = call.result()
        late = not reply.accepted and {reason.limit for reason in reply.reasons} == {"time"}
        again = self._again(placed) if late and not self.closed else None
        if again is not None:
            self._send_again(call, again)
            return
        if not reply.accepted:
            self._refuse(placed, "; ".join(reason.text for reason in reply.reasons))
            return
        self._delivered([(p.delivered_frame, p.electrode) for p in reply.pulses if p.HasField("delivered_frame")])
        lost = sum(not pulse.HasField("delivered_frame") for pulse in reply.pulses)
        if lost:
            self._refuse(placed, f"{lost} of {len(reply.pulses)} pulses came too late or were cancelled")
        elif placed.at_frame:
            self._in_time()

    def _send_again(self, late: Any, again: Placed) -> None:
        """Send what came too late; an interruption of the late call holds for it as well, also one of this moment."""
        if self._cuts.get(late, again.at_frame + 1) <= again.at_frame:
            return
        call = self._send(again)
        with self._lock:
            frame = self._cuts.get(late)
            if frame is not None:
                self._cuts[call] = frame
        if frame is not None:
            self._cut(call, again, frame)

    def _refuse(self, placed: Placed, why: str) -> None:
        text = f"stimulation of channels {', '.join(map(str, placed.channels))}: {why}"
        self.refused.append(text)
        warnings.warn(text, StimulationRefused, stacklevel=2)
