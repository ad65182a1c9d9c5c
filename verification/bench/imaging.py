"""`choroid verify bench imaging`: are images measured and judged rightly? Simulated images whose truth is known.

Each seed makes a tissue, light and focus by chance. An image counts as **usable** when tissue is whole in the field, no
bubble touches it, and the blur of the lens is at most 12 µm; as **unusable** when it is empty, dark, overexposed, cut off,
touched by a bubble, or blurred by 45 µm or more. Blur between the two is a grey zone: such images are in the error of the
area as far as they are accepted, and in no rate. The analysis gets grey levels, bits and the length of a pixel, nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import cos, pi, sin
from typing import Any

import numpy as np

from choroid.common.workers import workers
from controller.imaging.quality import analyse
from sim.camera.outline import Outline
from sim.camera.scene import BITS, Bubble, CameraField, Scene, TissueInView, render

SEEDS = range(2001, 2041)
SHARP_UM, BLURRED_UM = (2.0, 12.0), (45.0, 120.0)
USABLE = ("plain", "debris", "uneven_light", "bubble_away", "frayed", "dead_core")
UNUSABLE = ("empty", "empty_with_bubble", "dark", "overexposed", "cut_off", "bubble", "out_of_focus")
GREY = ("grey_focus",)


@dataclass(frozen=True, slots=True)
class Judged:
    """One image: its condition, the truth, and what the analysis made of it."""

    condition: str
    true_mm2: float
    accepted: bool
    area_mm2: float
    defects: str


def bench_imaging(seeds: Sequence[int] = SEEDS, jobs: int | None = None) -> dict[str, Any]:
    """Judge one image of each condition for each seed; return the errors and rates.

    Args:
        seeds: One culture each.
        jobs: Processes; None means as many as there are CPUs.
    """
    conditions = (*USABLE, *UNUSABLE, *GREY)
    work = partial(_seed, conditions=conditions)
    if jobs == 1:
        every = [work(seed) for seed in seeds]
    else:
        with workers(jobs or os.cpu_count() or 1) as pool:
            every = list(pool.map(work, seeds))
    return figures([one for each in every for one in each])


def figures(rows: Sequence[Judged]) -> dict[str, Any]:
    """Return the figures of judged images."""
    errors = [abs(one.area_mm2 / one.true_mm2 - 1) for one in rows if one.accepted and one.true_mm2 > 0]
    usable = [one for one in rows if one.condition in USABLE]
    unusable = [one for one in rows if one.condition in UNUSABLE]
    found: dict[str, Any] = {
        "images": len(rows),
        "area_error_median_pct": 100 * float(np.median(errors)),
        "area_error_p95_pct (goal 3)": 100 * float(np.quantile(errors, 0.95)),
        "area_error_max_pct": 100 * max(errors),
        "unusable_detected_pct (goal 95)": _share(not one.accepted for one in unusable),
        "usable_rejected_pct": _share(not one.accepted for one in usable),
    }
    for condition in USABLE:
        of = [one for one in rows if one.condition == condition]
        error = [100 * abs(one.area_mm2 / one.true_mm2 - 1) for one in of if one.accepted]
        shown = f"area p95 {np.quantile(error, 0.95):.2f} %, " if error else ""
        found[f"usable: {condition}"] = f"{shown}rejected {_share(not one.accepted for one in of):.0f} %"
    for condition in UNUSABLE:
        of = [one for one in rows if one.condition == condition]
        found[f"unusable: {condition}"] = f"detected {_share(not one.accepted for one in of):.0f} %"
    grey = [one for one in rows if one.condition in GREY]
    found["grey zone of focus"] = f"accepted {_share(one.accepted for one in grey):.0f} %"
    return found


def judged(condition: str, seed: int) -> Judged:
    """Render one image and analyse it."""
    random = np.random.default_rng((seed, 41))
    scene, field, exposure = _scene(condition, random, seed)
    image = render(scene, field, seed, exposure)
    analysis = analyse(image, BITS, field.pixel_um)
    true = 0.0 if scene.tissue is None else pi / 4 * scene.tissue.diameter_mm**2
    area = 0.0 if analysis.features is None else analysis.features.area_mm2
    return Judged(condition, true, analysis.usable, area, "+".join(analysis.defects))


# --- inside -----------------------------------------------------------------------------------------------------


def _seed(seed: int, *, conditions: Sequence[str]) -> list[Judged]:
    return [judged(condition, seed) for condition in conditions]


def _share(true: Any) -> float:
    every = list(true)
    return 100.0 * float(sum(every)) / max(len(every), 1)


def _scene(condition: str, random: np.random.Generator, seed: int) -> tuple[Scene, CameraField, float]:
    """Return the scene of a condition, the camera and its exposure."""
    diameter = random.uniform(0.8, 3.4)
    field = CameraField(pixel_um=4.0 if diameter < 1.6 else 8.0)
    half = field.width * field.pixel_um / 2e3
    room = half - 0.75 * diameter
    tissue = TissueInView(diameter, random.uniform(0.7, 1.0), random.uniform(0.0, 0.3), form=seed)
    scene = Scene(
        tissue,
        x_mm=random.uniform(-room, room),
        y_mm=random.uniform(-room, room),
        blur_um=random.uniform(*SHARP_UM),
        debris=int(random.integers(0, 12)),
        lamp=random.uniform(0.7, 1.15),
        tilt=(random.normal(0.0, 0.04), random.normal(0.0, 0.04)),
        vignette=random.uniform(0.0, 0.25),
    )
    exposure = 1.0
    if condition == "debris":
        scene = replace(scene, debris=80)
    elif condition == "uneven_light":
        scene = replace(scene, tilt=(random.choice((-1, 1)) * 0.2, 0.1), vignette=0.4)
    elif condition == "frayed":
        scene = replace(scene, tissue=replace(tissue, viability=random.uniform(0.4, 0.7), dead_fraction=0.4), debris=50)
    elif condition == "dead_core":
        scene = replace(
            scene, tissue=replace(tissue, viability=random.uniform(0.8, 1.0), dead_fraction=random.uniform(0.4, 0.8))
        )
    elif condition == "bubble_away":
        scene = _with_bubble(scene, random, field, touching=False)
    elif condition in ("bubble", "empty_with_bubble"):
        scene = _with_bubble(scene, random, field, touching=True)
    elif condition == "dark":
        exposure = random.uniform(0.0, 0.1)
    elif condition == "overexposed":
        exposure = random.uniform(1.9, 4.0)
    elif condition == "out_of_focus":
        scene = replace(scene, blur_um=random.uniform(*BLURRED_UM))
    elif condition == "grey_focus":
        scene = replace(scene, blur_um=random.uniform(SHARP_UM[1], BLURRED_UM[0]))
    elif condition == "cut_off":
        angle, out = random.uniform(0, 2 * pi), half - random.uniform(0.0, 0.35) * diameter
        scene = replace(scene, x_mm=out * _square(cos(angle), sin(angle)), y_mm=out * _square(sin(angle), cos(angle)))
    if condition in ("empty", "empty_with_bubble"):
        scene = replace(scene, tissue=None, debris=int(random.integers(0, 60)))
    return scene, field, exposure


def _square(this: float, other: float) -> float:
    """Return a coordinate of the point on the square |x|, |y| ≤ 1 in a direction."""
    return this / max(abs(this), abs(other))


def _with_bubble(scene: Scene, random: np.random.Generator, field: CameraField, *, touching: bool) -> Scene:
    """Add a bubble that covers part of the outline, or that lies at least 0.1 mm away from the tissue within the field."""
    tissue = scene.tissue or TissueInView(1.0)
    outline = Outline.made(tissue.form, raggedness=1.0 - tissue.viability)
    half = field.width * field.pixel_um / 2e3
    for _ in range(1000):
        radius = random.uniform(0.12, 0.45) * (1.0 if field.pixel_um > 5 else 0.6)
        angle = random.uniform(0, 2 * pi)
        rim = tissue.diameter_mm / 2 * float(outline.radius_at(np.array([angle]))[0])
        away = rim + (random.uniform(0.25, 1.0) * half + radius if not touching else random.uniform(-0.6, 0.6) * radius)
        x, y = scene.x_mm + away * cos(angle), scene.y_mm + away * sin(angle)
        edge = tissue.diameter_mm / 2 * outline.radii.max() + radius + 0.1
        clear = touching or np.hypot(x - scene.x_mm, y - scene.y_mm) > edge
        if clear and max(abs(x), abs(y)) < half - radius:
            return replace(scene, bubbles=(Bubble(x, y, radius),))
    return replace(scene, bubbles=(Bubble(scene.x_mm, scene.y_mm, 0.2),)) if touching else scene
