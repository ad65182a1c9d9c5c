"""Begin, end and list the recordings of a rig while its controller runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from nerves.recording.catalogue import RecordingEntry, entries
from nerves.recording.layout import RecordingPlan
from nerves.recording.quota import RecordingRefused


class RecordingEngine(Protocol):
    """The running engine, as far as recordings go."""

    async def record(self, verb: str, **body: str) -> dict[str, Any]:
        """Begin, end, or return the status; raise :class:`RecordingRefused`."""
        ...


class RecordingAccess:
    """The recordings of one rig."""

    def __init__(self, plan: RecordingPlan | None, engine: Callable[[], RecordingEngine | None]) -> None:
        """`engine` returns the engine that runs, if any; without a `plan` nothing can be recorded."""
        self.plan = plan
        self._engine = engine

    def every(self) -> list[RecordingEntry]:
        """Return the recordings, the oldest first; reads the disk."""
        return [] if self.plan is None else entries(Path(self.plan.folder))

    async def start(self, name: str, requester: str, reason: str) -> dict[str, Any]:
        """Begin a recording; return the status. Raises :class:`RecordingRefused`."""
        return await self._running().record("start", name=name, requester=requester, reason=reason)

    async def stop(self, reason: str) -> dict[str, Any]:
        """End the recording; return the status. Raises :class:`RecordingRefused`."""
        return await self._running().record("stop", reason=reason)

    async def status(self) -> dict[str, Any] | None:
        """Return the state of the writer; None while there is no engine that answers."""
        try:
            return await self._running().record("status")
        except RecordingRefused:
            return None

    def _running(self) -> RecordingEngine:
        if self.plan is None:
            raise RecordingRefused(
                "nothing can be recorded: the data folder cannot be used, and files go to a spare folder. Likely cause: the"
                " disk is full or failed. Next: repair it and restart the controller"
            )
        if (engine := self._engine()) is None:
            raise RecordingRefused(
                "the electrode engine does not run. Likely cause: it is starting, or it has ended; the alarms tell. Next: try"
                " again in some seconds"
            )
        return engine
