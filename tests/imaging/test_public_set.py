"""Brain organoids in their wells, photographed by others: shadows, dark corners, debris."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.needs_module("skimage", "imaging")


def test_outlines_agree_with_those_that_people_drew() -> None:
    from tests.imaging.public_set import agreements, shipped

    found = agreements(shipped())
    used = [each for each in found if not each.defects]
    assert len(found) == 10
    spoilt = {each.name: each.defects for each in found if each.defects}
    assert spoilt == {"day 30, laboratory A": "cut_off", "day 30, laboratory B": "overexposed"}, (
        "on the edge of its well"
    )
    assert np.mean([each.iou for each in used]) >= 0.85
    assert np.median([abs(each.area_ratio - 1) for each in used]) <= 0.06
    assert sum(each.iou >= 0.75 for each in used) >= 7
