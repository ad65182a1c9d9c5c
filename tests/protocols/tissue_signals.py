"""What shows that recycled medium harms a tissue: two tissues of one seed at the same limits, without a retreat, by day.

Run `python -m tests.protocols.tissue_signals [SEED] [DAYS]`: a table of docs/recycling.md.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from controller.rig.description import required
from nerves.summary import NervesSummary
from protocols.media_state import MAKES_LACTATE
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import MODELS
from sim.plant.truth import PlantTruth
from sim.virtual_time import run_virtual
from verification.bench.light_lab import LightLab
from verification.bench.medium import ARMS, rig_of
from verification.bench.perfusion import Perfusion

COLUMNS = ("day", "viability", "ammonia mM", "lactate made, sd (µmol/d)", "firing Hz", "LDH", "expected loss")


class Watched(LightLab):
    """Keeps the signals of each day."""

    def __init__(self, perfusion: Perfusion, *, seed: int, assays: bool) -> None:
        """As the light laboratory."""
        super().__init__(perfusion, seed=seed, assays=assays)
        self.days: list[str] = []
        self._firing_hz = 0.0

    def _firing(self, truth: PlantTruth, now_s: float) -> NervesSummary | None:
        nerves = super()._firing(truth, now_s)
        self._firing_hz = 0.0 if nerves is None else nerves.firing_rate_hz
        return nerves

    def _hour(self, hour: int) -> None:
        super()._hour(hour)
        if hour % 24:
            return
        truth, media = self.history.truth[-1], self._observer.estimator.state
        loop = truth.concentrations[required(self._rig.loop, "a loop")]
        made = f"{media.rate_umol_d:.1f}, {media.sd(MAKES_LACTATE):.1f}"
        lost = self._vitals.tissue_loss.lost
        self.days.append(
            f"{hour // 24} | {truth.viability:.3f} | {loop['ammonia']:.2f} | {made} | {self._firing_hz:.1f}"
            f" | {loop['ldh']:.1f} | {lost:.3f}"
        )


def signals(tissue: str, seed: int, days: float, arm: str = "sensor") -> list[str]:
    """Return a row for each day."""
    kind = ARMS[arm]
    with tempfile.TemporaryDirectory() as folder:

        async def lived() -> list[str]:
            parameters = PlantParameters(MODELS[tissue])
            perfusion = Perfusion(rig_of(kind), seed=seed, folder=Path(folder), parameters=parameters)
            try:
                lab = Watched(perfusion, seed=seed, assays=kind.assays)
                await lab.live(kind.protocol, {"accepted_loss": 100.0}, days)
            finally:
                perfusion.close()
            return lab.days

        return run_virtual(lived())


if __name__ == "__main__":
    given = dict(enumerate(int(each) for each in sys.argv[1:]))
    seed, days = given.get(0, 401), given.get(1, 8)
    print(" | ".join(COLUMNS))
    for tissue in ("reference", "chronic"):
        print(tissue, *signals(tissue, seed, float(days)), sep="\n")
