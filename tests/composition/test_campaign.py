"""Trials of the campaign on other rigs: what the rig has is provoked, every heart and every chamber is judged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from choroid.cli import main
from controller.hazards.loading import load_checked_rig
from controller.rig.description import Rig
from controller.safety.limits import limits_of
from drivers.registry import MODELS
from sim.faults.schedule import Fault
from sim.faults.targets import targets
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.composition import rigs
from verification.campaign.findings import Findings
from verification.campaign.provocations import provocations
from verification.campaign.surroundings import UNFED_S, Perfused
from verification.campaign.trial import run_trial
from verification.campaign.troubles import Troubles, unseen_places
from verification.campaign.world import Trial, draw_trial, interlocks, limits_without, rig_of

MADE = (rigs.dish, rigs.two_plates, rigs.four_hearts)


def loaded(path: Path) -> Rig:
    return load_checked_rig(path, models=MODELS)


@pytest.mark.parametrize("made", MADE, ids=["dish", "two_plates", "four_hearts"])
def test_provocations_and_interlocks_are_those_of_the_rig(made: rigs.Made, tmp_path: Path) -> None:
    rig = loaded(made(tmp_path))
    known = provocations(rig, limits_of(rig))
    for provocation in known.values():
        assert provocation.kind == "careless" or provocation.target in targets(provocation.kind, rig)
    names = interlocks(rig)
    assert ("heart_flow" in names, "volumes" in names) == {
        "dish": (False, False),
        "two-plates": (True, False),
        "four-hearts": (True, True),
    }[rig.name]
    for name in names:
        if name != "heart_flow":  # without a kidney nothing draws while the heart stands
            assert limits_without(rig, name) != limits_of(rig)
    if rig.name == "four-hearts":
        assert {f"heart_flow.c{number}" for number in range(1, 5)} <= set(known)


@pytest.mark.parametrize("made", MADE, ids=["dish", "two_plates", "four_hearts"])
def test_trials_are_drawn_from_the_seed_and_can_be_replayed(made: rigs.Made, tmp_path: Path) -> None:
    path = made(tmp_path)
    trials = [draw_trial(4, number, days=0.2, rig=path) for number in range(4)]
    assert trials == [draw_trial(4, number, days=0.2, rig=path) for number in range(4)]
    assert {trial.protocol for trial in trials} <= (
        {"recycle", "exchange"} if made is rigs.four_hearts else {"stand-by"}
    )
    for trial in trials:
        assert Trial.from_text(trial.to_text()) == trial
        assert rig_of(trial).name == loaded(path).name
        assert "rig_file" not in replace(trial, rig_file="").to_text()


def test_a_blocked_line_of_one_of_four_hearts_is_announced(tmp_path: Path) -> None:
    faults = (Fault("heart_occlusion", "c3", 300.0, 240.0, 1.0), Fault("unplug", "sim:gauges", 900.0, 60.0))
    trial = Trial(5, 0.6, "stand-by", {"time": "1 h"}, faults=faults, rig_file=str(rigs.four_hearts(tmp_path)))
    result = run_trial(trial)
    assert (result.violations, result.refused) == ([], "")
    assert result.faults == {"heart_occlusion": 1, "unplug": 1}
    assert result.alarms >= 1


def test_a_blocked_line_without_a_gauge_is_not_asked_of_the_controller(tmp_path: Path) -> None:
    path = rigs.two_plates(tmp_path)
    fault = Fault("heart_occlusion", "heart", 300.0, 240.0, 1.0)
    assert Troubles(loaded(path), (fault,)).unseen(fault)
    assert not Troubles(loaded(rigs.four_hearts(tmp_path)), ()).unseen(
        Fault("heart_occlusion", "c1", 300.0, 240.0, 1.0)
    )
    result = run_trial(Trial(5, 0.3, "stand-by", {"time": "1 h"}, faults=(fault,), rig_file=str(path)))
    assert result.violations == []


def test_a_bubble_is_excused_until_it_has_passed_at_the_basal_flow(tmp_path: Path) -> None:
    rig = loaded(rigs.four_hearts(tmp_path))
    heart = rig.organs.hearts["c2"]
    troubles = Troubles(rig, (Fault("bubble", heart.line, 100.0, 0.0, 2.0 * heart.basal_ul_min),))
    assert [troubles.stopped_unseen("c2", at_s) for at_s in (99.0, 101.0, 219.0, 230.0)] == [False, True, True, False]
    assert not troubles.stopped_unseen("c1", 150.0)


def test_a_dish_survives_the_faults_of_its_thermometer(tmp_path: Path) -> None:
    faults = (Fault("unplug", "sim:thermometer", 200.0, 300.0), Fault("stall", "host", 700.0, 5.0))
    trial = Trial(5, 0.4, "stand-by", {"time": "1 h"}, faults=faults, rig_file=str(rigs.dish(tmp_path)))
    assert run_trial(trial).violations == []


def test_a_chamber_whose_branch_is_blocked_is_found(tmp_path: Path) -> None:
    rig = loaded(rigs.two_plates(tmp_path))
    assert {"to_a", "to_b"} <= unseen_places(rig), "this rig's own table says that nothing shows it"

    async def watched(blocked: str | None) -> list[str]:
        lab = SimulatedLab(rig, seed=1)
        findings = Findings()
        judge = Perfused(rig, findings, unseen=())
        lab.plant.set_pump("pump.pump", 2000.0)
        if blocked is not None:
            lab.plant.faults.flow_scale[blocked] = 0.0
        for _ in range(round(2 * UNFED_S / 5.0)):
            await asyncio.sleep(5.0)
            judge.update(lab.plant.truth(), set(), asyncio.get_running_loop().time())
        await lab.close()
        return [finding.text.partition(" for ")[0] for finding in findings.all]

    assert run_virtual(watched(None)) == []
    assert run_virtual(watched("to_b")) == ["nothing has flowed into plate_b"]


def test_the_campaign_runs_on_a_rig_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rigs.dish(tmp_path)
    words = [
        "verify",
        "campaign",
        "--rig",
        str(path),
        "--runs",
        "1",
        "--days",
        "0.02",
        "--jobs",
        "1",
        "--faults-a-day",
        "1",
    ]
    assert main(words) == 0
    assert "no violation" in capsys.readouterr().out
