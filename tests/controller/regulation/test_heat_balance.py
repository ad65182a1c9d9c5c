"""The heater's power shows the temperature better than a probe that drifts: it is learnt once, kept, and limits the heat."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.regulation.heat_balance import MAX_WARMER_K, HeatBalance
from controller.regulation.references import References
from controller.regulation.temperature import WINDOW_S
from tests.execution.world import EPOCH, RIG

SKIN = RIG.organs.skin
HELD = 0.48
pytestmark = pytest.mark.virtual_time


class Kept:
    """A memory without a journal."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], float] = {}

    def get(self, name: str, of: str) -> float | None:
        return self.values.get((name, of))

    def learn(self, name: str, of: str, value: float) -> None:
        self.values[name, of] = value


def held(balance: HeatBalance, hours: float = 1.0, duty: float = HELD, shown_c: float | None = 37.0) -> HeatBalance:
    for window in range(int(hours * 3600.0 / WINDOW_S)):
        balance.note(duty, shown_c, WINDOW_S, window * WINDOW_S)
    return balance


def balance(memory: Kept | References) -> HeatBalance:
    assert SKIN is not None
    return HeatBalance(SKIN, memory)


async def test_I10_power_that_holds_the_set_point_is_learnt_and_limits_the_heat() -> None:
    sound = held(balance(Kept()))
    assert sound.difference_k == pytest.approx(0.0, abs=0.01)
    assert sound.limited(HELD, WINDOW_S) == HELD
    assert sound.limited(1.0, WINDOW_S) == 1.0, "a cold dose may be made up for"
    for window in range(10_000):
        sound.note(sound.limited(1.0, WINDOW_S), 37.0, WINDOW_S, 1e5 + window * WINDOW_S)
    assert sound.difference_k == pytest.approx(MAX_WARMER_K, abs=0.01)
    assert sound.limited(1.0, WINDOW_S) == pytest.approx(HELD * (1.0 + MAX_WARMER_K / 13.0), abs=0.001)


async def test_I10_before_it_is_learnt_and_after_a_disturbance_nothing_is_limited() -> None:
    assert held(balance(Kept()), 0.5).limited(1.0, WINDOW_S) == 1.0
    memory = Kept()
    disturbed = held(balance(memory), 0.8)
    disturbed.note(0.0, None, WINDOW_S, 1e5)
    held(disturbed, 0.5)
    assert memory.values == {}


async def test_I10_a_probe_that_reads_high_shows_as_well() -> None:
    cold = held(held(balance(Kept())), duty=HELD * (1.0 - 2.0 / 13.0), hours=2.0)
    assert cold.difference_k == pytest.approx(-2.0, abs=0.05)


async def test_I10_a_restart_does_not_learn_from_a_probe_that_has_drifted(tmp_path: Path) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=False)
    held(balance(References(journal)))
    again = held(balance(References(journal)), duty=HELD * 1.2, hours=3.0)
    assert again.difference_k is not None
    assert again.difference_k > MAX_WARMER_K
    journal.append("commissioning", {})
    fresh = held(balance(References(journal)), duty=HELD * 1.2)
    assert fresh.difference_k == pytest.approx(0.0, abs=0.01), "a commissioned rig is learnt again"
    journal.close()
