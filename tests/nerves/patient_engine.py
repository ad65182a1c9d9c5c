"""Run an engine process whose array waits for it: `python -m tests.nerves.patient_engine --config …`.

The array's crystal keeps real time while the engine keeps up with it, and stands still while the engine is late. So a busy
machine makes the array slower, but it drops no pulse and loses no frame. Everything else is the engine as it runs in a rig.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from choroid.running import nerves_process
from choroid.running.simulated_card import SimulatedCard, simulated_card


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


def main() -> int:
    """Run the engine on a patient array."""
    crystal = PatientCrystal()

    def patient_card(**options: Any) -> SimulatedCard:
        return simulated_card(**options, clock=crystal, sleep=crystal.sleep)

    vars(nerves_process)["simulated_card"] = patient_card
    return nerves_process.main()


if __name__ == "__main__":
    sys.exit(main())
