"""Run an engine process whose array waits for it: `python -m tests.nerves.patient_engine --config …`.

The array's crystal keeps real time while the engine keeps up with it, and stands still while the engine is late. So a busy
machine makes the array slower, but it drops no pulse and loses no frame. Everything else is the engine as it runs in a rig.
"""

from __future__ import annotations

import time
from typing import Any

from choroid.running import nerves_process
from choroid.running.simulated_card import SimulatedCard, simulated_card
from nerves import core
from nerves.reflexes import UploadedReflexes
from sim.neurons.conditions import TissueConditions

REFLEX_WAIT_S = 30.0


class PatientCrystal:
    """A clock that only sleeping moves: by what was slept, in real time unless that has passed already."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due_s = time.monotonic()

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Wait until `seconds` after the end of the sleep before, and not at all if that is past."""
        self.now_s += max(seconds, 1e-7)
        self._due_s += seconds
        late_s = time.monotonic() - self._due_s
        if late_s < 0.0:
            time.sleep(-late_s)
        else:
            self._due_s += late_s


class PatientCard:
    """The simulated card in the engine's own process, on a crystal that waits for the engine; else as a card process."""

    def __init__(self, config: dict[str, Any]) -> None:
        crystal = PatientCrystal()
        self._card: SimulatedCard = simulated_card(**config, clock=crystal, sleep=crystal.sleep)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._card, name)

    def configure(self, message: dict[str, Any]) -> None:
        """Set what the tissue lives in."""
        self._card.set_conditions(TissueConditions(**message["conditions"]))


def main() -> int:
    """Run the engine on a patient array; its blocks wait for uploaded reflexes."""
    vars(nerves_process)["CardProcess"] = PatientCard
    vars(core)["UploadedReflexes"] = lambda events, _: UploadedReflexes(events, REFLEX_WAIT_S)
    return nerves_process.main()


if __name__ == "__main__":
    nerves_process.end_with(main)
