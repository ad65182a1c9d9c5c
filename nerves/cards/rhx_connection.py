"""The connection to Intan's RHX software: its command socket and its waveform socket, as a client."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.cards.arrival_clock import steady_s

MAGIC = 0x2EF07A08
BLOCK = 128
"""Frames in a block; RHX has no other size."""


@dataclass(frozen=True, slots=True)
class RhxAddress:
    """Says where RHX listens, which channels it has, and which folder both programs see, for impedances."""

    host: str = "127.0.0.1"
    command_port: int = 5000
    waveform_port: int = 5001
    channels: tuple[str, ...] = ()
    """Native names, such as `A-000`, in the order of RHX."""
    folder: str = ""
    """A folder on the machine of RHX that this process can read too; without it impedances stay unknown."""


class RhxProblem(ConnectionError):
    """RHX cannot be reached, or does not do what was ordered."""


class RhxConnection:
    """Keeps the two sockets of RHX connected and running."""

    def __init__(self, address: RhxAddress) -> None:
        self._address = address
        self._command = _connect(address.host, address.command_port, "command")
        self._speaking = threading.Lock()
        try:
            self.kind = self.get("type").rpartition(" ")[2]
            self.sample_rate_hz = float(self.get("sampleratehertz").rpartition(" ")[2])
            self.stimulates = self.kind == "ControllerStimRecord"
            self.step_ua = float(self.get("stimstepsizemicroamps").rpartition(" ")[2]) if self.stimulates else 1.0
            if not self.get("runmode").endswith("Stop"):
                self.tell("set runmode stop")
            self._choose_outputs()
            self._waveform = self._open_waveform()
        except BaseException:
            self._command.close()
            raise
        words = len(address.channels) * (2 if self.stimulates else 1)
        self._frame = np.dtype([("timestamp", "<u4"), ("words", "<u2", (words,))])
        self._bytes = b""

    def _choose_outputs(self) -> None:
        parts = ["execute clearalldataoutputs", "set tcpnumberdatablocksperwrite 1"]
        for name in self._address.channels:
            parts.append(f"set {name}.tcpdataoutputenabled true")
            if self.stimulates:  # a key would trigger what an earlier program has left on it
                parts += [f"set {name}.tcpdataoutputenabledstim true", f"set {name}.stimenabled false"]
        if self.stimulates:
            parts.append("execute uploadstimparameters")
        for first in range(0, len(parts), 32):
            self.tell(*parts[first : first + 32])
        if self.get("tcpnumberdatablocksperwrite").split()[-1] != "1":
            raise RhxProblem("RHX does not write single blocks; stop it, and set TCPNumberDataBlocksPerWrite to 1")

    def _open_waveform(self) -> socket.socket:
        try:
            return _connect(self._address.host, self._address.waveform_port, "waveform")
        except RhxProblem:
            self.tell("execute connecttcpwaveformdataoutput")
            return _connect(self._address.host, self._address.waveform_port, "waveform")

    def get(self, name: str) -> str:
        """Ask RHX for a parameter.

        Args:
            name: Name of the parameter, such as `runmode`.

        Returns:
            The whole answer: `Return: NAME VALUE`.

        Raises:
            RhxProblem: RHX does not answer, or not with the parameter.
        """
        with self._speaking:
            self._send(f"get {name}")
            answer = self._answer()
        if not answer.startswith("Return:"):
            raise RhxProblem(f"RHX answers “{answer}” to “get {name}”")
        return answer

    def tell(self, *commands: str) -> None:
        """Send commands, and make sure by a last `get` that RHX has obeyed each.

        Args:
            commands: Commands of RHX, without semicolons.

        Raises:
            RhxProblem: RHX answers with an error, or not at all.
        """
        with self._speaking:
            self._send(";".join([*commands, "get type"]))
            answer = self._answer()
            while "Return: Type" not in answer:
                answer += self._answer()
        error = answer.partition("Return: Type")[0]
        if error:
            raise RhxProblem(f"RHX answers “{error}” to “{commands[0]}”")

    def trigger(self, key: int) -> None:
        """Trigger stimulation by a key; no answer is awaited.

        Args:
            key: Number of the function key, 1 to 8.
        """
        with self._speaking:
            self._send(f"execute manualstimtriggerpulse f{key};")

    def _send(self, text: str) -> None:
        self._command.sendall(text.encode("ascii"))

    def _answer(self) -> str:
        data = self._command.recv(65_536)
        if not data:
            raise RhxProblem("RHX closed the command socket; press Connect in its Remote TCP Control window")
        return data.decode("latin-1")

    def run(self) -> None:
        """Start acquisition."""
        with self._speaking:
            self._send("set runmode run;")

    def stop(self) -> None:
        """Stop acquisition."""
        with self._speaking:
            self._send("set runmode stop;")

    def block(self, within_s: float) -> NDArray[Any] | None:
        """Return the next block of frames.

        Args:
            within_s: Longest wait (s).

        Returns:
            `timestamp` and `words` by frame; None when none came in time.

        Raises:
            RhxProblem: The stream has ended, or is not what was ordered.
        """
        size = 4 + BLOCK * self._frame.itemsize
        deadline = steady_s() + within_s
        while len(self._bytes) < size:
            left = deadline - steady_s()
            if left <= 0:
                return None
            self._waveform.settimeout(left)
            try:
                more = self._waveform.recv(max(65_536, size))
            except TimeoutError:
                return None
            if not more:
                raise RhxProblem("RHX closed the waveform socket; press Connect in its Remote TCP Control window")
            self._bytes += more
        found, self._bytes = self._bytes[:size], self._bytes[size:]
        if int.from_bytes(found[:4], "little") != MAGIC:
            raise RhxProblem(
                "a waveform block does not begin with the magic number: its channels are not those ordered"
            )
        return np.frombuffer(found, self._frame, BLOCK, 4)

    def close(self) -> None:
        """Stop and disconnect."""
        with contextlib.suppress(OSError):
            self.stop()
        self._command.close()
        self._waveform.close()


def _connect(host: str, port: int, what: str) -> socket.socket:
    try:
        made = socket.create_connection((host, port), timeout=5.0)
    except OSError as error:
        raise RhxProblem(
            f"no RHX at the {what} socket {host}:{port} ({error}); likely cause: it is not listening; next: press Connect in"
            " its Remote TCP Control window, and compare the port"
        ) from error
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
