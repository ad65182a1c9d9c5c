"""The campaign can fail: with any one interlock taken out of the kernel, what it was there for happens (docs/campaign.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from choroid.common.examples import bench_rig
from controller.rig.problems import RigError
from sim.faults.schedule import Fault
from tests.rigs.unsafe import lacking, unsafe_rigs
from verification.campaign import trial as module
from verification.campaign.trial import run_trial
from verification.campaign.world import Trial, interlocks, limits_without, rig_of

PROVOKED = {
    "over_pressure_filter": (Fault("clogged_filter", "sterile", 240.0, 900.0, 40.0), "pressure within hard limits"),
    "temperature": (Fault("careless", "relay.heater", 60.0, 900.0), "temperature within hard limits"),
    "over_pressure_heart": (Fault("heart_occlusion", "heart", 60.0, 60.0), "pressure within hard limits"),
    "one_at_a_time": (Fault("careless", "dose_fresh.pump", 10.0, 300.0), "nothing moves unannounced"),
    "volumes": (Fault("careless", "reglo.discard", 10.0, 300.0), "nothing moves unannounced"),
    "mixture": (Fault("careless", "gas_air.flow", 60.0, 600.0), "gas within hard limits"),
    "heart_flow": (Fault("heart_occlusion", "heart", 20.0, 300.0), "nothing is drawn while the heart stands"),
}
"""Interlock → what asks for the harm that it keeps away, and the invariant that sees the harm in the plant.

Every third of them meets the recycler at work, which begins again each hour when all of them come one by one. The filter is
clogged after the recycler has seen it at work: a batch would not be given back behind one that had failed before.
"""


def _trial(*faults: Fault, without: str | None = None) -> Trial:
    return Trial(
        1, 0.2, "recycle", {"batch": "16 mL", "min_batch": "16 mL", "every": "1 h"}, faults=faults, without=without
    )


def test_every_interlock_has_its_provocation() -> None:
    assert set(PROVOKED) == set(interlocks(rig_of(_trial())))


@pytest.mark.long
def test_I1_with_every_interlock_all_of_it_does_no_harm() -> None:
    begins_s = range(0, 1200 * len(PROVOKED), 1200)
    faults = [
        replace(fault, at_s=begin_s + fault.at_s)
        for begin_s, (fault, _) in zip(begins_s, PROVOKED.values(), strict=True)
    ]
    whole = run_trial(_trial(*faults))
    assert whole.violations == []
    assert sum(whole.faults.values()) == len(PROVOKED)
    assert whole.cycles == 2, "the third, without heart flow, was held before it drew"


@pytest.mark.long
@pytest.mark.parametrize("interlock", PROVOKED)
def test_I1_what_an_interlock_keeps_away_happens_without_it(interlock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.0)  # the harm is done by then; no need to wait for order
    fault, invariant = PROVOKED[interlock]
    broken = run_trial(_trial(fault, without=interlock))
    assert invariant in {violation["invariant"] for violation in broken.violations}


def test_several_interlocks_are_taken_away_at_once() -> None:
    rig = rig_of(_trial())
    both = limits_without(rig, "volumes,mixture")
    assert both.mixture is None
    assert both.vessels == limits_without(rig, "volumes").vessels
    assert both.interlocks == limits_without(rig, None).interlocks


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "rule", "what"),
    [
        ("gas into spent", "co2_excess", "pH"),
        ("fresh: osmolality 900 mOsm/kg", "liquid", "osmolality"),
    ],
)
def test_Q5_the_campaign_finds_gas_and_liquids_gone_wrong_where_the_check_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rule: str, what: str
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    unsafe = next(each for each in unsafe_rigs(bench_rig()) if each.name == name)
    file = tmp_path / "rig.yaml"
    file.write_text(json.dumps(unsafe.data), encoding="utf-8")
    hours = 2.3 if what == "pH" else 0.1
    trial = Trial(1, hours, "stand-by", {"time": "4 h"}, rig_file=str(file))
    with pytest.raises(RigError):
        rig_of(trial)
    with lacking(rule):
        found = {violation["text"] for violation in run_trial(trial).violations}
    assert any("chamber has " in text or "chamber has been beyond pH" in text for text in found), found
