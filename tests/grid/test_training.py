"""Training of three ranks on loopback: loss, bytes, and every fault that a member may have."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.grid.addresses import loopback_bases
from tests.grid.ranks import ROOT, Ranks
from tests.grid.training_environment import torch_python
from tests.grid.world import until

pytestmark = pytest.mark.long
Make = Callable[..., Ranks]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Ranks] = []

    def job(count: int = 3, **changes: Any) -> Ranks:
        made.append(Ranks(tmp_path, count, **changes))
        return made[-1]

    yield job
    for each in made:
        each.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"codec": "fp16"},
        {"codec": "int8"},
        {"codec": "fp32"},
        {"engine": "ddp", "codec": "fp16", "outer_steps": 5},
        {"codec": "fp16", "precision": "bf16", "micro_batch": 20},
    ],
    ids=["fp16", "int8", "fp32", "ddp", "bf16 in micro-batches"],
)
def test_G4_loss_falls_and_the_bytes_are_as_predicted(make: Make, changes: dict[str, Any]) -> None:
    ranks = make(**{"preset": "wide", "local_steps": 20} | changes)
    for rank in range(3):
        ranks.start(rank)
    ends = ranks.end()
    steps = ranks.events(0, "step")
    print([(each["sent"], each["predicted"]) for each in steps], [each["loss"] for each in steps])
    assert len({each["model"] for each in ends}) == 1
    assert steps[-1]["loss"] < 0.6 * steps[0]["loss"]
    for rank in range(3):
        for each in ranks.events(rank, "step")[1:]:  # the first connects
            assert each["sent"] == pytest.approx(each["predicted"], rel=0.1)
            assert not each["differ"]


@pytest.mark.within_s(600)
def test_G8_ranks_form_a_group_after_one_of_them_has_waited_for_another_that_did_not_come() -> None:
    """The network was divided when it waited: without a reset torch gives the next group another name at each rank."""
    script = Path(__file__).with_name("group_process.py")
    with loopback_bases(1) as (base,):
        words = [f"{base}.1.1", f"{base}.1.2", "29401"]
        started = [
            subprocess.Popen(
                [str(torch_python()), "-B", "-P", str(script), str(rank), *words],
                env={**os.environ, "PYTHONPATH": str(ROOT / "grid")},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [process.communicate() for process in started]
    assert "failed: DistStoreError" in said[0][1]
    for out, error in said:
        assert out, error
        assert json.loads(out) == ["of rank 0", "of rank 1"]


MANY = 100_000
"""Outer steps of a job that a test ends."""


async def is_back(ranks: Ranks, rank: int, other: int) -> None:
    """Wait until a rank takes part again, and compare its common state with that of another after each step."""
    await until(lambda: ranks.events(rank, "taken"), 120)
    seen = max(ranks.outer(rank), ranks.outer(other))  # its own last step may be one before it was away
    await until(lambda: min(ranks.outer(rank), ranks.outer(other)) >= seen + 3, 120)
    own, others = ranks.digests(rank), ranks.digests(other)
    assert {outer: others[outer] for outer in own if outer in others} == {
        outer: digest for outer, digest in own.items() if outer in others
    }
    assert rank in ranks.events(other, "step")[-1]["members"]
    steps = [each["outer"] for each in ranks.events(other, "step")]
    assert steps == list(range(1, len(steps) + 1)), "none is repeated after it was reported"
    assert len(ranks.events(other, "lost")) <= 1


@pytest.mark.within_s(400)
@pytest.mark.parametrize("engine", ["diloco", "ddp"])
@pytest.mark.parametrize("victim", [0, 2], ids=["the rank that answers", "another rank"])
async def test_G8_a_rank_that_is_killed_costs_the_others_no_outer_step_that_they_have_reported(
    make: Make, engine: str, victim: int
) -> None:
    ranks = make(engine=engine, outer_steps=MANY)
    for rank in range(3):
        ranks.start(rank, slow_s=0.05)
    await until(lambda: ranks.outer(victim) >= 3, 120)
    ranks.signal(victim, signal.SIGKILL)
    seen = ranks.outer(1)
    await until(lambda: ranks.outer(1) >= seen + 3, 60)
    ranks.start(victim, slow_s=0.05)
    await is_back(ranks, victim, 1)
    steps = ranks.events(1, "step")
    alone = [each for each in steps if victim not in each["members"]]
    print("seconds of the first outer step without it", alone[0]["s"], "of others", steps[1]["s"])
    assert ranks.events(victim, "resumed")


@pytest.mark.within_s(400)
@pytest.mark.parametrize("fault", ["exchange", "checkpoint"])
async def test_G8_a_rank_that_dies_in_an_exchange_or_while_it_writes_a_checkpoint_comes_back(
    make: Make, fault: str
) -> None:
    ranks = make(outer_steps=MANY)
    for rank in range(3):
        ranks.start(rank, fault if rank == 1 else "", slow_s=0.05)
    await until(lambda: ranks.processes[1].poll() is not None, 120)
    assert ranks.processes[1].poll() == -signal.SIGKILL
    seen = ranks.outer(0)
    await until(lambda: ranks.outer(0) >= seen + 2, 60)
    ranks.start(1, slow_s=0.05)
    await is_back(ranks, 1, 0)


@pytest.mark.within_s(400)
async def test_G8_a_rank_that_stands_still_for_a_minute_is_left_behind_and_catches_up(make: Make) -> None:
    ranks = make(outer_steps=MANY)
    for rank in range(3):
        ranks.start(rank, slow_s=0.05)
    await until(lambda: ranks.outer(2) >= 2, 120)
    ranks.signal(2, signal.SIGSTOP)
    stopped = ranks.outer(0)
    await until(lambda: ranks.outer(0) >= stopped + 3, 60)
    slowest = max(each["s"] for each in ranks.events(0, "step")[1:])
    print("seconds of the outer step in which it was left behind", slowest)
    assert slowest < 40.0
    await asyncio.sleep(60.0 - slowest)
    ranks.signal(2, signal.SIGCONT)
    await is_back(ranks, 2, 0)


@pytest.mark.within_s(400)
async def test_G8_a_long_evaluation_of_the_common_weights_does_not_look_like_a_slow_rank(make: Make) -> None:
    ranks = make(outer_steps=4, checkpoint_every=2)
    for rank in range(3):
        ranks.start(rank, "evaluation" if rank == 0 else "")
    ends = ranks.end()
    assert len({each["model"] for each in ends}) == 1
    steps = ranks.events(1, "step")
    print([(each["s"], each["members"]) for each in steps], ranks.events(1, "lost"), ranks.events(0, "lost"))
    assert max(each["s"] for each in steps) > 24.0, "the others have waited"
    assert all(each["members"] == [0, 1, 2] for each in steps)
    assert not any(ranks.events(rank, "taken") or ranks.events(rank, "lost") for rank in range(3))


def test_G8_a_torn_checkpoint_is_passed_over_and_a_full_disk_keeps_the_last_one(make: Make) -> None:
    ranks = make(1, preset="wide", outer_steps=3)
    ranks.start(0)
    ranks.end()
    written = sorted(ranks.place(0).glob("checkpoint-*.json"))
    assert [path.name for path in written] == ["checkpoint-000000002.json", "checkpoint-000000003.json"]
    about = json.loads(written[-1].read_bytes())
    for part in ("common", "own"):
        (ranks.place(0) / "objects" / about[part]).unlink()
    written[-1].write_bytes(written[-1].read_bytes()[:40])
    ranks.start(0, file_bytes=100_000)
    assert ranks.processes[0].wait(120) == 1, "the model cannot be written"
    assert "checkpoint-000000003.json is passed over" in ranks.events(0, "damaged")[-1]["reason"]
    assert ranks.events(0, "resumed")[-1]["outer"] == 2
    assert "File too large" in ranks.events(0, "unwritten")[-1]["reason"]
    assert "Next: free space" in ranks.events(0, "failed")[-1]["reason"]
    ranks.start(0)
    assert ranks.end()[0]["outer"] == 3


@pytest.mark.parametrize(
    ("fault", "engine", "says"),
    [
        ("nan", "diloco", "not finite"),
        ("nan", "ddp", "not finite"),
        ("long", "diloco", "times as long as the median"),
        ("long", "ddp", "times as long as the median"),
        ("shape", "diloco", "another shape"),
        ("lie", "diloco", "another update than it announced"),
    ],
)
def test_G8_a_rank_that_sends_nonsense_is_named_and_left_out_and_the_job_goes_on(
    make: Make, fault: str, engine: str, says: str
) -> None:
    ranks = make(engine=engine)
    for rank in range(3):
        ranks.start(rank, fault if rank == 1 else "")
    ends = ranks.end()
    for rank in (0, 2):
        steps = ranks.events(rank, "step")
        assert [each["outer"] for each in steps] == list(range(1, 7))
        named = [each for each in steps if each["excluded"]]
        assert named
        assert all(set(each["excluded"]) == {"1"} and each["counted"] == [0, 2] for each in named)
        assert says in named[0]["excluded"]["1"]
    assert ends[0]["model"] == ends[2]["model"]
    if fault != "shape":
        assert ends[1]["model"] == ends[0]["model"]
        assert len([each for each in ranks.events(0, "step") if not each["excluded"]]) >= 4


@pytest.mark.within_s(200)
async def test_G8_too_few_ranks_wait(make: Make) -> None:
    ranks = make()
    ranks.start(2)
    await until(lambda: ranks.place(2).joinpath("objects").exists(), 60)
    ranks.start(0)
    await until(lambda: ranks.outer(2) >= 1, 120)
    assert all(each["members"] == [0, 2] for each in ranks.events(2, "step"))
    ends = ranks.end()
    assert ends[0]["model"] == ends[1]["model"]


def test_G4_a_job_ends_when_its_budget_of_bytes_is_used(make: Make) -> None:
    ranks = make(preset="wide", outer_steps=1000, budget={"core_hours": 1.0, "bytes": 8_000_000})
    for rank in range(3):
        ranks.start(rank)
    ends = ranks.end()
    assert all("budget of bytes is used" in each["reason"] for each in ends)
    assert 8_000_000 < ends[0]["sent"] < 12_000_000
