"""Whether an image fits the earlier ones of the same culture: area, shape, place, number of objects.

Tissue does not halve in an hour. What contradicts the last usable images is refused and says why. Images that contradict them
in the same way one after another are a change of the culture: the last of them is used, says so, and is the first of what
later images are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from statistics import median
from typing import Any

from controller.imaging.time_lapse import DAY_S, ImageFrame

UNLIKE, SEVERAL = "unlike_before", "several_objects"
COMPARED = 5
"""Number of earlier images that count."""
AGREEING = 4
"""So many images in a row that contradict the earlier ones in the same way are a change."""
AREA_JUMP, AREA_PER_D = 0.2, 0.2
"""Largest change of the logarithm of the area at once, and in addition per day."""
SHAPE_JUMP = 0.2
"""Largest change of the circularity."""
SAME_AREA, SAME_SHAPE = 0.1, 0.1
"""Images agree with one another within this."""
RESTING_MM, MOVED_DIAMETERS = 0.2, 1.0
"""Tissue that lay still within this radius in all compared images has not moved by more than its diameter since."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the history says of an image."""

    defects: tuple[str, ...]
    note: str = ""
    """Why it is refused, or that it is a change; empty for an image that fits."""
    changed: bool = False


def compared_frames(frames: Sequence[ImageFrame], since_s: float) -> list[ImageFrame]:
    """Return the usable images since a moment (UTC s) and since the last change, oldest first."""
    found: list[ImageFrame] = []
    for frame in reversed(frames):
        if frame.at_s < since_s:
            break
        if frame.usable:
            found.append(frame)
        if frame.changed:
            break
    return found[::-1]


def judged_by_history(frames: Sequence[ImageFrame], newest: ImageFrame, since_s: float) -> Judgement:
    """Return whether the newest image fits the earlier ones since a moment (UTC s); defects of its own stay.

    Args:
        frames: The earlier images, oldest first.
        newest: What was seen; without features, or with a defect other than several objects, it is left as it is.
        since_s: When this culture came into the chamber.
    """
    if newest.features is None or set(newest.defects) - {SEVERAL}:
        return Judgement(newest.defects)
    earlier = compared_frames(frames, since_s)[-COMPARED:]
    reasons = _contradictions(earlier, newest, newest.features) if earlier else []
    if SEVERAL in newest.defects:
        reasons.append(
            f"{newest.objects} objects have the outline of tissue, and which of them is the culture is not known"
        )
    if not reasons:
        return Judgement(())
    told = "; ".join(reasons)
    if _agreeing(frames, newest, since_s) >= AGREEING:
        return Judgement(
            (), f"Taken as a change of the culture, because {AGREEING} images in a row agree: {told}.", True
        )
    defects = newest.defects if SEVERAL in newest.defects else (UNLIKE,)
    return Judgement(defects, f"Not used: {told}. If {AGREEING} images in a row agree, it is taken as a change.")


def _contradictions(earlier: Sequence[ImageFrame], newest: ImageFrame, features: Mapping[str, Any]) -> list[str]:
    seen = [frame.features for frame in earlier if frame.features is not None]
    reasons = []
    change = log(features["area_mm2"]) - median(log(each["area_mm2"]) for each in seen)
    days = max(newest.at_s - earlier[-1].at_s, 0.0) / DAY_S
    if abs(change) > AREA_JUMP + AREA_PER_D * days:
        how = f"{100 * abs(exp(change) - 1):.0f} % {'larger' if change > 0 else 'smaller'}"
        reasons.append(f"the area is {how} than in the last usable images")
    rounder = features["circularity"] - median(each["circularity"] for each in seen)
    if abs(rounder) > SHAPE_JUMP:
        how = "rounder" if rounder > 0 else "less round"
        reasons.append(
            f"the outline is far {how} than in the last usable images (circularity {features['circularity']:.2f})"
        )
    moved = _moved_mm(earlier, newest)
    if moved is not None and moved > MOVED_DIAMETERS * features["diameter_mm"]:
        reasons.append(f"it lies {moved:.1f} mm away from where the tissue lay still")
    return reasons


def _moved_mm(earlier: Sequence[ImageFrame], newest: ImageFrame) -> float | None:
    """Return how far tissue that lay still has moved; None if it did not lie still, or its place is not known."""
    places = [frame.place_mm for frame in earlier if frame.place_mm is not None]
    if newest.place_mm is None or len(places) < COMPARED:
        return None
    at = (median(x for x, _ in places), median(y for _, y in places))
    if max(hypot(x - at[0], y - at[1]) for x, y in places) > RESTING_MM:
        return None
    return hypot(newest.place_mm[0] - at[0], newest.place_mm[1] - at[1])


def _agreeing(frames: Sequence[ImageFrame], newest: ImageFrame, since_s: float) -> int:
    """Return how many images in a row show the same as the newest, itself included; spoilt ones are passed over."""
    count, features = 1, newest.features or {}
    for frame in reversed(frames):
        if frame.at_s < since_s or frame.usable:
            break
        if frame.features is None or set(frame.defects) - {SEVERAL, UNLIKE}:
            continue
        area = abs(log(frame.features["area_mm2"] / features["area_mm2"]))
        shape = abs(frame.features["circularity"] - features["circularity"])
        if area > SAME_AREA or shape > SAME_SHAPE or frame.objects != newest.objects:
            break
        count += 1
    return count
