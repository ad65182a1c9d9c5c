"""The environments: the contract of gymnasium, the same episode by the same seed, and what each control changes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from choroid.environments import ENVIRONMENTS
from choroid.environments.agents import PatternTrainer, RateKeeper, RidgeReader
from choroid.environments.environment import ControlArm, TissueEnvironment
from choroid.environments.play import BASELINE, TRAINING, Steering, SteeringBySide, TissueGame
from choroid.environments.vowels import FORMANTS_HZ, RANGES_HZ, ReservoirVowels


def made(name: str, **options: Any) -> TissueEnvironment:
    environment = gymnasium.make(name, **options).unwrapped
    assert isinstance(environment, TissueEnvironment)
    return environment


def played(environment: TissueEnvironment, steps: int, action: int = 1) -> list[tuple[bytes, float, float]]:
    observation, _ = environment.reset(seed=123)
    seen = [(observation.tobytes(), 0.0, 0.0)]
    for _ in range(steps):
        observation, reward, ended, _, info = environment.step(np.int64(action))
        assert not ended
        seen.append((observation.tobytes(), reward, info["score"]))
    return seen


@pytest.mark.parametrize(
    "name", [name if "CartPole" in name else pytest.param(name, marks=pytest.mark.long) for name in ENVIRONMENTS]
)
def test_an_environment_keeps_the_contract_of_gymnasium(name: str) -> None:
    check_env(made(name), skip_render_check=True)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_same_seed_gives_the_same_episode(name: str) -> None:
    once, again = played(made(name), 5), played(made(name), 5)
    assert once == again
    assert len({observation for observation, _, _ in once}) > 1


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_has_controls_without_spikes_without_order_and_by_chance(name: str) -> None:
    environment = made(name)
    assert {ControlArm.ZERO, ControlArm.SHUFFLED, ControlArm.RANDOM} <= set(environment.mandatory)
    assert ControlArm.FROZEN in {*environment.mandatory, *environment.reported}
    if isinstance(environment, TissueGame):
        assert ControlArm.FROZEN in environment.mandatory, "there it is the tissue that must learn"


def test_without_spikes_nothing_is_seen() -> None:
    environment = made("choroid/ReservoirVowels-v0", control="zero")
    observation, _ = environment.reset(seed=123)
    assert observation.sum() == 0.0


def test_shuffled_the_agent_sees_other_steps_but_the_score_is_true() -> None:
    true = played(made("choroid/TargetRate-v0"), 12)
    shuffled = played(made("choroid/TargetRate-v0", control="shuffled"), 12)
    assert [score for *_, score in shuffled] == [score for *_, score in true]
    assert {observation for observation, *_ in shuffled} <= {observation for observation, *_ in true}
    assert [observation for observation, *_ in shuffled] != [observation for observation, *_ in true]


def test_at_random_the_actions_do_not_count_and_unstimulated_they_are_zero() -> None:
    name = "choroid/TargetRate-v0"
    assert played(made(name, control="random"), 6, 1) == played(made(name, control="random"), 6, 5)
    assert played(made(name, control="random"), 6, 1) != played(made(name), 6, 1)
    assert played(made(name, control="unstimulated"), 6, 5) == played(made(name), 6, 0)


def test_frozen_tissue_answers_otherwise_only_after_it_could_have_learned() -> None:
    name = "choroid/TargetRate-v0"
    plastic, frozen = played(made(name), 6, 6), played(made(name, control="frozen"), 6, 6)
    assert plastic[0] == frozen[0], "both begin in the same state"
    assert plastic != frozen


def test_an_unknown_control_and_a_frozen_engine_are_refused() -> None:
    with pytest.raises(ValueError, match="asleep"):
        made("choroid/TargetRate-v0", control="asleep")
    with pytest.raises(ValueError, match="cannot be frozen"):
        made("choroid/TargetRate-v0", control="frozen", nerves="nerves.json")
    with pytest.raises(RuntimeError, match="reset"):
        made("choroid/TargetRate-v0").step(0)


def test_tissue_is_trained_only_between_the_first_rounds_and_the_test() -> None:
    environment = Steering()
    environment.reset(seed=123)
    trained: list[tuple[int, int]] = []
    environment._steered.train_group = lambda sensory, motor, **_: trained.append((sensory, motor))  # type: ignore[method-assign]
    environment.round = lambda: 0.5  # type: ignore[method-assign]
    flags = []
    for _ in range(environment.steps):
        observation, *_, info = environment.step(3)
        flags.append((observation[3] > 0.5, info["scored"]))
    assert trained == [(1, 0)] * TRAINING
    assert [number for number, (possible, _) in enumerate(flags) if possible] == list(
        range(BASELINE - 1, BASELINE + TRAINING - 1)
    )
    assert [number for number, (_, scored) in enumerate(flags) if scored] == list(
        range(BASELINE + TRAINING, environment.steps)
    )


def test_both_assignments_share_the_culture_and_the_probes_and_drive_to_opposite_sides() -> None:
    scores = []
    for swapped in (False, True):
        environment = Steering(control="frozen", swapped=swapped)
        environment.reset(seed=103)
        scores.append(environment.step(0)[4]["score"])
    assert scores[0] != 0.5
    assert np.mean(scores) == pytest.approx(0.5, abs=0.05)


def open_loop(kind: type[Steering]) -> tuple[list[float], list[float]]:
    """Return the scores of the first rounds with both assignments; the patterns do not depend on what is seen."""
    scores: tuple[list[float], list[float]] = ([], [])
    for swapped in (False, True):
        environment = kind(swapped=swapped)
        environment.reset(seed=103)
        for step in range(BASELINE + 3):
            scores[swapped].append(environment.step((1, 4)[step % 2])[4]["score"])
    return scores


def test_an_open_loop_has_the_mean_score_of_one_half_in_steering_and_not_in_its_former_version() -> None:
    one, other = open_loop(Steering)
    assert len(set(one)) == len(one)
    assert [1.0 - score for score in one] == pytest.approx(other, abs=1e-12)
    one, other = open_loop(SteeringBySide)
    assert [1.0 - score for score in one][:BASELINE] == pytest.approx(other[:BASELINE], abs=1e-12)
    assert [1.0 - score for score in one] != pytest.approx(other, abs=0.01)


@pytest.mark.long
def test_the_assignment_is_drawn_with_the_seed_if_it_is_not_given() -> None:
    reversed_ = set()
    for seed in range(6):
        environment = Steering(control="zero")
        environment.reset(seed=seed)
        reversed_.add(environment._steered.swapped)
    assert reversed_ == {False, True}


def test_formants_lie_within_the_ranges_of_their_electrodes() -> None:
    for formants in FORMANTS_HZ.values():
        for speaker in formants:
            assert all(low < hz < high for hz, (low, high) in zip(speaker, RANGES_HZ, strict=True))


def test_the_reader_learns_vowels_from_counts() -> None:
    rng = np.random.default_rng(1)
    reader, rates = RidgeReader(5, 0), rng.uniform(0.0, 8.0, (5, 32))
    right, before = [], np.zeros(5)
    for number in range(120):
        vowel = int(rng.integers(5))
        observation = np.concatenate([rng.poisson(rates[vowel]), before]).astype(np.float32)
        if number:
            reader.learn(0, 0.0, observation)
        right.append(reader.act(observation) == vowel)
        before = np.eye(5)[vowel]
    assert np.mean(right[60:]) > 0.9


def test_the_keeper_learns_which_action_gives_the_target() -> None:
    keeper, ratio, chosen = RateKeeper(7, 3), 0.5, []
    rng = np.random.default_rng(2)
    for _ in range(120):
        observation = np.array([0.0, ratio], np.float32)
        chosen.append(keeper.act(observation))
        window = (0.4 + 0.2 * chosen[-1]) * rng.uniform(0.8, 1.2)
        ratio += 0.12 * (window - ratio)
        keeper.learn(chosen[-1], 0.0, np.array([window, ratio], np.float32))
    assert ratio == pytest.approx(1.0, abs=0.1)
    assert np.mean(np.abs(np.array(chosen[60:]) - 3) <= 2) > 0.9


def test_the_trainer_finds_the_patterns_that_help() -> None:
    right = 0
    for seed in range(10):
        trainer, performance = PatternTrainer(5, seed), np.array([-0.4, -0.4])
        rng = np.random.default_rng(seed)
        for number in range(40):
            observation = np.array([0.2, *performance, number > 8, 0.1], np.float32)
            action = trainer.act(observation)
            if action:
                performance[(action - 1) // 2] += 0.08 if action in (1, 4) else -0.08
            seen = np.array([0.2, *(performance + rng.normal(0.0, 0.1, 2)), 1.0, 0.1], np.float32)
            trainer.learn(action, 0.2, seen)
            performance = performance.clip(-1.0, 1.0)
        right += int(performance.min() > 0.0)
    assert right >= 7


def test_vowels_are_named_by_chance_without_spikes() -> None:
    environment = ReservoirVowels(control="zero")
    observation, _ = environment.reset(seed=5)
    reader, scores = RidgeReader(5, 5), []
    for _ in range(60):
        action = reader.act(observation)
        observation, reward, *_, info = environment.step(action)
        reader.learn(action, reward, observation)
        scores.append(info["score"])
    assert np.mean(scores) < 0.45
