"""A real VictoriaMetrics on a free port, and what a lab would ask it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx

from tests.telemetry.service import Service

VICTORIA = shutil.which("victoria-metrics") or "victoria-metrics"


class Victoria(Service):
    """A database on the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "victoria")
        self.url = f"http://{self.address}"
        self._folder = folder / "victoria"

    async def start(self) -> None:
        """Start it and wait until it answers."""
        words = [VICTORIA, f"-httpListenAddr={self.address}", f"-storageDataPath={self._folder}"]
        # The readings are of a day of 2026; it forgets what is older than it keeps.
        words += ["-retentionPeriod=100y", "-memory.allowedBytes=64MB"]
        await self.begin(words, self._answers, {"GOMAXPROCS": "2"})

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
