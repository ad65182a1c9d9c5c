"""A simulated technician who tends a rig as the alarms ask: bottles, waste, level of the loop, tubing, tasks, held runs.

Each action is done twice, as in reality: on the plant, and in the records through the operators' entries. The
caller calls :meth:`Technician.update` every simulated hour; the technician makes a round once a day, and comes at
once for a waiting run and for a manual task that is due. At a set interval a drop of the loop's medium is assayed as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from controller.core.run_states import RunState
from controller.estimator.assays import AssayRefused
from controller.ledger.batches import Batch
from controller.process.controller import Controller
from controller.rig.description import required
from protocols.assay import ANALYTES
from protocols.assay_requests import ASSAY_WANTED
from sim.lab import SimulatedLab

DAY_S = 86_400.0
NAME = "technician"
FILL_REL_SD = 0.005
"""Relative standard deviation of a new bottle's volume."""
READ_SD_UL = 300.0
"""Standard deviation of a level reading of the loop (µL)."""
LEFT_UL, LEFT_SD_UL = 0.0, 500.0
"""Assumed remainder of an emptied waste, and its standard deviation (µL)."""
MAX_RESUMES = 3
"""Maximum number of consecutive resumes of a run that is held again before the next round."""
ASSAYED = ("lactate", "glucose")
"""Analytes that a benchtop analyser measures in a drop; too little medium to matter in the loop."""
ASSAYABLE = (*ASSAYED, "ammonia", "glutamine", "osmolality", "ldh")
"""Analytes that can be asked for."""
SPECIES = {"osmolality": "osmoles"}
"""Names in the plant of analytes that are called otherwise there."""
STREAM = 0x7EC4
"""Separates these random draws from the plant's, which use the same seed."""


MIN_ASSAY_D = 1.0 / 24.0
"""Minimum time between two assays: a simulation lets the technician look once an hour."""


