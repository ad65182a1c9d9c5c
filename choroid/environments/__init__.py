"""Gymnasium environments on living or simulated tissue (docs/environments.md). Importing this package registers them.

They need the extra `agents`.
"""

from __future__ import annotations

import gymnasium

from choroid.environments.comparison import Agent, ControlComparison, compare_with_controls, episode_score
from choroid.environments.effect import EffectSize, effect_size
from choroid.environments.environment import ControlArm, TissueEnvironment
from choroid.tissue.window import CultureTissue, SitePulse, StimulatedTissue, WindowSpikes

__all__ = [
    "Agent",
    "ControlArm",
    "ControlComparison",
    "CultureTissue",
    "EffectSize",
    "SitePulse",
    "StimulatedTissue",
    "TissueEnvironment",
    "WindowSpikes",
    "compare_with_controls",
    "effect_size",
    "episode_score",
]

ENVIRONMENTS = {
    "choroid/TargetRate-v0": "choroid.environments.target_rate:TargetRate",
    "choroid/Steering-v1": "choroid.environments.play:Steering",
    "choroid/CartPole-v1": "choroid.environments.play:CartPole",
    "choroid/Pong-v1": "choroid.environments.play:Pong",
    "choroid/ReservoirVowels-v0": "choroid.environments.vowels:ReservoirVowels",
}
for _name, _where in ENVIRONMENTS.items():
    gymnasium.register(id=_name, entry_point=_where)
