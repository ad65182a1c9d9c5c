"""The campaign that the tests run: two trials of an hour, in one of them the heart's line is shut for minutes.

Which faults a seed draws depends on the rig and on the kinds of faults there are, so the seed is looked for.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from verification.campaign.world import draw_trial

MIN_FAULTS = 6
SHUT_S = 120.0
"""Long enough to raise an alarm, and to burst a line if nothing stopped the pump."""


def sample() -> dict[str, Any]:
    """Return the first campaign with enough faults, and a heart's line shut for at least `SHUT_S`."""
    for seed in count(76):
        words = {"runs": 2, "days": 0.04, "seed": seed}
        faults = [fault for number in range(2) for fault in draw_trial(seed, number, days=0.04).faults]
        shut_s = max((fault.for_s for fault in faults if fault.kind == "heart_occlusion"), default=0.0)
        if len(faults) >= MIN_FAULTS and shut_s >= SHUT_S:
            break
    return words