class Technician:
    """Technician of one lab and its controller; assays `assayed` every `assay_every_d` days, or never.

    `done` lists the actions, the oldest first: `day`, `what`, `why`.
    """

    def __init__(
        self,
        lab: SimulatedLab,
        controller: Controller,
        *,
        seed: int,
        assay_every_d: float | None = None,
        assayed: Sequence[str] = ASSAYED,
        on_request: bool = False,
    ) -> None:
        """`on_request`: the technician also makes the assays that the recycler requests."""
        self._lab = lab
        self._controller = controller
        self._random = np.random.default_rng((seed, STREAM))
        self._assayed = tuple(assayed)
        self._next_round_s = DAY_S
        self._assay_every_s = math.inf if assay_every_d is None else assay_every_d * DAY_S
        self._next_assay_s = self._assay_every_s
        self._resumed = 0
        self._bottles = 0
        self._hands: dict[str, Callable[[str], str]] = {
            "stock_low": self._new_bottle,
            "medium_expired": self._new_bottle,
            "bottle_due": self._new_bottle,
            "bottle_over": self._new_bottle,
            "waste_full": self._empty,
            "level_due": self._read,
            "tubing_due": self._new_tubing,
            "tubing_over": self._new_tubing,
        }
        if on_request:
            self._hands[ASSAY_WANTED] = self._requested
        self._tasks: dict[str, Callable[[str], str]] = {"task_due": self._task, "task_overdue": self._task}
        self.done: list[dict[str, Any]] = []

    async def update(self, elapsed_s: float) -> None:
        """Make assay and round if they are due after `elapsed_s` (s of simulated time), and check for a waiting run."""
        runs = self._controller.runs
        day = round(elapsed_s / DAY_S, 2)
        self._answer_alarms(day, self._tasks)
        if elapsed_s >= self._next_assay_s - 1.0:
            self._next_assay_s += self._assay_every_s
            self._assay(day, self._assayed, "it was time")
        due = elapsed_s >= self._next_round_s - 1.0
        waiting = runs.active is not None and runs.active.state is RunState.HELD
        if due:
            self._next_round_s += DAY_S
            self._resumed = 0
        if not due and (not waiting or self._resumed >= MAX_RESUMES):
            return
        self._answer_alarms(day, self._hands)
        for alarm in self._controller.alarms.active():
            self._controller.alarms.acknowledge(alarm.id, NAME)
        if waiting:
            await self._resume(day)

    def _answer_alarms(self, day: float, hands: Mapping[str, Callable[[str], str]]) -> None:
        """Do what each active alarm asks for, as far as `hands` has its kind, and acknowledge it."""
        for alarm in self._controller.alarms.active():
            hand = hands.get(alarm.kind)
            if hand is not None:
                self._tell(day, hand(alarm.source), f"{alarm.id}: {alarm.detail}")
                self._controller.alarms.acknowledge(alarm.id, NAME)

    async def _resume(self, day: float) -> None:
        """Replace what is half used, and resume the held run."""
        runs = self._controller.runs
        if runs.active is None:
            return
        for what in self._half_used():
            self._tell(day, what, "while the run waited")
        held = runs.active
        self._resumed += 1
        self._tell(day, f"resumed {held.protocol}", held.messages[-1] if held.messages else "")
        await runs.resume(held.id, NAME, "looked after what the alarms asked for")

    # --- internal ---------------------------------------------------------------------------------------

    def _tell(self, day: float, what: str, why: str) -> None:
        self.done.append({"day": day, "what": what, "why": why})

    def _half_used(self) -> Iterator[str]:
        """Yield what a visit for a waiting run replaces: bottles less than half full, and waste more than half
        full.
        """
        for name, vessel in self._lab.rig.vessels.items():
            held_ul = self._controller.ledger.volumes()[name].ul
            if vessel.kind == "source" and held_ul < vessel.volume_ul / 2:
                yield self._new_bottle(name)
            elif vessel.kind == "waste" and held_ul > vessel.limit_ul / 2:
                yield self._empty(name)

    def _new_bottle(self, vessel: str) -> str:
        spec = self._lab.rig.vessels[vessel]
        self._bottles += 1
        lot = f"{vessel}-{self._bottles}"
        full_ul = spec.volume_ul * (1.0 + FILL_REL_SD * float(self._random.standard_normal()))
        self._lab.plant.fill(vessel, min(full_ul, spec.capacity_ul))
        batch = Batch(lot, spec.contains or "", self._controller.clock.utc_text(), vessel, by=NAME)
        sd_ul = FILL_REL_SD * spec.volume_ul
        self._controller.ledger.load(batch, spec.volume_ul, sd_ul, replaces=True, user=NAME, reason="a new bottle")
        return f"new bottle for {vessel}, lot {lot}"

    def _empty(self, vessel: str) -> str:
        self._lab.plant.fill(vessel, 0.0)
        self._controller.ledger.reconcile(vessel, LEFT_UL, LEFT_SD_UL, user=NAME, reason="emptied")
        return f"emptied {vessel}"

    def _read(self, vessel: str) -> str:
        true_ul = self._lab.plant.truth().volumes_ul[vessel]
        read_ul = max(true_ul + READ_SD_UL * float(self._random.standard_normal()), 0.0)
        found = self._controller.ledger.level(vessel, read_ul, READ_SD_UL, user=NAME, reason="the day's round")
        return f"read {vessel} as {read_ul / 1000:.1f} mL ({found.sigmas:+.1f} standard deviations)"

    def _requested(self, _: str) -> str:
        """Make the assays that are requested."""
        analytes = [name for request in self._controller.runs.requests.open() for name in request.analytes]
        if not analytes:
            return "no sample: the request was answered"
        day = (self._controller.clock.utc() - self._controller.ledger.opened).total_seconds() / DAY_S
        self._assay(round(day, 2), analytes, "it was requested")
        return f"took a sample for {', '.join(analytes)}"

    def _assay(self, day: float, analytes: Sequence[str], why: str) -> None:
        """Assay the loop; confirm a doubted result, which is correct."""
        loop = required(self._lab.rig.loop, "a loop")
        true = self._lab.plant.truth().concentrations[loop]
        taken = self._controller.clock.utc_text()
        for name in analytes:
            known = ANALYTES[name]
            value = true[SPECIES.get(name, name)]
            value += known.deviation(value) * float(self._random.standard_normal())
            text = f"{max(value, known.low):.4g} {known.unit}"
            for sure in (False, True):
                try:
                    self._controller.runs.enter_assay(name, text, vessel=loop, taken=taken, user=NAME, sure=sure)
                except AssayRefused as refusal:
                    self._tell(day, f"looked again at {name} of {text}", str(refusal))
                else:
                    self._tell(day, f"assayed {name}: {text}", why)
                    break

    def _new_tubing(self, pump: str) -> str:
        tubing = self._controller.upkeep.tubing[pump]
        self._controller.upkeep.install(
            pump, material=tubing.material, bore_mm=tubing.bore_mm, user=NAME, reason="worn", lot=tubing.lot,
            life_revolutions=tubing.life_revolutions,
        )  # fmt: skip
        return f"new tubing for {pump}"

    def _task(self, name: str) -> str:
        """Do a manual task: each vessel that it feeds gets fresh medium up to the volume of the rig file."""
        spec = self._lab.rig.upkeep.tasks[name]
        for vessel in spec.feeds:
            volume_ul = self._lab.rig.vessels[vessel].volume_ul
            self._lab.plant.fill(vessel, volume_ul)
            sd_ul = FILL_REL_SD * volume_ul
            self._controller.ledger.reconcile(vessel, volume_ul, sd_ul, user=NAME, reason=spec.text)
        self._controller.upkeep.confirm(name, user=NAME, note="")
        return f"did {name}: {spec.text}"
