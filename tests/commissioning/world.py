"""A rig as its file says, and the lab as it was really wired: commissioning sees the one through the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.commissioning.bench import CommissioningRig
from controller.commissioning.procedure import commission
from controller.commissioning.terms import Report
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.rig.document import read_document
from controller.rig.loading import load_rig
from controller.rig.selectors import paths
from sim.lab import SimulatedLab

RIGS = Path(__file__).parents[2] / "examples" / "rigs"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Miswire = Callable[[dict[str, Any]], None]


@dataclass
class Person:
    """Looks at the tubes and valves of the true rig, and answers what is asked about the file's."""

    told: Rig
    true: Rig
    asked: list[str] = field(default_factory=list)

    async def __call__(self, question: str) -> bool:
        self.asked.append(question)
        await asyncio.sleep(5.0)
        if question.startswith("Has liquid gone from "):
            return self._leads_as_told(question)
        for name, line in self.told.lines.items():
            if f"liquid gone along line “{name}”" in question:
                return self.true.lines[name].pump == line.pump
            if f"valve of line “{name}”" in question:
                return self.true.lines[name].valve == line.valve
        return True

    def _leads_as_told(self, question: str) -> bool:
        """Return whether the path that the question names has the same ports in the true rig."""
        ends = [f"from “{path.source}” to “{path.target}”," for path in paths(self.told)]
        asked = [path for path, end in zip(paths(self.told), ends, strict=True) if end in question]
        return asked[0] in paths(self.true)


def rewired(folder: Path, miswire: Miswire, rig: str = "bench") -> Rig:
    """The rig as it really is: the file's, but for what was wired wrongly."""
    data = json.loads(json.dumps(read_document(RIGS / f"{rig}.yaml").data))
    miswire(data)
    path = folder / "true.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    return load_rig(path)


async def commissioned(
    folder: Path, told: Rig, true: Rig, *, before: Callable[[SimulatedLab], None] | None = None
) -> tuple[Report, Person, SimulatedLab]:
    """Commission the rig `told` in a lab that is wired as `true`."""
    lab = SimulatedLab(true, seed=3)
    if before is not None:
        before(lab)
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(folder / "journal.db", clock, durable=False)
    bench = await CommissioningRig.open(told, lab.opener, journal, clock, lambda *_: None)
    person = Person(told, true)
    try:
        report = await commission(bench, by="R. Franklin", utc=clock.utc_text(), ask=person, tell=lambda _: None)
    finally:
        await bench.close()
        journal.close()
        await lab.close()
    return report, person, lab
