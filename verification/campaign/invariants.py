"""Invariants of every trial, checked after every journal row and every few seconds.

The plant's truth decides; the controller's beliefs are only compared with it. Each invariant names the behaviours
that it represents. There are five judges: of doses (:mod:`~verification.campaign.doses`), of those of single chambers
(:mod:`~verification.campaign.chambers`), of the tissue's surroundings
(:mod:`~verification.campaign.surroundings`), of published readings (:mod:`~verification.campaign.readings`), and of alarms
(:mod:`~verification.campaign.telling`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from controller.rig.description import Rig
from controller.transfers.strays import STRAY
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from verification.campaign.chambers import ChamberDoses
from verification.campaign.doses import Doses
from verification.campaign.findings import Findings, Violation
from verification.campaign.host import CampaignHost
from verification.campaign.readings import OWN_NUMBERS, Readings
from verification.campaign.surroundings import Surroundings
from verification.campaign.telling import Telling
from verification.campaign.troubles import Troubles

LOOK_S = 5.0

EXPECTED_LOGS = (
    "the journal cannot be written",
    "could not be recorded",
    "history cannot be written",
    "not every output could be brought to its basal state",
    "cannot be used",
)
"""Log errors that are expected with a bad disk, or with unresponsive devices at an orderly end."""


class InvariantWatch:
    """Checks the invariants of one trial."""

    def __init__(self, rig: Rig, lab: SimulatedLab, faults: tuple[Fault, ...]) -> None:
        self.rows = 0
        self.looks = 0
        self._lab = lab
        self._findings = Findings()
        self.tell = self._findings.tell
        self._troubles = Troubles(rig, faults)
        self._telling = Telling(self._findings, LOOK_S, self._troubles)
        self._doses = Doses(rig, lab, self._findings, self._troubles, self._telling)
        self._chambers = ChamberDoses(rig, lab, self._findings, self._troubles)
        self._of_steps: dict[str, Callable[[Mapping[str, Any], str], None]] = {
            "step": self._doses.requested,
            "step.accepted": self._doses.accepted,
            "step.done": self._doses.done,
            "step.act": self._doses.announced,
        }
        self._surroundings = Surroundings(rig, lab, self._findings, self._troubles)
        self._readings = Readings(rig, lab)
        self._events = 0
        self._raised: set[str] = set()
        self._life: int | None = None
        """Number of the controller's process at work at the last check."""
        self._last_s = asyncio.get_running_loop().time()
        self.min_viability = lab.plant.health

    @property
    def found(self) -> list[Violation]:
        """All violations, in order."""
        return self._findings.all

    @property
    def alarms_raised(self) -> int:
        """Number of raised alarms."""
        return self._telling.raised_in_all

    @property
    def raised(self) -> list[str]:
        """The alarms that were raised, each once, in order of name."""
        return sorted(self._raised)

    def on_row(self, seq: int, kind: str, body: Mapping[str, Any], run: str | None) -> None:
        """Process a journal row."""
        self.rows += 1
        self._of_chambers(kind, body, run)
        if (judge := self._of_steps.get(kind)) is not None:
            judge(body, run or "")
        elif kind in ("step.refused", "moved") and run is not None:
            self._doses.settled(kind, body, run)
        elif kind == "moved" and body.get("end") == STRAY:
            self._doses.stray_booked(body["line"])
        elif kind == "alarm.raised":
            self._telling.on_raised(body["alarm"])
            self._raised.add(body["alarm"])
        self._events_of_plant()

    def _of_chambers(self, kind: str, body: Mapping[str, Any], run: str | None) -> None:
        if run is None:
            return
        if kind == "step":
            self._chambers.requested(body, run)
        elif kind == "step.act":
            self._chambers.announced(body, run)
        elif kind in ("step.refused", "moved"):
            self._chambers.settled(body, run)

    async def run(self, host: CampaignHost) -> None:
        """Check every few seconds until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.update(host)

    def update(self, host: CampaignHost) -> None:
        """Compare the plant's truth with what must hold at any time."""
        self.looks += 1
        now_s = asyncio.get_running_loop().time()
        truth = self._lab.plant.truth()
        self._events_of_plant()
        self._telling.sample(host, now_s)
        life = host.life
        # One that died and came back between two checks was not at work all the time.
        at_work = life is not None and life.ready and not life.dead and life.number == self._life
        self._life = life.number if life is not None and life.ready else None
        if not at_work:
            self._telling.note_absence(self._last_s, now_s)
        self._surroundings.update(truth, self._telling.active, at_work=at_work, last_s=self._last_s, now_s=now_s)
        if at_work and life is not None and life.controller is not None:
            excused = self._troubles.devices_under(OWN_NUMBERS) | self._troubles.impersonated()
            self._readings.update(life.controller.store.readings, self._findings, excused)
        self._doses.update(truth.moved_ul)
        self._chambers.update(truth)
        self.min_viability = min(self.min_viability, truth.viability)
        self._last_s = now_s

    def judge(self, host: CampaignHost, injector: Injector) -> None:
        """Check what can only be judged at the end: the controller runs, its run has ended, nothing moves."""
        life = host.life
        if life is None or life.controller is None or not life.ready:
            self.tell("the controller comes back", "controller", "no controller is at work at the end")
            return
        controller = life.controller
        for at_s, what in host.crashes:
            self.tell("no unexpected exception", what[:60], f"at {at_s:.0f} s the controller ended by itself: {what}")
        self._doses.judge(controller)
        self._telling.judge(injector, unseen=self._troubles.unseen)
        for name, service in host.services.items():
            if service.gaps:
                self.tell("no reading lost", name, f"{name}: {service.gaps[0]} (D1)")
        try:
            controller.journal.verify()
        except Exception as error:
            self.tell("journal intact", "journal", f"{error} (D3)")

    def _events_of_plant(self) -> None:
        events = self._lab.plant.events
        for at_s, text in events[self._events :]:
            if "pumped air" in text and self._troubles.backwards(text.partition(" ")[0], at_s):
                continue
            what = "no vessel overflows" if "overflow" in text else "no pump runs dry"
            self.tell(what, " ".join(text.split()[:2]), f"at {at_s:.0f} s: {text} (I4, I7)")
        self._events = len(events)
