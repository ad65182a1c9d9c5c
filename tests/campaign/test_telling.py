"""What the campaign's judge reckons with."""

from __future__ import annotations

from choroid.campaign.telling import time_to_tell


def test_only_time_at_work_counts_towards_telling() -> None:
    assert time_to_tell(100.0, 90.0, []) == 190.0
    assert time_to_tell(100.0, 90.0, [(50.0, 60.0), (300.0, 310.0)]) == 190.0, "before and after it is no excuse"
    assert time_to_tell(100.0, 90.0, [(80.0, 120.0)]) == 210.0
    pieces = [(float(begin), begin + 5.0) for begin in range(100, 325, 5)]
    assert time_to_tell(100.0, 90.0, pieces) == 415.0, "nobody was there for 225 s, then it had its 90"
