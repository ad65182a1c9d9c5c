"""G8: a few faults of the campaign, and a network that is divided for a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.grid.fault_campaign import COUNT, POLL_S, JobUnderFaults, a_site, campaign, cut_off
from tests.grid.namespaces import require_namespaces

pytestmark = pytest.mark.long
LEFT_S = 35.0
"""Until the majority has left a rank behind that was cut off in an exchange: longest wait for a message, and a pause."""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[JobUnderFaults]:
    """A job of three ranks that train together."""
    require_namespaces()
    with ExitStack() as opened:
        found = JobUnderFaults(tmp_path, opened.enter_context(a_site(tmp_path)), "diloco")
        opened.callback(found.close)
        while not found.together(2):
            time.sleep(POLL_S)
        yield found


@pytest.mark.within_s(900)
def test_G8_a_few_random_faults_leave_the_model_whole(tmp_path: Path) -> None:
    require_namespaces()
    assert campaign(4, 5, tmp_path) == []


@pytest.mark.within_s(600)
@pytest.mark.parametrize("victim", [0, 2], ids=["the rank that answers", "another rank"])
def test_G8_of_a_network_that_is_divided_for_a_minute_the_smaller_part_waits(job: JobUnderFaults, victim: int) -> None:
    others = [rank for rank in range(COUNT) if rank != victim]
    with cut_off(job.net, victim):
        time.sleep(LEFT_S)
        stopped, began = job.ranks.outer(victim), min(map(job.ranks.outer, others))
        time.sleep(60.0 - LEFT_S)
        assert job.ranks.outer(victim) == stopped
        ended = min(map(job.ranks.outer, others))
        assert ended > began
        assert all(job.ranks.events(rank, "step")[-1]["members"] == others for rank in others)
    begin_s = time.monotonic()
    while not job.together(ended):
        time.sleep(POLL_S)
    back_s = time.monotonic() - begin_s
    print(f"stopped at {stopped}, the others went on from {began} to {ended}; back {back_s:.0f} s later")
    assert job.differing() == []
    assert len({job.ranks.digests(rank)[min(map(job.ranks.outer, range(COUNT)))] for rank in range(COUNT)}) == 1
    assert job.brought_to_its_end()[0] == []
