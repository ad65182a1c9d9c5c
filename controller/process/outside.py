"""Parts that are given to a controller: sinks, electrode engine, cameras, delivery, and what else raises alarms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from controller.core.state import State
from controller.delivery.people import People
from controller.imaging.engine import CaptureEngine
from controller.imaging.imaging import Imaging
from controller.process.core import ControllerCore
from controller.process.part import Causes, Part, TickStage
from controller.process.registry import Maker
from controller.process.sink import Sink
from controller.process.tasks import Timer
from controller.readings.nerves import NervesReader
from nerves.summary import NervesSource, NervesSummary

NERVES_EVERY_S = 10.0


class CauseSource(Protocol):
    """Something outside the controller that raises alarms."""

    @property
    def causes(self) -> Causes:
        """The present causes of alarms."""


class NervesWatch:
    """Asks the electrode engine for a summary now and then, and never waits for it."""

    def __init__(self, core: ControllerCore, source: NervesSource) -> None:
        self.source = source
        self.summary: NervesSummary | None = None
        self._tasks = core.tasks
        self._timer = Timer(NERVES_EVERY_S)
        self._reader = NervesReader(core.store, core.clock)

    def update(self, state: State) -> None:
        """Start the next reading if it is due."""
        if not self._tasks.running("nerves") and self._timer.due(state.at_s):
            self._tasks.start("nerves", self._read())

    async def _read(self) -> None:
        self.summary = await self._reader.read(self.source)


def with_nerves(source: NervesSource | None) -> Maker:
    """Return the maker of the watch over an electrode engine, if there is one."""

    def make(core: ControllerCore) -> Part | None:
        return None if source is None else Part("nerves", update=core.provide(NervesWatch(core, source)).update)

    return Maker(TickStage.RECORD, make)


def with_sink(sink: Sink) -> Maker:
    """Return the maker of a destination of readings."""
    part = Part(
        f"sink {sink.name}",
        update=sink.offer,
        causes=lambda: {(kind, sink.name): detail for kind, detail in sink.causes.items()},
        discarded=lambda: sink.discarded,
    )
    return Maker(TickStage.REPORT, lambda core: part)


def with_cameras(engine: CaptureEngine | None) -> Maker:
    """Return the maker of the rig's cameras; without an engine nothing takes images."""

    def make(core: ControllerCore) -> Part | None:
        if engine is None or not core.rig.cameras:
            return None
        imaging = core.provide(
            Imaging(
                core.rig,
                engine=engine,
                store=core.store,
                journal=core.journal,
                clock=core.clock,
                data=core.storage.folder,
                tissue=core.tissue.record,
                start=core.tasks.start,
            )
        )
        return Part(
            "images",
            update=lambda state: imaging.update(state.at_s),
            causes=lambda: imaging.causes,
            close=imaging.close,
        )

    return Maker(TickStage.JUDGE, make)


def with_people(people: People) -> Maker:
    """Return the maker of the delivery of alarms to people."""

    def make(core: ControllerCore) -> Part:
        core.provide(people)
        return Part("people", update=lambda _: people.update(core.alarms), causes=people.causes)

    return Maker(TickStage.REPORT, make)


def with_causes(name: str, source: CauseSource) -> Maker:
    """Return the maker of a part that raises alarms."""
    return Maker(TickStage.REPORT, lambda core: Part(name, causes=lambda: source.causes))


def with_notices(notices: Mapping[tuple[str, str], str]) -> Maker:
    """Return the maker of alarms that stand as long as this process lives, detail by (kind, source)."""
    return Maker(TickStage.BOOK, lambda core: Part("notices of the start", causes=lambda: notices))
