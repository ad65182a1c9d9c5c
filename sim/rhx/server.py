"""The RHX server: a command socket and a waveform socket in front of an amplifier, in real time.

As in RHX, each socket takes one client. When it leaves, nothing listens until an operator presses Connect again
(:meth:`RhxServer.press_connect`); the waveform socket can also be opened by command.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.rhx.commands import RhxCommands, RhxSettings

MAGIC = 0x2EF07A08
FRAMES_PER_BLOCK = 128
PORT_CHANNELS = 32
STEP_UA = 0.01
LONGEST_WAIT_S = 0.05


class Amplifier(Protocol):
    """What the server needs of an array; :class:`sim.neurons.array.SimulatedArray` has it."""

    electrodes: int

    @property
    def next_frame(self) -> int:
        """The next frame."""
        ...

    def generate(self, frames: int) -> NDArray[np.int16]:
        """Return the next frames, shape (frames, electrodes)."""
        ...

    def stimulate(self, electrode: int, at_frame: int, phases: Sequence[tuple[float, float]]) -> None:
        """Deliver a pulse."""
        ...

    def impedances_kohm(self) -> tuple[float, ...]:
        """Return the impedances."""
        ...


def channel_names(electrodes: int) -> list[str]:
    """Return the native names: A-000 to A-031, B-000 and so on."""
    return [f"{'ABCDEFGH'[number // PORT_CHANNELS]}-{number % PORT_CHANNELS:03d}" for number in range(electrodes)]


class RhxServer:
    """Serves until :meth:`close`. Ports 0 are any free ones; see `command_port` and `waveform_port`.

    With `relisten` a socket listens again by itself when its client has left, as RHX does not.
    """

    def __init__(
        self,
        amplifier: Amplifier,
        sample_rate_hz: float,
        *,
        relisten: bool = False,
        host: str = "127.0.0.1",
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        self.channels = channel_names(amplifier.electrodes)
        self.settings = RhxSettings(sample_rate_hz, self.channels, STEP_UA)
        self._amplifier = amplifier
        self._relisten = relisten
        self._running = False
        self._closed = False
        self._dead: frozenset[int] = frozenset()
        self._stalled = False
        self._lock = threading.Lock()
        self._uploaded: dict[str, dict[str, str]] = {}
        self._stim_words: dict[int, dict[int, int]] = {}
        self._start_s = 0.0
        self._first_frame = 0
        self._data: socket.socket | None = None
        actions: dict[str, Callable[[str], str]] = {
            "clearalldataoutputs": lambda _: self._done(self.settings.clear_outputs),
            "connecttcpwaveformdataoutput": lambda _: self._done(self._waveform.listen),
            "uploadstimparameters": self._upload,
            "manualstimtriggerpulse": self._trigger,
            "measureimpedance": lambda _: (
                "MeasureImpedance cannot be executed while the board is running" * self._running
            ),
            "saveimpedance": lambda _: self._done(self._save_impedances),
            "rescanports": lambda _: "RescanPorts cannot be executed while the board is running" * self._running,
        }
        self._commands = RhxCommands(self.settings, actions, lambda: self._running, self._set_run, self._timestamp)
        self._command = _OneClientPort(self._serve_commands, relisten, host, ports[0])
        self._waveform = _OneClientPort(self._serve_waveform, relisten, host, ports[1])
        self.command_port, self.waveform_port = self._command.port, self._waveform.port
        self._board = threading.Thread(target=self._run_board, name="board", daemon=True)
        self._board.start()

    def press_connect(self) -> None:
        """Listen again on both sockets, as an operator does in the window of RHX."""
        self._command.listen()
        self._waveform.listen()

    def unplug(self, electrodes: Sequence[int]) -> None:
        """Unplug a headstage, or let a chip die: its words stand at zero, and nothing says so. None plugs all in again."""
        self._dead = frozenset(electrodes)

    def stall(self, on: bool) -> None:
        """Stop sending waveforms while the board runs on, or go on."""
        self._stalled = on

    def close(self) -> None:
        """End all threads."""
        self._closed = True
        self._command.close()
        self._waveform.close()
        self._board.join()

    @staticmethod
    def _done(action: Callable[[], object]) -> str:
        action()
        return ""

    def _serve_commands(self, client: socket.socket) -> None:
        while data := client.recv(65_536):
            with self._lock:
                answer = self._commands.obey(data.decode("latin-1"))
            if answer:
                client.sendall(answer.encode("latin-1"))

    def _serve_waveform(self, client: socket.socket) -> None:
        self._data = client
        try:
            while client.recv(4096):
                pass  # clients send nothing here
        finally:
            self._data = None

    def _now(self) -> int:
        """Return the frame that the board samples now."""
        since_s = time.monotonic() - self._start_s  # noqa: TID251  (the board's own crystal)
        return self._first_frame + int(since_s * self.settings.sample_rate_hz)

    def _timestamp(self) -> int:
        return self._now() - self._first_frame if self._running else -1

    def _set_run(self, run: bool) -> None:
        self._first_frame = self._amplifier.next_frame
        self._start_s = time.monotonic()  # noqa: TID251
        self._running = run

    def _upload(self, channel: str) -> str:
        if self._running and not channel:
            return "UploadStimParameters cannot be executed while the board is running"
        for name in [channel.upper()] if channel else self.channels:
            found = {item: value for (of, item), value in self.settings.of_channel.items() if of == name}
            if not found:
                return "Unrecognized parameter"
            self._uploaded[name] = found
        return ""

    def _trigger(self, key: str) -> str:
        """Deliver a pulse on every enabled channel of this key, in one sample."""
        if not self._running:
            return "Board must be running in order to trigger stimulation"
        frame = max(self._now() + 1, self._amplifier.next_frame)
        for electrode, name in enumerate(self.channels):
            chosen = self._uploaded.get(name, {})
            if chosen.get("stimenabled", "").lower() == "true" and chosen["source"].lower() == f"keypress{key.lower()}":
                self._pulse(electrode, chosen, frame)
        return ""

    def _pulse(self, electrode: int, chosen: dict[str, str], frame: int) -> None:
        sign = -1.0 if chosen["polarity"].lower() == "negativefirst" else 1.0
        first = (
            float(chosen["firstphasedurationmicroseconds"]),
            sign * float(chosen["firstphaseamplitudemicroamps"]),
        )
        second = (
            float(chosen["secondphasedurationmicroseconds"]),
            -sign * float(chosen["secondphaseamplitudemicroamps"]),
        )
        pause = (float(chosen["interphasedelaymicroseconds"]), 0.0)
        delayed = chosen["shape"].lower() == "biphasicwithinterphasedelay"
        phases = [first, pause, second] if delayed else [first, second]
        if electrode not in self._dead:
            self._amplifier.stimulate(electrode, frame, phases)
        words = self._stim_words.setdefault(electrode, {})
        for us, ua in phases:
            for _ in range(round(us * 1e-6 * self.settings.sample_rate_hz)):
                words[frame] = (min(255, round(abs(ua) / STEP_UA)) | (0x100 if ua < 0 else 0)) if ua else 0
                frame += 1

    def _save_impedances(self) -> None:
        """Write the impedances as RHX does."""
        folder, base = (self.settings.globals[f"impedancefilename.{part}"] for part in ("path", "basefilename"))
        lines = [
            "Channel Number,Channel Name,Port,Enabled,Impedance Magnitude at 1000 Hz (ohms),"
            "Impedance Phase at 1000 Hz (degrees),Series RC equivalent R (Ohms),Series RC equivalent C (Farads)"
        ]
        for name, kohm in zip(self.channels, self._amplifier.impedances_kohm(), strict=True):
            lines.append(f"{name},{name},Port {name[0]},1,{kohm * 1000:.2e},-70,{kohm * 342:.2e},{1e-9:.2e}")
        (Path(folder) / f"{base}.csv").write_text("\n".join(lines) + "\n")

    def _run_board(self) -> None:
        """Sample in blocks of 128 frames, at the rate of the board."""
        pending: list[bytes] = []
        while not self._closed:
            end = self._amplifier.next_frame + FRAMES_PER_BLOCK
            wait_s = (end - self._now()) / self.settings.sample_rate_hz
            if not self._running or wait_s > 0:
                time.sleep(min(max(wait_s, 0.001), LONGEST_WAIT_S))  # noqa: TID251  (a thread of its own)
                continue
            with self._lock:
                if not self._running:
                    continue
                pending.append(self._block())
            if len(pending) >= int(self.settings.globals["tcpnumberdatablocksperwrite"]):
                self._send(b"".join(pending))
                pending = []

    def _block(self) -> bytes:
        first = self._amplifier.next_frame
        samples = self._amplifier.generate(FRAMES_PER_BLOCK)
        words: list[NDArray[np.uint16]] = []
        for electrode, name in enumerate(self.channels):
            if self.settings.is_on(name, "tcpdataoutputenabled"):
                column = (samples[:, electrode].astype(np.int32) + 32_768).astype(np.uint16)
                words.append(np.zeros_like(column) if electrode in self._dead else column)
            if self.settings.is_on(name, "tcpdataoutputenabledstim"):
                words.append(self._stim_column(electrode, first))
        frame = np.dtype([("timestamp", "<u4"), ("words", "<u2", (len(words),))])
        block = np.empty(FRAMES_PER_BLOCK, frame)
        block["timestamp"] = np.arange(first - self._first_frame, first - self._first_frame + FRAMES_PER_BLOCK)
        if words:
            block["words"] = np.stack(words, axis=1)
        return MAGIC.to_bytes(4, "little") + block.tobytes()

    def _stim_column(self, electrode: int, first: int) -> NDArray[np.uint16]:
        column = np.zeros(FRAMES_PER_BLOCK, np.uint16)
        words = self._stim_words.get(electrode, {})
        for frame in [frame for frame in words if frame < first + FRAMES_PER_BLOCK]:
            value = words.pop(frame)
            if frame >= first and electrode not in self._dead:
                column[frame - first] = value
        return column

    def _send(self, data: bytes) -> None:
        client = self._data
        if client is not None and not self._stalled:
            with contextlib.suppress(OSError):
                client.sendall(data)


class _OneClientPort:
    """A port that takes one client and then stops listening."""

    def __init__(self, serve: Callable[[socket.socket], None], relisten: bool, host: str, port: int) -> None:
        self._host = host
        self._serve = serve
        self._relisten = relisten
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None
        self._closed = False
        self.port = port
        self.listen()

    def listen(self) -> None:
        """Listen, unless it does or has a client."""
        if self._listener is not None or self._client is not None or self._closed:
            return
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self.port), family=family)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._wait, args=(listener,), daemon=True).start()

    def _wait(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        finally:
            listener.close()
            self._listener = None
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = client
        with client, contextlib.suppress(OSError):
            self._serve(client)
        self._client = None
        if self._relisten:
            self.listen()

    def close(self) -> None:
        """Close the port and its client."""
        self._closed = True
        for each in (self._listener, self._client):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
