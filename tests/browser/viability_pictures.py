"""Draw the viability card in six situations, for desk and phone: `python -m tests.browser.viability_pictures [FOLDER]`.

Each estimate follows from looks as a rig would journal them; nothing on the card is made up.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controller.rig.loading import load_rig
from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.look import TissueLook
from protocols.tissue.sources import Knowing, KnownBy
from protocols.tissue.statement import Statement
from tests.browser.pages import ROOT, chromium, serving, visiting
from tests.browser.stage import SIZES, staged
from tests.dashboards.fake_rig import BENCH

FOLDER = ROOT / "docs" / "img"
SUFFIX = {"desk": "", "phone": "-phone"}
READ = "async () => await (await fetch('/api/viability')).json()"


def around(value: float, sd: float) -> Interval:
    """Return a reading."""
    return Interval.around(value, sd, floor=0.0)


WARM: dict[str, Any] = {"temperature_c": around(37.0, 0.15), "flow_share": around(1.0, 0.03), "ph": around(7.35, 0.03)}
MEDIUM: dict[str, Any] = {
    "lactate_mm": around(4.0, 0.5),
    "ammonia_mm": around(0.3, 0.05),
    "glucose_mm": around(14.0, 0.6),
}
FEW = TissueLook(**WARM, oxygen_pct=around(88.0, 1.5), firing_hz=around(3.0, 0.2))
FULL = TissueLook(
    **WARM, **MEDIUM, oxygen_pct=around(80.0, 1.5), oxygen_at_tissue=True, oxygen_uptake=around(14.0, 0.4),
    firing_hz=around(3.0, 0.2),
)  # fmt: skip
HOT = TissueLook(
    **WARM | {"temperature_c": around(40.6, 0.15)}, oxygen_pct=around(88.0, 1.5), firing_hz=around(2.0, 0.2)
)


WARM_UP = dataclasses.replace(FULL, temperature_c=around(40.3, 0.15))


def fading(hours: int) -> Iterable[TissueLook]:
    """Return hours in which uptake and firing fall although nothing harmful is measured."""
    for hour in range(hours):
        share = 0.97**hour
        yield TissueLook(
            **WARM, **MEDIUM, oxygen_pct=around(80.0, 1.5), oxygen_at_tissue=True, oxygen_uptake=around(14.0 * share, 0.4),
            firing_hz=around(3.0 * share, 0.2),
        )  # fmt: skip


def healed(hours: int) -> Iterable[TissueLook]:
    """Return hours in which uptake and firing return after heat."""
    for hour in range(hours):
        share = 1.0 - 0.3 * 0.985**hour
        yield dataclasses.replace(FULL, oxygen_uptake=around(14.0 * share, 0.4), firing_hz=around(3.0 * share, 0.2))


def weekly(hours: int) -> Iterable[TissueLook]:
    """Return hours with an assay and an image at the beginning of each week."""
    for hour in range(hours):
        due = hour % 168 == 6
        ldh, volume = (around(1.0, 0.1), around(8.0 * 1.003**hour, 0.3)) if due else (None, None)
        yield dataclasses.replace(FULL, ldh=ldh, volume=volume)


SITUATIONS: Mapping[str, tuple[TissueLook, ...]] = {
    "well": tuple(weekly(192)),
    "little-measured": (FEW,) * 120,
    "heat": ((FEW,) * 96 + (HOT,) * 5),
    "loss": (*((FULL,) * 96), *fading(48)),
    "recovering": (*((FULL,) * 96), *((WARM_UP,) * 3), *healed(60)),
    "no-data": ((FULL,) * 72 + (TissueLook(temperature_c=around(37.0, 0.15)),) * 120),
}
WEEKLY = frozenset({"ldh", "volume"})


def said(looks: tuple[TissueLook, ...]) -> dict[str, Any]:
    """Return the estimate after these hours."""
    known = set(looks[-1].to_json()) | (WEEKLY if any(each.ldh for each in looks) else set())
    sources = {"lactate_mm": KnownBy(Knowing.MEASURED, "assay", 6.0)} if looks[-1] is not FEW else {}
    return Statement(ViabilityEstimate.of(looks), looks[-1], frozenset(known), sources=sources).to_json()


def draw(folder: Path = FOLDER) -> list[Path]:
    """Draw all situations in both sizes; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    found = {name: said(looks) for name, looks in SITUATIONS.items()}
    with serving() as server, chromium() as browser:
        with visiting(browser, server.url) as visit:
            scores = visit.live().evaluate(READ) | {"stimulation": None}
        for (size, pixels), (name, each) in itertools.product(SIZES.items(), found.items()):
            with staged(browser, load_rig(BENCH), size=pixels, scores=scores | {"viability": each}) as visit:
                path = folder / f"viability-{name}{SUFFIX[size]}.png"
                visit.page.get_by_test_id("viability").screenshot(path=path)
                files.append(path)
    return files


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(path)
