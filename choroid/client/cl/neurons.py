"""The connection that a program has with the tissue: :func:`open_neurons` and :class:`CulturedNeurons`."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from choroid.client.cl.clock import local_s
from choroid.client.cl.control import Control
from choroid.client.cl.data_streams import DataStream
from choroid.client.cl.designs import BurstDesign, Channels, StimDesign, channel_set, design_of
from choroid.client.cl.errors import ControlRequiredError, UnsafeOperationError
from choroid.client.cl.feed import KEPT, EngineFeed, Sample
from choroid.client.cl.loops import NeuronsLoop
from choroid.client.cl.plans import StimPlan
from choroid.client.cl.queues import ChannelQueues, Placed, StimOperation, require_lead
from choroid.client.cl.readings import AFTER, BEFORE, DetectionResult, Spike, Stim
from choroid.client.cl.records import NeuronsRecording, recording_file
from choroid.client.errors import NervesError
from choroid.client.nerves import NervesClient
from choroid.client.nerves_terms import FrameGap

SOURCE = "CHOROID_NERVES"
"""Environment variable with the path of `nerves.json`."""

MARGIN_S = 0.008
"""A planned beginning lies this far ahead of the clock: the request must arrive before it."""

READY_WITHIN_S = 15.0
MAX_READ_FRAMES = 25_000


def open_neurons(
    take_control: bool = True,
    wait_until_recordable: bool = True,
    *,
    source: NervesClient | Path | str | None = None,
    channels: Iterable[int] | None = None,
    purpose: str = "CL program",
) -> CulturedNeurons:
    """Connect to the tissue. Use it in a `with` block; Python's garbage collector is off while it is open.

    Args:
        take_control: Lease the channels; without it the program only reads.
        wait_until_recordable: Wait until frames come.
        source: A client, or the path of `nerves.json`; by default the environment variable CHOROID_NERVES names it.
        channels: Which channels to lease; None means all.
        purpose: What the program is for; kept in the stimulation ledger.

    Returns:
        The open connection.

    Raises:
        NervesError: The engine cannot be reached.
        ControlRequestError: Another agent has a channel, or this one may not stimulate it.
        TimeoutError: No frame came within 15 s.
    """
    client = source if isinstance(source, NervesClient) else NervesClient.from_file(_source(source))
    neurons = CulturedNeurons(client, take_control, channels, purpose)
    if wait_until_recordable:
        try:
            neurons.wait_until_recordable()
        except BaseException:
            neurons.close()
            raise
    return neurons


def get_system_attributes(source: Path | str | None = None) -> dict[str, Any]:
    """Return facts about the array and its engine.

    Args:
        source: Path of `nerves.json`; None means the one in the environment variable CHOROID_NERVES.

    Returns:
        The facts by name: `system_id`, `channel_count`, `frames_per_second`, `uv_per_sample_unit`, `simulated`,
        `electrode_material` and `electrode_diameter_um`.

    Raises:
        NervesError: No engine is named, or it cannot be reached.
    """
    with NervesClient.from_file(_source(source)) as client:
        info = client.info()
    return {
        "system_id": info.array,
        "channel_count": info.electrodes,
        "frames_per_second": info.sample_rate_hz,
        "uv_per_sample_unit": info.uv_per_unit,
        "simulated": info.simulated,
        "electrode_material": info.material,
        "electrode_diameter_um": info.diameter_um,
    }


def is_simulator(source: Path | str | None = None) -> bool:
    """Return whether the array is simulated.

    Args:
        source: Path of `nerves.json`; None means the one in the environment variable CHOROID_NERVES.

    Returns:
        True for a simulated array.

    Raises:
        NervesError: No engine is named, or it cannot be reached.
    """
    return bool(get_system_attributes(source)["simulated"])


def _source(source: Path | str | None) -> Path | str:
    found = source or os.environ.get(SOURCE)
    if not found:
        raise NervesError(
            f"no engine is named. Next: set {SOURCE} to the path of nerves.json in the data folder of `choroid run`, or pass"
            " source="
        )
    return found


class CulturedNeurons:
    """Reads and stimulates. Times are frames of the array, channels its electrodes.

    Attributes:
        nerves: The client underneath.
        feed: What comes in in the background.
        uv_per_unit: Microvolts of one unit of a raw sample.
        system_id: Name of the array.
        refused: The stimulations that the governor refused or that were not delivered, with reasons.
    """

    def __init__(self, nerves: NervesClient, take_control: bool, channels: Iterable[int] | None, purpose: str) -> None:
        """Connect; see :func:`open_neurons`."""
        self.nerves = nerves
        self._collects = gc.isenabled()
        self._control: Control | None = None
        self._purpose = purpose
        self.refused: list[str] = []
        self._recordings: list[NeuronsRecording] = []
        self._streams: dict[str, DataStream] = {}
        self._delivered: list[Sample] = []
        info = nerves.info()
        self._channels = info.electrodes
        self._rate = info.sample_rate_hz
        self._wanted = list(range(info.electrodes)) if channels is None else sorted(set(channels))
        self.uv_per_unit = info.uv_per_unit
        self.system_id = info.array
        self.feed = EngineFeed(nerves, self._rate, self._keep_control)
        self._queues = ChannelQueues(self._rate, round(MARGIN_S * self._rate))
        try:
            if take_control:
                self.take_control()
        except BaseException:
            self.close()
            raise
        gc.disable()

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Cancel waiting pulses, end recordings, give the channels back and disconnect."""
        if self._collects:
            gc.enable()
        first_error: Exception | None = None
        try:
            for recording in self._recordings:
                if recording.status == "started":
                    try:
                        recording.stop()
                    except Exception as error:  # the others are stopped as well
                        first_error = first_error or error
            if first_error is not None:
                raise first_error
        finally:
            self.release_control()
            self.feed.close()
            self.nerves.close()
            self.feed.join()

    def has_control(self) -> bool:
        """Return whether this program holds the lease on its channels: the engine has confirmed it within its 2 s."""
        return self._control is not None and self._control.live

    def take_control(self) -> None:
        """Lease the channels; without effect if they are leased already.

        Raises:
            ControlRequestError: Another agent has a channel, or this one may not stimulate it.
        """
        if self._control is not None and not self._control.live:
            self.release_control()
        if self._control is None:
            self._control = Control(
                self.nerves,
                self._wanted,
                self._purpose,
                self._note_delivered,
                self._again,
                self._queues.note_in_time,
                self.refused,
            )

    def release_control(self) -> None:
        """Cancel waiting pulses and give the channels back; without effect if they are not leased."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
            self._queues.free.clear()

    def has_started(self) -> bool:
        """Return whether the engine runs and sends frames."""
        try:
            return self.timestamp() > 0
        except NervesError:
            return False

    is_readable = is_recordable = has_started

    def wait_until_readable(self, timeout_seconds: float = READY_WITHIN_S) -> None:
        """Wait until frames come.

        Args:
            timeout_seconds: Longest wait (s).

        Raises:
            TimeoutError: None came.
        """
        until, pause = local_s() + timeout_seconds, threading.Event()
        while not self.has_started():
            if local_s() > until:
                raise TimeoutError(
                    f"no frame came within {timeout_seconds:g} s. Next: look at the alarms of the rig for its card"
                )
            pause.wait(0.01)

    wait_until_recordable = wait_until_readable
    """This client records what it reads: whatever can be read can be recorded."""

    def start(self) -> None:
        """Require that the engine runs: a program cannot start it.

        Raises:
            UnsafeOperationError: It does not run.
        """
        if not self.has_started():
            raise UnsafeOperationError("the engine does not run. Next: start it with `choroid run`")

    def stop(self) -> None:
        """Refuse: an engine that ran no more would end what others do with the tissue.

        Raises:
            UnsafeOperationError: Always.
        """
        raise UnsafeOperationError(
            "a program cannot stop the engine, which others use as well. Next: close() ends this program's part of it"
        )

    def restart(self, timeout_seconds: float = READY_WITHIN_S, wait_until_recordable: bool = True) -> None:
        """Refuse, as :meth:`stop`.

        Args:
            timeout_seconds: Not used.
            wait_until_recordable: Not used.

        Raises:
            UnsafeOperationError: Always.
        """
        self.stop()

    def get_channel_count(self) -> int:
        """Return the number of channels."""
        return self._channels

    def get_frames_per_second(self) -> int:
        """Return the frames in a second."""
        return round(self._rate)

    def get_frame_duration_us(self) -> float:
        """Return the time from one frame to the next (µs)."""
        return 1e6 / self._rate

    def timestamp(self) -> int:
        """Return the array's clock: the next frame. It begins at 0 with each start of the engine."""
        return self.feed.now()

    def read(self, frame_count: int, from_ts: int | None = None, *, analysis: bool = False) -> Any:
        """Read frames, or what was detected in them.

        Args:
            frame_count: How many.
            from_ts: The first one; up to 5 s ago. None means from now on.
            analysis: Whether to return spikes and pulses instead of samples.

        Returns:
            The samples, int16, shape (frames, channels); with `analysis` their :class:`DetectionResult`.

        Raises:
            NervesError: Frames are lost, or are not kept any more.
        """
        first = self.timestamp() if from_ts is None else from_ts
        if not analysis:
            return self.read_frames(frame_count, first)
        self.feed.settle(first + frame_count)
        return self.detection(first, first + frame_count, *self.feed.between(first, first + frame_count))

    async def read_async(self, frame_count: int, from_ts: int | None = None, *, analysis: bool = False) -> Any:
        """Read as :meth:`read`, while the other tasks of the event loop go on.

        Args:
            frame_count: How many frames.
            from_ts: The first one; up to 5 s ago. None means from now on.
            analysis: Whether to return spikes and pulses instead of samples.

        Returns:
            As :meth:`read`.

        Raises:
            NervesError: Frames are lost, or are not kept any more.
        """
        return await asyncio.to_thread(self.read, frame_count, from_ts, analysis=analysis)

    def loop(
        self,
        ticks_per_second: float,
        stop_after_seconds: float | None = None,
        stop_after_ticks: int | None = None,
        ignore_jitter: bool = False,
        jitter_tolerance_frames: int = 0,
    ) -> NeuronsLoop:
        """Return a closed loop; iterate over it, or call its `run`.

        Args:
            ticks_per_second: At most the frames in a second. Spikes come in blocks of 1 ms, however short a turn is.
            stop_after_seconds: Length of the loop, by the array's clock.
            stop_after_ticks: The same in turns.
            ignore_jitter: Whether to go on when the body was late.
            jitter_tolerance_frames: How late a turn may begin, over the 20 ms of a remote program.

        Returns:
            The loop. It begins with its first turn, not here.

        Raises:
            ValueError: The rate is out of range, or the length is given twice or is not above 0.
        """
        return NeuronsLoop(
            self, ticks_per_second, stop_after_seconds, stop_after_ticks, ignore_jitter, jitter_tolerance_frames
        )

    def stim(
        self,
        channels: Channels,
        stim_design: StimDesign | float,
        burst_design: BurstDesign | None = None,
        lead_time_us: float = 80,
    ) -> None:
        """Stimulate as soon as the channels are free; several channels begin together.

        The decision of the governor comes later: a refusal is a warning :class:`StimulationRefused`, and stands in `refused`.

        Args:
            channels: Where.
            stim_design: The pulse, or the amplitude (µA) of a pulse of 160 µs a phase.
            burst_design: Several pulses in a row.
            lead_time_us: Shortest time until the beginning; at least 80.

        Raises:
            ControlRequiredError: The program has no control.
            TransactionRejected: A queue is full, or the lead time is out of range.
        """
        require_lead(lead_time_us)
        self.queue(StimOperation(channel_set(channels), design_of(stim_design), burst_design, lead_time_us))

    def interrupt(self, channels: Channels) -> None:
        """Cancel what waits on channels.

        Args:
            channels: The channels. Pulses that were requested together with another channel are cancelled with it.

        Raises:
            ControlRequiredError: The program has no control.
        """
        self.interrupt_from(channels, 0)

    def interrupt_from(self, channels: Channels, frame: int) -> None:
        """Cancel what waits on channels from a frame on.

        Args:
            channels: The channels, as for :meth:`interrupt`.
            frame: The frame; 0 means at once. Pulses of a request that begins earlier are cancelled up to 50 ms after it.

        Raises:
            ControlRequiredError: The program has no control.
        """
        found = channel_set(channels)
        self._require_control().interrupt(set(found), frame)
        self._queues.interrupt(found, frame)

    def interrupt_then_stim(
        self,
        channels: Channels,
        stim_design: StimDesign | float,
        burst_design: BurstDesign | None = None,
        lead_time_us: float = 80,
    ) -> None:
        """Cancel what waits on channels, then stimulate them.

        Args:
            channels: Where.
            stim_design: The pulse, or the amplitude (µA) of a pulse of 160 µs a phase.
            burst_design: Several pulses in a row; None means one.
            lead_time_us: Shortest time until the beginning (µs); at least 80.

        Raises:
            ControlRequiredError: The program has no control.
            TransactionRejected: A queue is full, or the lead time is out of range.
        """
        self.interrupt(channels)
        self.stim(channels, stim_design, burst_design, lead_time_us)

    def sync(self, channels: Channels) -> None:
        """Let the next stimulations of channels wait until all of them are free.

        Args:
            channels: The channels that wait for each other.

        Raises:
            ControlRequiredError: The program has no control.
        """
        self.queue(StimOperation(channel_set(channels)))

    def create_stim_plan(self) -> StimPlan:
        """Return an empty plan."""
        return StimPlan(self)

    def record(
        self,
        file_suffix: str | None = None,
        file_location: Path | str | None = None,
        from_seconds_ago: float | None = None,
        from_frames_ago: int | None = None,
        from_timestamp: int | None = None,
        stop_after_seconds: float | None = None,
        stop_after_frames: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        include_spikes: bool = True,
        include_stims: bool = True,
        include_raw_samples: bool = True,
        include_data_streams: bool | Iterable[str] = True,
        exclude_data_streams: Iterable[str] = (),
    ) -> NeuronsRecording:
        """Record into an HDF5 file of this machine, from now or up to 5 s ago on; the end of the connection ends it too.

        Args:
            file_suffix: End of the file's name; None means `recording`.
            file_location: Folder; None means the working directory.
            from_seconds_ago: Where to begin.
            from_frames_ago: The same in frames.
            from_timestamp: The same as a frame.
            stop_after_seconds: Length; None means until it is stopped.
            stop_after_frames: The same in frames.
            attributes: Facts to keep with it; they must have a form in JSON.
            include_spikes: Whether to write spikes.
            include_stims: Whether to write delivered pulses.
            include_raw_samples: Whether to write frames.
            include_data_streams: Whether to write data streams, or the names of those to write.
            exclude_data_streams: Names of data streams to leave out.

        Returns:
            The recording, which runs.

        Raises:
            ValueError: The suffix is no plain name, or the attributes are too large together.
            TypeError: An attribute has no form in JSON.
            MissingPackage: h5py is not installed.
        """
        ago = round((from_seconds_ago or 0.0) * self._rate) + (from_frames_ago or 0)
        first = max(0, self.timestamp() - ago) if from_timestamp is None else from_timestamp
        if stop_after_seconds is not None:
            stop_after_frames = round(stop_after_seconds * self._rate)
        left_out = set(exclude_data_streams)
        chosen = include_data_streams if isinstance(include_data_streams, bool) else set(include_data_streams)
        include = {
            "spikes": include_spikes,
            "stims": include_stims,
            "raw_samples": include_raw_samples,
            "data_streams": bool(chosen),
        }
        file = recording_file(file_location, file_suffix)

        def streams() -> list[DataStream]:
            named = self._streams.keys() if isinstance(chosen, bool) else chosen
            return [stream for name, stream in self._streams.items() if name in named and name not in left_out]

        recording = NeuronsRecording(self, file, first, stop_after_frames, attributes, include, streams)
        self._recordings.append(recording)
        return recording

    def create_data_stream(self, name: str, attributes: Mapping[str, Any] | None = None) -> DataStream:
        """Return a new stream for data of the program, which recordings include.

        Args:
            name: Its name in the recordings.
            attributes: Facts to keep with it; they must have a form in JSON.

        Returns:
            The empty stream.

        Raises:
            ValueError: There is one of this name, the name cannot be that of a group in HDF5, or the attributes are too large
                together.
            TypeError: An attribute has no form in JSON.
        """
        if name in self._streams:
            raise ValueError(f"there is a data stream {name!r} already")
        if name in ("", ".", "..") or {"/", "\0"} & set(name):
            raise ValueError(f"{name!r} cannot name a data stream; next: take letters, digits, `_` and `-`")
        stream = self._streams[name] = DataStream(name, attributes)
        return stream

    def margin_frames(self) -> int:
        """Return how far ahead of the clock a plan begins, so that its requests arrive in time (frames)."""
        return self._queues.margin_frames

    def queue(self, step: StimOperation, begin: int = 0) -> None:
        """Queue one step, and send it.

        Args:
            step: A stimulation or a synchronisation.
            begin: The frame from which a plan counts; 0 means as soon as possible.

        Raises:
            ControlRequiredError: The program has no control.
            ChannelQueueFull: A channel has too much to do.
            ValueError: The array has no such channel.
        """
        control = self._require_control()
        unknown = [channel for channel in step.channels if channel >= self._channels]
        if unknown:
            raise ValueError(f"there is no channel {unknown[0]}; this array has 0 to {self._channels - 1}")
        placed = self._queues.place(step, self.timestamp(), begin)
        if placed is not None:
            control.stimulate(placed)

    def wait_for_stims(self, timeout_seconds: float = 75.0) -> list[Stim]:
        """Wait until every stimulation is delivered or refused.

        Args:
            timeout_seconds: Longest wait (s); after it this returns as well.

        Returns:
            The pulses that were delivered since the last such call, by their frames.
        """
        if self._control is not None:
            self._control.wait(timeout_seconds)
        delivered, self._delivered = self._delivered, []
        return [Stim(frame, channel) for frame, channel in sorted(delivered)]

    def detection(self, first: int, end: int, spikes: list[Sample], stims: list[Sample]) -> DetectionResult:
        """Return spikes and pulses as the result of a range of frames.

        Args:
            first: The first frame.
            end: The frame after the last.
            spikes: Frame and channel of each spike.
            stims: Frame and channel of each delivered pulse.

        Returns:
            The result; the samples of a spike are fetched when they are read.
        """
        found = [Spike(frame, channel, self._waveform) for frame, channel in spikes]
        return DetectionResult(first, end, found, [Stim(frame, channel) for frame, channel in stims])

    def read_frames(self, count: int, first: int) -> NDArray[np.int16]:
        """Read raw frames; wait for those that have not come yet.

        Args:
            count: How many.
            first: The first one; the engine keeps the last 5 s.

        Returns:
            The samples, shape (frames, channels); `uv_per_unit` turns them into µV.

        Raises:
            NervesError: Frames are lost, or are not kept any more.
        """
        head = self.nerves.status().next_frame
        stream = self.nerves.frames(from_frame=max(1, min(first, head)), frames=min(max(count, 25), MAX_READ_FRAMES))
        samples = np.zeros((count, self._channels), np.int16)
        done = 0
        try:
            for batch in stream:
                if isinstance(batch, FrameGap):
                    if batch.end_frame > first:
                        raise NervesError(f"frames {batch.first_frame} to {batch.end_frame} are lost ({batch.cause})")
                    continue
                part = batch.samples[max(0, first + done - batch.first_frame) :][: count - done]
                samples[done : done + len(part)] = part
                done += len(part)
                if done >= count:
                    break
        finally:
            stream.close()
        return samples

    def _waveform(self, timestamp: int, channel: int) -> NDArray[np.float32]:
        raw = self.read_frames(BEFORE + AFTER, max(1, timestamp - BEFORE))[:, channel]
        return raw.astype(np.float32) * np.float32(self.uv_per_unit)

    def _note_delivered(self, stims: list[Sample]) -> None:
        self._delivered = [*self._delivered, *stims][-KEPT:]
        self.feed.delivered(stims)

    def _again(self, late: Placed) -> Placed | None:
        return self._queues.again(late, self.timestamp())

    def _require_control(self) -> Control:
        if self._control is None:
            raise ControlRequiredError(
                "the program has no control; `refused` has the reason if it was lost. Next: take_control()"
            )
        return self._control

    def _keep_control(self) -> None:
        control = getattr(self, "_control", None)
        if control is not None:
            control.keep(self.feed.clock.at(local_s()))
            if control.closed and self._control is control:
                self._control = None
                self._queues.free.clear()
