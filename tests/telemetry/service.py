"""A real server on a free port that can be stopped, killed, frozen and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest


class Service:
    """One server's process, its port, and its log in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self._log = (folder / f"{name}.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    async def begin(
        self, words: Sequence[str], ready: Callable[[], bool], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it and wait until it is `ready`."""
        env = os.environ | (environment or {})
        self._process = subprocess.Popen(words, stdout=self._log, stderr=self._log, env=env)
        await until(ready)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; with SIGTERM it saves what it has, with SIGKILL nothing of the last moment."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It stays connected and answers nothing more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """For good."""
        self.stop(signal.SIGKILL)
        self._log.close()


async def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Wait until `condition` holds; fail the test when it does not."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it did not happen in time")
