"""What the electrode engine's clients send and receive: batches of spikes and frames, pulses, addresses."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from choroid.client.errors import NervesError
from choroid.client.wire import nerves_pb2 as pb

MAX_MESSAGE_BYTES = 64_000_000
OPTIONS = (
    # A connection of its own that ends with its client; a pooled one would outlive it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True, eq=False)
class SpikeBatch:
    """Holds spikes in the order of their frames.

    Attributes:
        frames: Frame of each spike, uint64, shape (spikes,).
        electrodes: Electrode of each spike, uint32, shape (spikes,).
        amplitudes_uv: Filtered value at the crossing of the threshold (µV), float32, shape (spikes,).
        next_frame: The array's clock when the batch was sent.
        lost: Spikes that this reader lost just before these because it was too slow.
        gap: Frames whose spikes are not kept any more, just before these, or None.
        waveforms: Raw samples around each spike, int16, shape (spikes, samples), or None if they were not asked for. All
            samples of a spike are -32768 where its frames are lost.
        waveform_before: Samples of each waveform before its spike.
    """

    frames: np.ndarray[Any, np.dtype[np.uint64]]
    electrodes: np.ndarray[Any, np.dtype[np.uint32]]
    amplitudes_uv: np.ndarray[Any, np.dtype[np.float32]]
    next_frame: int
    lost: int
    gap: FrameGap | None = None
    waveforms: np.ndarray[Any, np.dtype[np.int16]] | None = None
    waveform_before: int = 0

    def __len__(self) -> int:
        """Return the number of spikes."""
        return len(self.frames)


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatch:
    """Holds raw frames without a gap.

    Attributes:
        first_frame: Index of the first frame.
        samples: int16, shape (frames, electrodes); times `uv_per_unit` of :meth:`NervesClient.info` gives µV.
    """

    first_frame: int
    samples: np.ndarray[Any, np.dtype[np.int16]]


@dataclass(frozen=True, slots=True)
class FrameGap:
    """Names frames that this reader will not get: from `first_frame` up to, not including, `end_frame`.

    Attributes:
        cause: `ARRAY` (they exist nowhere) or `READER` (this reader was too slow).
    """

    first_frame: int
    end_frame: int
    cause: str


@dataclass(frozen=True, slots=True)
class NervesEvent:
    """Reports something that happened to the engine, to a lease of this agent or to the array.

    Attributes:
        number: Grows with each event, also over restarts of the engine; give the last one to resume.
        kind: `ENGINE_STARTED`, `LEASE_ENDED`, `CHANNEL_MUTED`, `CHANNEL_RESTORED`, `GAP`, `PERMIT_CLOSED`, `PERMIT_OPENED`,
            `STIMULATION_STOPPED`, `STIMULATION_ALLOWED`, `ALARM`, `REFLEX_LATE` or `REFLEX_ENDED`.
        frame: The array's clock.
        end_frame: Of a gap: the first frame after it.
        lease: Name of the lease that ended.
        electrodes: The electrodes that it is about.
        text: What happened, and why.
        lost_before: Whether events just before this one are not kept any more.
    """

    number: int
    kind: str
    frame: int
    end_frame: int
    lease: str
    electrodes: tuple[int, ...]
    text: str
    lost_before: bool


@dataclass(frozen=True, slots=True)
class PulsePhase:
    """Describes one phase of a pulse: a duration (µs) and a current (µA, cathodic negative)."""

    duration_us: float
    current_ua: float


def spikes_of(reply: pb.SpikesReply) -> SpikeBatch:
    """Return the spikes of a message.

    Args:
        reply: A message of the stream of spikes.

    Returns:
        The spikes as arrays.
    """
    waveforms = None
    if reply.waveform_frames:
        waveforms = np.frombuffer(reply.waveforms, dtype="<i2").reshape(len(reply.frames), reply.waveform_frames)
    return SpikeBatch(
        np.asarray(reply.frames, np.uint64),
        np.asarray(reply.electrodes, np.uint32),
        np.asarray(reply.uv, np.float32),
        reply.next_frame,
        reply.lost,
        _gap_of(reply.gap) if reply.HasField("gap") else None,
        waveforms,
        reply.waveform_before,
    )


def spikes_request(
    min_interval_ms: int, from_frame: int | None, electrodes: Iterable[int], waveforms: bool
) -> pb.StreamSpikesRequest:
    """Return the message that asks for spikes.

    Args:
        min_interval_ms: Shortest real time between two batches (ms).
        from_frame: Where to begin; None means now.
        electrodes: Only these electrodes; none means all.
        waveforms: Whether to send the samples around each spike.

    Returns:
        The message.
    """
    return pb.StreamSpikesRequest(
        min_interval_ms=min_interval_ms, from_frame=from_frame, electrodes=list(electrodes), waveforms=waveforms
    )


def event_of(reply: pb.Event) -> NervesEvent:
    """Return the event of a message.

    Args:
        reply: A message of the stream of events.

    Returns:
        The event.
    """
    return NervesEvent(
        reply.number,
        pb.Event.Kind.Name(reply.kind),
        reply.frame,
        reply.end_frame,
        reply.lease,
        tuple(reply.electrodes),
        reply.text,
        reply.lost_before,
    )


def _gap_of(gap: pb.Gap) -> FrameGap:
    return FrameGap(gap.first_frame, gap.end_frame, pb.Gap.Cause.Name(gap.cause))


def frames_of(reply: pb.FramesReply) -> FrameBatch | FrameGap:
    """Return the frames of a message, or the gap that it reports.

    Args:
        reply: A message of the stream of frames.

    Returns:
        Frames or a gap.
    """
    if reply.HasField("gap"):
        return _gap_of(reply.gap)
    found = reply.frames
    samples = np.frombuffer(found.samples, dtype="<i2").reshape(found.count, found.electrodes)
    return FrameBatch(found.first_frame, samples)


def pulse_request(
    lease: str,
    electrodes: Iterable[int],
    phases: Sequence[PulsePhase],
    purpose: str,
    at_frame: int,
    not_after: int,
    pulses: int,
    period_frames: int,
    reply_at_decision: bool,
    idempotency_key: str,
    fence: int,
) -> pb.StimulateRequest:
    """Return the message that asks for pulses.

    Args:
        lease: Name of the lease that covers the electrodes.
        electrodes: Where.
        phases: The pulse.
        purpose: What it is for; kept in the stimulation ledger.
        at_frame: Frame at which the first pulse begins; 0 means as soon as possible.
        not_after: Latest frame at which it may begin; 0 leaves it to the engine.
        pulses: Number of pulses.
        period_frames: Frames from one pulse to the next.
        reply_at_decision: Whether to answer with the decision instead of waiting for the delivery.
        idempotency_key: A name for this request, at most 64 characters; empty for none.
        fence: Fencing number of the lease; 0 where it is not known.

    Returns:
        The message.
    """
    return pb.StimulateRequest(
        lease=lease,
        electrodes=list(electrodes),
        phases=[pb.Phase(duration_us=each.duration_us, current_ua=each.current_ua) for each in phases],
        at_frame=at_frame,
        not_after=not_after,
        pulses=pulses,
        period_frames=period_frames,
        purpose=purpose,
        reply_at_decision=reply_at_decision,
        idempotency_key=idempotency_key,
        fence=fence,
    )


def granted(reply: pb.LeaseReply) -> pb.LeaseReply:
    """Return a lease, if it was granted.

    Args:
        reply: The answer to a request for a lease.

    Returns:
        The same answer.

    Raises:
        NervesError: It was not, with the engine's reason.
    """
    if not reply.granted:
        raise NervesError(f"no lease: {reply.reason}")
    return reply


def explained(error: grpc.RpcError, address: str) -> NervesError:
    """Explain the error of a call in words.

    Args:
        error: The error that gRPC has raised.
        address: Address of the engine, for the message.

    Returns:
        The error to raise, with the likely cause and the next action.
    """
    call: Any = error  # gRPC raises errors that are calls as well, and types them as neither
    name = str(call.code().name)
    details = str(call.details() or "")
    match name:
        case "UNAVAILABLE":
            text = (
                f"the electrode engine at {address} cannot be reached ({details}). Likely cause: it has ended, or is being"
                " started again. Next: try again in some seconds; all leases are gone; nerves.json of the data folder has the"
                " address"
            )
        case "UNAUTHENTICATED":
            text = (
                f"the electrode engine at {address} does not know this token. Likely cause: it was revoked or renewed. Next:"
                " ask an admin of the rig for a new one (`choroid agent`)"
            )
        case _:
            text = f"the electrode engine at {address} refused the call ({name}): {details}"
    return NervesError(text, code=name)


def endpoint_of(path: Path | str) -> tuple[str, str]:
    """Read the address and the token from `nerves.json`.

    Args:
        path: The file.

    Returns:
        The address (host:port) and the token.

    Raises:
        NervesError: The file is not there, cannot be read, or has no token.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        address, token = str(found["address"]), str(found["token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NervesError(
            f"{path} cannot be read ({error}). Likely cause: no electrode engine runs with this data folder at present."
            " Next: start `choroid run`, wait until it prints the engine's address, then read the file again"
        ) from None
    if not token:
        raise NervesError(
            f"{path} has no token: that of the agent on this machine was revoked or renewed. Next: have one issued with"
            " `choroid agent add`, and use it with the address in the file"
        )
    return address, token


def tls_credentials(authority: Path | str, certificate: Path | str, key: Path | str) -> grpc.ChannelCredentials:
    """Return the credentials for an engine on another machine.

    Args:
        authority: The rig's authority (`authority.pem`).
        certificate: This agent's certificate; it names the same agent as the token.
        key: The key of the certificate.

    Returns:
        The credentials.

    Raises:
        NervesError: A file cannot be read.
    """
    try:
        parts = [Path(each).read_bytes() for each in (authority, key, certificate)]
    except OSError as error:
        raise NervesError(
            f"{error.filename} cannot be read ({error.strerror}). Next: ask the rig's admin for the files"
        ) from None
    return grpc.ssl_channel_credentials(*parts)


def require_private(address: str, credentials: grpc.ChannelCredentials | None) -> None:
    """Refuse to send a token unencrypted over a network.

    Args:
        address: host:port, or `unix:` and a path.
        credentials: TLS credentials; None means an unencrypted channel.

    Raises:
        NervesError: The address is not on this machine and there are no TLS credentials.
    """
    host = address.rpartition(":")[0].strip("[]")
    if credentials is not None or host == "localhost" or address.startswith("unix:"):
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass  # a name
    raise NervesError(
        f"{address} is not on this machine, and the token would go there unencrypted. Next: use a tunnel"
        " (ssh -L 50051:127.0.0.1:PORT rig) and connect to 127.0.0.1, or pass credentials=tls_credentials(…)"
    )
