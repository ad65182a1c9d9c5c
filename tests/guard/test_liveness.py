"""Is a watched process alive, stopped, hung or only starved? As tables, and against random machines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from controller.children.accounts import starved_s
from controller.guard.liveness import (
    MAX_STARVED_S,
    SILENCE_S,
    STARTING_SILENCE_S,
    Liveness,
    Look,
    ProcessFault,
)
from controller.guard.processes import WatchedProcess

POLL_S = 0.1


def watched(
    *, beats_until_s: float, ticks_until_s: float, until_s: float, state: str, starved: float
) -> tuple[ProcessFault | None, float]:
    """Verdict and time (s) of a process that beats and ticks until it does not; `starved` is a share of the time."""
    liveness = Liveness(0.0)
    for step in range(1, round(until_s / POLL_S) + 1):
        at_s = step * POLL_S
        if at_s <= beats_until_s:
            liveness.beat(at_s, 1 + int(min(at_s, ticks_until_s)))
        after = at_s > beats_until_s
        verdict = liveness.judge(Look(at_s, state if after else "S", starved * POLL_S if after else 0.0))
        if verdict is not None:
            return verdict, at_s
    return None, until_s


@pytest.mark.parametrize(
    ("state", "starved", "verdict", "after_s"),
    [
        ("X", 0.0, ProcessFault.DEAD, 0.1),
        ("Z", 0.0, ProcessFault.DEAD, 0.1),
        ("T", 0.0, ProcessFault.STOPPED, 0.2),
        ("S", 0.0, ProcessFault.SILENT, SILENCE_S),
        ("R", 0.0, ProcessFault.SILENT, SILENCE_S),
        ("D", 0.0, ProcessFault.SILENT, SILENCE_S),
        ("t", 0.0, ProcessFault.SILENT, SILENCE_S),
        ("", 0.0, ProcessFault.SILENT, SILENCE_S),
        ("R", 0.5, ProcessFault.SILENT, 2 * SILENCE_S),
        ("R", 1.0, ProcessFault.SILENT, SILENCE_S + MAX_STARVED_S),
    ],
)
def test_U1_what_is_wrong_and_when_it_is_seen(
    state: str, starved: float, verdict: ProcessFault, after_s: float
) -> None:
    found, at_s = watched(beats_until_s=10.0, ticks_until_s=1e9, until_s=60.0, state=state, starved=starved)
    assert found == verdict
    assert at_s - 10.0 == pytest.approx(after_s, abs=0.11)


def test_U1_a_loop_that_turns_without_control_is_no_life() -> None:
    found, at_s = watched(beats_until_s=60.0, ticks_until_s=10.0, until_s=60.0, state="S", starved=0.0)
    assert found == ProcessFault.NOT_TICKING
    assert at_s - 10.0 < 2.0


def test_U4_a_watcher_that_was_starved_itself_blames_no_process_for_that_time() -> None:
    liveness = Liveness(0.0)
    liveness.beat(0.1, 1)
    assert liveness.judge(Look(0.2, "S")) is None
    assert liveness.judge(Look(5.2, "S", 0.0, 4.9)) is None
    assert liveness.judge(Look(5.2 + SILENCE_S + 0.1, "S")) == ProcessFault.SILENT


def test_starvation_before_the_last_beat_excuses_nothing_after_it() -> None:
    liveness = Liveness(0.0)
    for second in range(1, 10):
        liveness.judge(Look(float(second), "R", 0.9))
        liveness.beat(second + 0.01, second)
    assert liveness.judge(Look(9.0 + SILENCE_S + 0.1, "S")) == ProcessFault.SILENT


def test_a_controller_that_is_still_connecting_gets_more_time() -> None:
    liveness = Liveness(0.0)
    liveness.beat(0.1, 0)
    assert liveness.judge(Look(STARTING_SILENCE_S - 1.0, "S")) is None
    assert liveness.judge(Look(STARTING_SILENCE_S + 1.0, "S")) == ProcessFault.SILENT


def test_one_look_at_a_stopped_process_is_not_enough() -> None:
    liveness = Liveness(0.0)
    liveness.beat(0.1, 1)
    assert liveness.judge(Look(0.2, "T")) is None
    assert liveness.judge(Look(0.3, "S")) is None
    assert liveness.judge(Look(0.4, "T")) is None
    assert liveness.judge(Look(0.5, "T")) == ProcessFault.STOPPED


def test_U4_no_healthy_process_of_a_starved_machine_is_condemned() -> None:
    """Random machines: beats come as late as the process was starved, and a little later."""
    rng = np.random.default_rng(14)
    for _ in range(200):
        liveness, at_s, tick, share = Liveness(0.0), 0.0, 1, rng.uniform(0.0, 0.95)
        needed_s = 0.1
        for _ in range(300):
            at_s += POLL_S
            starved = float(np.clip(rng.normal(share, 0.1), 0.0, 1.0)) * POLL_S
            needed_s -= POLL_S - starved
            if needed_s <= 0.0:  # it has had the 0.1 s of processor and waiting that a beat takes
                needed_s, tick = 0.1, tick + 1
                liveness.beat(at_s, tick)
            assert liveness.judge(Look(at_s, "R", starved)) is None, (share, at_s)


@pytest.mark.parametrize(
    ("passed_s", "state", "ran_s", "waited_s", "expected"),
    [
        (1.0, "S", 0.1, 0.0, 0.0),
        (1.0, "S", 0.1, 0.7, 0.7),
        (1.0, "R", 1.0, 0.0, 0.0),
        (1.0, "R", 0.0, 0.0, 1.0),
        (1.0, "R", 0.3, 0.2, 0.7),
        (1.0, "R", 0.0, 3.0, 1.0),
        (1.0, "D", 0.0, -0.1, 1.0),
        (1.0, "D", 0.4, 0.0, 0.6),
        (1.0, "T", 0.0, 0.0, 0.0),
    ],
)
def test_starvation_is_what_the_kernel_has_accounted_for_and_what_it_has_not_yet(
    passed_s: float, state: str, ran_s: float, waited_s: float, expected: float
) -> None:
    assert starved_s(passed_s, state, ran_s, waited_s) == pytest.approx(expected)


def _threads(folder: Path, **states: str) -> None:
    for name, state in states.items():
        task = folder / str(os.getpid()) / "task" / name.removeprefix("t")
        task.mkdir(parents=True, exist_ok=True)
        (task / "stat").write_text(f"1 (python) {state} " + "0 " * 40)
        (task / "schedstat").write_text("0 0 0")


@pytest.mark.parametrize(("loop", "journal", "starved"), [("D", "S", 1.0), ("S", "D", 0.0), ("S", "R", 1.0)])
def test_U4_a_loop_that_waits_for_a_disk_is_excused_and_one_whose_journal_waits_is_not(
    tmp_path: Path, loop: str, journal: str, starved: float
) -> None:
    """A controller on a busy disk was killed 0.68 s after its last beat."""
    states = {f"t{os.getpid()}": loop, "t1": journal}
    _threads(tmp_path, **states)
    process = WatchedProcess(os.getpid(), proc=tmp_path)
    try:
        process.observe(10.0, 0.0)
        look = process.observe(11.0, 0.0)
    finally:
        process.close()
    assert look.state == loop
    assert look.starved_s == pytest.approx(starved)


def test_U1_a_real_process_is_seen_as_it_is() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    seen = WatchedProcess(process.pid)
    try:
        time.sleep(0.5)
        assert seen.observe(0.0, 0.0).state in "SDR"
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        assert seen.observe(0.1, 0.0).state == "T"
        assert not seen.gone
        assert seen.kill()
        assert seen.gone
        assert seen.observe(0.2, 0.0).state == "X"
        assert seen.kill(), "killing what is gone is no error"
    finally:
        process.kill()
        process.wait()
        seen.close()


def test_U4_a_real_process_that_gets_no_processor_is_seen_to_be_starved() -> None:
    """One processor for both, and the other one is before it in line."""
    processor = str(min(os.sched_getaffinity(0)))
    spin = "import time\nwhile True: pass"
    rival = subprocess.Popen(["taskset", "-c", processor, sys.executable, "-c", spin])
    starved = subprocess.Popen(["taskset", "-c", processor, "nice", "-n", "19", sys.executable, "-c", spin])
    try:
        time.sleep(0.5)
        seen = WatchedProcess(starved.pid)
        begun_s = time.monotonic()
        seen.observe(0.0, 0.0)
        total_s = 0.0
        for _ in range(10):
            time.sleep(0.1)
            total_s += seen.observe(time.monotonic() - begun_s, 0.0).starved_s
        passed_s = time.monotonic() - begun_s
        assert 0.6 * passed_s < total_s <= passed_s + 0.01
        seen.close()
    finally:
        for process in (rival, starved):
            process.kill()
            process.wait()


def test_U4_a_process_that_was_hastened_is_as_it_was_when_it_is_let_go() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        seen = WatchedProcess(process.pid)
        allowed = seen.hasten()
        assert (os.sched_getscheduler(process.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR) == allowed
        seen.close()
        assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
    finally:
        process.kill()
        process.wait()
