"""`choroid plan`: what it tells, from where it begins, and that a start refuses what it refuses (E5)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.simulation.plan import as_text, plan
from controller.memory.calibrations import FILE, Calibration, keep
from controller.recipes.catalogue import of_file
from controller.rig.loading import load_rig
from controller.runs.runner import RunnerError
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.execution.test_shipped_recipes import attended
from tests.execution.test_whole_stack import controlled
from tests.execution.world import BENCH, RIG

OWN = BENCH.parents[1] / "protocols" / "weekend.yaml"


def test_a_plan_tells_volumes_grades_run_out_and_the_sterile_barrier(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    answer = plan(BENCH, protocol=str(OWN), params={"turns": "1"}, hours=1.0, seed=1, svg=picture)
    assert answer["feasible"]
    assert answer["refusals"] == []
    assert answer["from"] == "the rig file"
    volumes = answer["volumes"]
    for vessel in volumes.values():
        assert vessel["start_ml"] + vessel["in_ml"] - vessel["out_ml"] == pytest.approx(vessel["end_ml"], abs=0.002)
    moved = {step["verb"]: step["ml"] for step in answer["steps"] if "ml" in step}
    assert moved["kidney.draw"] == pytest.approx(12.0, abs=1.5)
    assert volumes["reservoir"]["out_ml"] == pytest.approx(moved["gut.feed"], abs=0.01)
    drawn = [step["ml"] for step in answer["steps"] if step["verb"] == "kidney.draw"]
    assert drawn[0] == pytest.approx(2.0, abs=0.3), "the filter's test comes first"
    assert volumes["loop"]["out_ml"] == pytest.approx(sum(drawn), abs=0.01)
    (grade,) = answer["grades"]
    assert grade["grade"] in "ABCD"
    assert grade["at_best"] <= grade["grade"]  # the best values are never worse than the pessimistic ends
    run_out = {entry["vessel"]: entry for entry in answer["run_out"]}
    rate = volumes["reservoir"]["out_ml"]  # in one hour
    assert run_out["reservoir"]["hours"] == pytest.approx(
        1.0 + (volumes["reservoir"]["end_ml"] - 10.0) / rate, rel=0.01
    )
    assert run_out["waste"]["what"] == "full"
    given = [step for step in answer["steps"] if step["verb"] == "kidney.give_back"]
    assert len(answer["sterile"]) == len(given) == 3
    assert "return_valve" in answer["sterile"][0]["text"]
    root = ElementTree.parse(picture).getroot()  # noqa: S314  (written just now)
    tips = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(tips) == 1 + len(answer["steps"])
    assert any("mL loop → spent" in tip for tip in tips)
    text = as_text(answer)
    assert "reservoir empty in" in text
    assert "nothing would be refused" in text


def test_E5_a_start_refuses_what_the_plan_refuses(tmp_path: Path) -> None:
    params = {"volume": "35 mL", "every": "1 h"}
    answer = plan(BENCH, protocol="exchange", params=params, hours=24.0, seed=1)
    assert not answer["feasible"]
    assert "“reservoir” could fall to" in answer["refusals"][0]["text"]
    assert answer["steps"]
    assert answer["volumes"]["reservoir"]["out_ml"] > 400.0

    async def start() -> str:
        lab = SimulatedLab(RIG, seed=1)
        async with controlled(lab, tmp_path) as controller:
            with pytest.raises(RunnerError) as caught:
                await controller.runs.start("exchange", params, "anna", "a test")
            assert controller.runs.list() == []
            assert controller.journal.last("run.start") is None
            return str(caught.value)

    assert answer["refusals"][0]["text"].partition("could fall")[0].split(",")[0] in run_virtual(start())


def uncalibrated(folder: Path, *, but: str = "", expires: str = "2027-01-01T00:00:00.000Z") -> Path:
    """A rig file whose pumps want records, and a data directory with one for each of them, but for `but`."""
    text = BENCH.read_text(encoding="utf-8")
    path = folder / "rig.yaml"
    path.write_text(text.replace("upkeep:\n", "upkeep:\n  calibration: required\n"), encoding="utf-8")
    data = folder / "data"
    rig = load_rig(path)
    for line in rig.lines.values():
        if line.pump is not None and line.pump != but:
            until = expires if line.pump == "reglo.return" else "2027-01-01T00:00:00.000Z"
            keep(
                data,
                Calibration(
                    line.pump, "pump", "balance", "ada", "2025-12-30T00:00:00.000Z", until, rig.name, None, "uL",
                    ((5000.0, 5000.0),), 1.0, 0.0, 0.0,
                ),
            )  # fmt: skip
    return path


def started(rig: Path, data: Path, protocol: str, params: dict[str, str]) -> str:
    """A start by the whole stack with these records: why it is refused, or nothing."""

    async def start() -> str:
        described = load_rig(rig)
        async with controlled(SimulatedLab(described, seed=1), data, rig=described) as controller:
            await asyncio.sleep(120.0)
            try:
                await controller.runs.start(protocol, params, "anna", "a test")
            except RunnerError as error:
                return str(error)
            return ""

    return run_virtual(start())


def test_F5_a_plan_names_the_pump_whose_calibration_is_missing(tmp_path: Path) -> None:
    rig, data = uncalibrated(tmp_path, but="reglo.return"), tmp_path / "data"
    assert started(rig, data, "circulate", {}) == ""  # it moves nothing
    data, kept = tmp_path / "other", data / FILE
    data.mkdir()
    (data / FILE).write_bytes(kept.read_bytes())
    told = started(rig, data, "exchange", {"cycles": "1"})
    assert "kidney.give_back" in told
    assert "calibration: reglo.return has no record" in told
    answer = plan(rig, protocol="exchange", params={"cycles": "1"}, hours=1.0, seed=1, data=data)
    assert not answer["feasible"]
    assert answer["calibrations"]
    assert [entry["text"].partition(" h from")[2] for entry in answer["refusals"]] == [
        told.partition(" h from")[2].removesuffix(".")
    ]
    assert [step["verb"] for step in answer["steps"] if "ml" in step]  # what comes before it is still told
    alone = plan(rig, protocol="circulate", params={"time": "10 min", "every": "5 min"}, hours=0.3, seed=1)
    assert alone["calibrations"] is False
    assert "calibrations were not looked at" in as_text(alone)


def test_F5_a_plan_tells_of_a_calibration_that_runs_out_before_its_step(tmp_path: Path) -> None:
    rig, data = uncalibrated(tmp_path, expires="2026-01-01T05:00:00.000Z"), tmp_path / "data"
    params = {"cycles": "2", "every": "6 h"}
    assert "that of reglo.return expired on 2026-01-01" in started(rig, data, "exchange", params)
    answer = plan(rig, protocol="exchange", params=params, hours=8.0, seed=1, data=data)
    (refusal,) = answer["refusals"]
    assert "kidney.give_back" in refusal["text"]
    assert "that of reglo.return expired on 2026-01-01 05:00 UTC" in refusal["text"]
    assert refusal["at_s"] > 6 * 3600.0
    assert [step["verb"] for step in answer["steps"]].count("kidney.give_back") == 1


def test_a_plan_begins_where_the_journal_ends_and_writes_nothing_there(tmp_path: Path) -> None:
    async def lived() -> dict[str, float]:
        lab = SimulatedLab(RIG, seed=2)
        async with controlled(lab, tmp_path) as controller:
            await asyncio.sleep(30.0)
            run = await controller.runs.start("partial-exchange", {"share": "40 %"}, "anna", "a test")
            await attended(controller.runs, run)
            controller.ledger.reconcile("reservoir", 21_000.0, 100.0, user="anna", reason="another bottle")
            await controller.runs.start("circulate", {}, "anna", "left running")
            await asyncio.sleep(10.0)
            return {name: volume.ul / 1000.0 for name, volume in controller.ledger.volumes().items()}

    believed = run_virtual(lived())
    before = (tmp_path / "journal.db").read_bytes()
    answer = plan(BENCH, protocol="partial-exchange", params={"share": "10 %"}, hours=0.5, seed=1, data=tmp_path)
    assert answer["feasible"], (answer["refusals"], answer["violations"])
    assert answer["from"] == "the journal"
    for name in ("reservoir", "loop", "spent", "waste"):
        assert answer["volumes"][name]["start_ml"] == pytest.approx(believed[name], abs=0.1), name
    assert answer["volumes"]["waste"]["start_ml"] > 14.0
    assert answer["fresh_medium_ml"] == pytest.approx(4.0, abs=1.0)
    more = plan(BENCH, protocol="partial-exchange", params={"share": "50 %"}, hours=0.5, seed=1, data=tmp_path)
    assert not more["feasible"]
    assert "“reservoir” could fall to" in more["refusals"][0]["text"]
    assert (tmp_path / "journal.db").read_bytes() == before


def test_a_folder_without_a_journal_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no journal in"):
        plan(BENCH, protocol="feed", params={}, hours=1.0, seed=1, data=tmp_path)


def test_a_rig_with_real_links_is_planned_on_its_twin(tmp_path: Path) -> None:
    rig = tmp_path / "real.yaml"
    ports: dict[str, int] = {}

    def real(link: re.Match[str]) -> str:
        return f"tcp://127.0.0.1:{ports.setdefault(link[0], 4001 + len(ports))}"

    text = re.sub(r"sim:(?!array)\w+", real, BENCH.read_text(encoding="utf-8"))
    rig.write_text(text.replace("name: bench", "name: bench\nmixed: true", 1), encoding="utf-8")
    answer = plan(rig, protocol="feed", params={}, hours=0.3, seed=1)
    assert answer["feasible"], (answer["refusals"], answer["violations"])
    assert answer["fresh_medium_ml"] == pytest.approx(2.0, abs=0.3)


def test_the_command_prints_json_and_says_no_by_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["plan", str(BENCH), "feed", "--hours", "0.2", "--json", "--svg", str(tmp_path / "p.svg")])
    assert status == 0
    assert json.loads(capsys.readouterr().out)["protocol"] == "feed"
    bad = tmp_path / "bad.yaml"
    bad.write_text("recipe: 1\nname: bad\ntitle: x\nsteps:\n  - gut.fed: 2 mL\n", encoding="utf-8")
    assert main(["plan", str(BENCH), str(bad)]) == 1
    assert "bad.yaml:5" in capsys.readouterr().err
    assert main(["simulate", str(BENCH), "--protocol", str(bad)]) == 1
    assert "Did you mean “gut.feed”?" in capsys.readouterr().err


ASKING = """recipe: 1
name: asking
title: It asks before it feeds
steps:
  - ask_operator: Look at the loop, then resume
  - ask_operator: {message: Lactate, answer: number, unit: mM, min: 0 mM, max: 20 mM, as: lactate}
  - ask_operator: {message: Look, answer: choice, choices: [clear, cloudy], default: cloudy, as: look}
  - if:
      condition: look == 'cloudy'
      then:
        - gut.feed: lactate / 10 mM * 1.5 mL
