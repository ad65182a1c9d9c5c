"""The figures of `choroid verify bench learning`: each culture counts once, with both assignments, against each control."""

from __future__ import annotations

import pytest

from choroid.environments.environment import ControlArm
from choroid.environments.play import Steering
from verification.bench import learning


def test_an_arm_is_the_mean_of_both_assignments(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[ControlArm, int, bool]] = []

    def session(control: ControlArm, seed: int, *, swapped: bool) -> tuple[float, ...]:
        played.append((control, seed, swapped))
        return (0.5, 0.5, 0.9 if swapped else 0.3)

    monkeypatch.setattr(learning, "session", session)
    found = learning.arms(7)
    assert set(found) == {ControlArm.NONE, *Steering.mandatory}
    assert [arm[2] for arm in found.values()] == [pytest.approx(0.6)] * len(found)
    assert len(played) == len(set(played)) == 2 * len(found)


def test_tissue_has_learned_only_if_it_is_better_than_each_control() -> None:
    def culture(score: float, frozen: float) -> dict[ControlArm, learning.Phases]:
        return dict.fromkeys(Steering.mandatory, (0.5, 0.5, 0.5)) | {
            ControlArm.NONE: (0.5, 0.6, score, 0.6),
            ControlArm.FROZEN: (0.5, 0.5, frozen),
        }

    figures = learning.learning_figures([culture(0.7, 0.8), culture(0.8, 0.7), culture(0.75, 0.75)])
    assert figures["plastic, test"] == pytest.approx(0.75)
    assert figures["plastic over frozen"].startswith("+0.000 (-")
    assert figures["plastic over zero"].startswith("+0.250 (+")
