"""What an agent uploads has priority only while it needs little of a processor."""

from __future__ import annotations

import os

import pytest

from controller.children.accounts import ProcessorShare
from nerves.precedence import MAX_LOSSES, PRIORITY, LightPriority


def test_a_child_that_computes_much_loses_its_priority_and_in_the_end_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[int] = []
    shares = iter([0.1, 0.9, 0.2, 0.1] * 10)
    monkeypatch.setattr(os, "setpriority", lambda _, pid, nice: set_to.append(nice))
    monkeypatch.setattr(ProcessorShare, "since", lambda self: next(shares))
    child = LightPriority(os.getpid())
    for _ in range(40):
        child.judge()
    assert set_to == [PRIORITY, 0] * MAX_LOSSES
    assert not child.held


def test_where_the_system_does_not_allow_it_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    child = LightPriority(os.getpid())
    child.judge()
    assert not child.held
