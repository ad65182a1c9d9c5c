"""`choroid verify kills --random`: draws, what counts as a failure (J1), two strikes in real processes (A10, U1)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from controller.guard.guarding import guard_plan
from tests.execution.world import BENCH, RIG
from verification.kills import rigged as rigged_module
from verification.kills.random_kills import carry_out, random_kills
from verification.kills.rigged import RigFailed, Rigged
from verification.kills.strikes import METHODS, Strike, Struck, as_text, draw, judge, table

GOOD = Struck(
    1,
    "controller",
    "kill",
    "dosing",
    0.5,
    basal_s=1.1,
    restart_s=4.0,
    requested_ul=500.0,
    delivered_ul=502.0,
    stated_ul=107.0,
)
AT_REST = {
    "gas_air.flow": 47.0,
    "gas_co2.flow": 3.0,
    "gas_o2.flow": 0.0,
    "relay.heater": 0.0,
    "reglo.heart": 1600.0,
    "reglo.return": 0.0,
    "relay.return_valve": 0.0,
}


def test_a_draw_can_be_repeated_and_tries_every_pair_equally() -> None:
    strikes = draw(200, 1)
    assert strikes == draw(200, 1)
    assert strikes != draw(200, 2)
    assert strikes[:50] == draw(50, 1)
    counted = Counter((strike.victim, strike.method) for strike in strikes)
    assert set(counted) == {(victim, method) for victim, methods in METHODS.items() for method in methods}
    assert max(counted.values()) - min(counted.values()) <= 1
    assert 60 < sum(strike.in_dose for strike in strikes) < 170


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"basal_s": None}, "not seen in its basal state"),
        ({"basal_s": 2.3, "last": ["reglo.heart"]}, "basal state only after 2.30 s, 2 s at the most: reglo.heart"),
        ({"restart_s": None}, "did not come back"),
        ({"restart_s": 45.0}, "back only after 45.0 s"),
        ({"delivered_ul": 0.0}, "500 µL lost"),
        ({"delivered_ul": 250.0}, "250 µL lost"),
        ({"delivered_ul": 250.0, "held": ["less than requested was delivered"]}, ""),
        ({"delivered_ul": 1004.0}, "504 µL too much"),
        ({"delivered_ul": 1004.0, "held": ["more than requested was delivered"]}, "504 µL too much"),
        ({"victim": "both", "basal_s": 5.0}, ""),
        ({"victim": "both", "basal_s": None, "restart_s": 20.1}, ""),
        ({"victim": "both", "basal_s": None, "restart_s": None}, "did not come back"),
        ({"victim": "engine", "basal_s": None}, ""),
        ({"victim": "guard", "method": "service", "basal_s": 2.3}, "basal state only after"),
    ],
)
def test_J1_what_counts_as_a_failure(changes: dict[str, object], says: str) -> None:
    struck = replace(GOOD, **{"held": [], "last": [], "problems": [], **changes})  # type: ignore[arg-type]
    judge(struck)
    assert len(struck.problems) == bool(says)
    assert says in "; ".join(struck.problems)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("relay.heater", 1.0),
        ("relay.return_valve", 1.0),
        ("reglo.heart", 2000.0),
        ("reglo.heart", 0.0),
        ("reglo.return", 4000.0),
        ("gas_co2.flow", 4.0),
        ("gas_o2.flow", 5.0),
    ],
)
def test_J1_an_output_that_does_not_rest_is_seen(output: str, value: float) -> None:
    rigged = object.__new__(Rigged)
    rigged.plan = guard_plan(RIG)
    assert rigged.basal({"outputs": AT_REST})
    assert rigged.restless({"outputs": {**AT_REST, output: value}}) == [output]
    assert not rigged.basal({"outputs": {**AT_REST, output: value}})
    assert not rigged.basal({})


def test_the_table_keeps_the_worst_of_each_pair() -> None:
    late = replace(GOOD, number=2, basal_s=1.9, delivered_ul=460.0)
    (row,) = table([GOOD, late])
    assert (row["strikes"], row["basal_s"], row["min_error_ul"], row["max_error_ul"]) == (2, 1.9, -40.0, 2.0)
    text = as_text({"strikes": 2, "seed": 1, "table": [row], "failed": []})
    assert "1.90 s" in text
    assert "-40 to +2" in text


def test_J1_what_comes_after_the_end_of_a_namespace_starts_outside() -> None:
    """From inside one, a controller could not end a frozen guard outside, and the next strike would blame the rig."""
    started: list[bool] = []

    class Scene:
        namespace, page_port, truth = False, 0, {"at_s": 0.0}

        def stop_service(self, name: str) -> None:
            started.append(self.namespace)

        def signal(self, role: str, number: object) -> None:
            started.append(self.namespace)
            raise RigFailed("struck")

        def until(self, *_: object) -> None: ...

        answers = has_all_readings = until

        def pids(self, role: str) -> list[int]:
            return []

        def watches(self) -> int:
            return 0

    with pytest.raises(RigFailed, match="struck"):
        carry_out(cast(Rigged, Scene()), Strike(1, "controller", "namespace", "circulating", 0.5), replace(GOOD))
    assert started == [True, False], "in a namespace before the strike, outside after it"


def test_J1_the_manager_ends_a_frozen_guard_that_stands_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller replaces the guard that watches it; the other one is a matter of its service, as under systemd."""
    now = [100.0]
    monkeypatch.setattr(rigged_module, "now_s", lambda: now[0])
    rigged = object.__new__(Rigged)
    rigged._lock, rigged._silent_s, rigged.stopped = threading.RLock(), 0.0, set()
    with subprocess.Popen(["sleep", "60"]) as guard:
        rigged._services = {"guard": guard}
        rigged._watchdog()
        rigged.stopped.add(guard.pid)
        for after_s in (0.0, 4.9):
            now[0] = 100.0 + after_s
            rigged._watchdog()
            assert guard.poll() is None
        now[0] = 105.1
        rigged._watchdog()
        assert guard.wait(10.0) == -signal.SIGKILL


@pytest.mark.long
def test_A10_U1_two_strikes_in_real_processes(tmp_path: Path) -> None:
    """By the command; times are a matter of the machine and belong to the command's own table (docs/kills.md)."""
    words = [
        sys.executable,
        "-m",
        "choroid",
        "verify",
        "kills",
        "--random",
        "2",
        "--seed",
        "265",
        "--resume",
        str(tmp_path),
        "--json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    answer = json.loads(done.stdout)
    assert answer["strikes"] == 2, done.stderr
    for outcome in answer["outcomes"]:
        assert outcome["basal_s"] is not None
        assert outcome["requested_ul"] == 500.0
        assert abs(outcome["delivered_ul"] - 500.0) < outcome["stated_ul"] or outcome["held"]
        assert all("only after" in problem for problem in outcome["problems"]), outcome["problems"]
    if not answer["failed"]:
        again = random_kills(2, seed=265, rig=BENCH, resume=tmp_path)  # nothing is done a second time
        assert again == answer