"""


def test_a_plan_answers_questions_with_their_defaults_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "asking.yaml"
    path.write_text(ASKING)
    answer = plan(BENCH, protocol=str(path), params={}, hours=0.5, seed=1)
    assert answer["feasible"], answer["refusals"]
    assert [(each["step"], each["answer"], each["because"]) for each in answer["assumed"]] == [
        (1, "assumed to be done", "the step asks for no answer"),
        (2, "10 mM", "the middle of the range"),
        (3, "cloudy", "the declared default"),
    ]
    assert {step["verb"]: step["ml"] for step in answer["steps"] if "ml" in step}["gut.feed"] == pytest.approx(
        1.5, abs=0.2
    )
    text = as_text(answer)
    assert "assumed answer to step 2 (Lactate): 10 mM (the middle of the range)" in text
    assert "step 3: answer cloudy by simulate" in text


def test_a_refusal_after_an_assumed_answer_names_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "asking.yaml"
    path.write_text(ASKING.replace("1.5 mL", "90 mL"))
    answer = plan(BENCH, protocol=str(path), params={}, hours=0.5, seed=1)
    assert not answer["feasible"]
    assert "assumed answer to step 2 (Lactate): 10 mM (the middle of the range)" in as_text(answer)

    async def start() -> str:
        async with controlled(SimulatedLab(RIG, seed=1), tmp_path) as controller:
            with pytest.raises(RunnerError) as caught:
                await controller.runs.start(of_file(path), {}, "anna", "a test")
            return str(caught.value)

    assert "The assumed answer to step 2 (Lactate): 10 mM (the middle of the range)." in run_virtual(start())
