"""Precedence over other programs is for threads that need little of a processor."""

from __future__ import annotations

import os
from typing import Any

import pytest

from nerves import precedence
from nerves.precedence import JUDGED_EVERY_S, LightPrecedence


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A machine whose clocks stand, and that allows precedence while `allowed`."""
    state: dict[str, Any] = {"now": 0.0, "used": 0.0, "allowed": True, "policy": []}

    def take() -> bool:
        if state["allowed"]:
            state["policy"].append("ahead")
        return bool(state["allowed"])

    monkeypatch.setattr(precedence, "take_precedence", take)
    monkeypatch.setattr("nerves.precedence.time.monotonic", lambda: state["now"])
    monkeypatch.setattr("nerves.precedence.time.thread_time", lambda: state["used"])
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: state["policy"].append("ordinary"))
    return state


def work(machine: dict[str, Any], light: LightPrecedence, share: float) -> None:
    for _ in range(10):
        machine["now"] += JUDGED_EVERY_S / 4.0
        machine["used"] += share * JUDGED_EVERY_S / 4.0
        light.judge()


def test_a_thread_that_needs_much_of_a_processor_loses_its_precedence_until_it_needs_little(
    machine: dict[str, Any],
) -> None:
    light = LightPrecedence()
    work(machine, light, 0.1)
    assert machine["policy"] == ["ahead"]
    work(machine, light, 0.5)
    assert machine["policy"] == ["ahead", "ordinary"]
    work(machine, light, 0.2)  # not little enough
    assert not light.held
    work(machine, light, 0.1)
    assert machine["policy"] == ["ahead", "ordinary", "ahead"]


def test_where_the_system_allows_no_precedence_none_is_taken_or_given_up(machine: dict[str, Any]) -> None:
    machine["allowed"] = False
    light = LightPrecedence()
    work(machine, light, 0.9)
    work(machine, light, 0.01)
    assert machine["policy"] == []
