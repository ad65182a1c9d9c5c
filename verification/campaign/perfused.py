"""Judge of the branches of a heart: every chamber that the rig file feeds is fed while its heart runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controller.rig.description import HeartConfig, Rig
from controller.rig.perfusion import fed_by
from sim.plant.truth import PlantTruth
from verification.campaign.findings import Findings

UNFED_S = 120.0
"""Maximum time without inflow while the heart runs (s)."""


class Perfused:
    """Watches the chambers that a heart feeds over a junction or over another chamber; the others show in its own line."""

    def __init__(self, rig: Rig, findings: Findings, *, unseen: Collection[str]) -> None:
        """Watch all branches except those whose chamber or line is in `unseen`: no sensor shows them."""
        self._tell = findings.tell
        self._chambers = {
            chamber: (
                inlets,
                tuple(heart.line for heart in rig.organs.hearts.values() if chamber in fed_by(rig, heart)),
            )
            for heart in rig.organs.hearts.values()
            for chamber, inlets in _branches(rig, heart)
            if not {chamber, *inlets}.intersection(unseen)
        }
        self._since_s: dict[str, float] = {}
        self._moved_ul: dict[str, float] = {}

    def look(self, truth: PlantTruth, standing: set[str], now_s: float) -> None:
        """Check the inflow of each chamber; `standing` are the lines of the hearts that stand, which others judge."""
        for chamber, (inlets, hearts) in self._chambers.items():
            moved_ul = sum(truth.moved_ul[line] for line in inlets)
            fed = moved_ul - self._moved_ul.get(chamber, -1.0) > 0.0
            self._moved_ul[chamber] = moved_ul
            if fed or standing.issuperset(hearts):
                self._since_s.pop(chamber, None)
                continue
            unfed_s = now_s - self._since_s.setdefault(chamber, now_s)
            if unfed_s > UNFED_S:
                self._tell(
                    "every chamber is fed",
                    chamber,
                    f"nothing has flowed into {chamber} for {unfed_s:.0f} s, its heart runs, and no hazard says so (I1)",
                )


def _branches(rig: Rig, heart: HeartConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each chamber with tissue that a heart feeds over passive lines, with these lines."""
    for chamber in fed_by(rig, heart):
        inlets = tuple(name for name, line in rig.lines.items() if line.to == chamber)
        if chamber in rig.tissue and heart.line not in inlets:
            yield chamber, inlets
