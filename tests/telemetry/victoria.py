"""A real VictoriaMetrics on a free port, and what a lab would ask it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.telemetry.mosquitto import until

VICTORIA = shutil.which("victoria-metrics") or "victoria-metrics"


class Victoria:
    """A database on the disk that can be stopped, killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder / "victoria"
        self._log = (folder / "victoria.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        words = [VICTORIA, f"-httpListenAddr=127.0.0.1:{self.port}", f"-storageDataPath={self._folder}"]
        # The readings are of a day of 2026; it forgets what is older than it keeps.
        words += ["-retentionPeriod=100y", "-memory.allowedBytes=64MB"]
        environment = os.environ | {"GOMAXPROCS": "2"}
        self._process = subprocess.Popen(words, stdout=self._log, stderr=self._log, env=environment)
        await until(self._answers)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; with SIGTERM it saves what it has, with SIGKILL what it had a moment ago."""
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
        self.stop(signal.SIGKILL)
        self._log.close()

    def samples(self, name: str = "readings_value", **tags: str) -> list[tuple[int, float]]:
        """Every sample of the series with these tags: time (ms) and value, in the order of time."""
        httpx.get(f"{self.url}/internal/force_flush").raise_for_status()  # what has just come is not yet searched in
        wanted = ",".join([f'__name__="{name}"', *(f'{tag}="{text}"' for tag, text in tags.items())])
        answer = httpx.get(f"{self.url}/api/v1/export", params={"match[]": "{" + wanted + "}", "start": "1700000000"})
        answer.raise_for_status()
        rows: list[dict[str, Any]] = [json.loads(line) for line in answer.text.splitlines()]
        return sorted(pair for row in rows for pair in zip(row["timestamps"], row["values"], strict=True))

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=1.0).status_code == 200
        except httpx.HTTPError:
            return False
