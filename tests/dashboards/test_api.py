"""The HTTP API over the small controller: what is shown, what is done, and how it says no."""

from __future__ import annotations

import asyncio
import math

import pytest

from controller.alarms.states import AlarmState
from controller.rig.schematic import describe
from dashboards.auth import Role
from dashboards.routes.rig import thinned
from tests.dashboards.fake_rig import FakeController
from tests.dashboards.world import World, world

pytestmark = pytest.mark.virtual_time


async def test_D6_health_fails_when_the_loop_has_not_ticked() -> None:
    async with world() as w, w.http() as unknown:
        good = await unknown.get("/health")
        assert good.status_code == 200
        assert good.json() == {"ok": True, "reasons": [], "tick_age_s": 0.4}
        w.controller.ticking = False
        bad = await unknown.get("/health")
        assert bad.status_code == 503
        assert "has not ticked" in bad.json()["reasons"][0]


async def test_a_controller_that_is_still_starting_says_so() -> None:
    async with world() as w:
        w.controller.started = False
        async with w.http(Role.VIEWER) as viewer:
            answer = await viewer.get("/api/state")
            assert answer.status_code == 503
            assert "starting" in answer.json()["error"]["what"]
            assert (await viewer.get("/health")).status_code == 200
        w.controller.started = True


async def test_the_rig_answer_has_everything_that_the_schematic_needs() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        rig = (await viewer.get("/api/rig")).json()
        assert rig["name"] == "bench"
        assert rig["role"] == "viewer"
        assert rig["schematic"] == describe(w.controller.rig)
        assert {goal["point"]: goal["high"] for goal in rig["goals"]}["p_filter.pressure"] == 80.0
        # The keys that the page's layout reads; a change of the description needs a change of the page.
        vessel, line, probe = (rig["schematic"][part][0] for part in ("vessels", "lines", "probes"))
        assert vessel.keys() >= {"name", "kind", "contains", "capacity_ul", "floor_ul", "ceiling_ul", "organoid"}
        assert line.keys() >= {"name", "from", "to", "pump", "valve", "filter", "passive", "organ"}
        assert probe.keys() >= {"point", "model", "quantity", "unit", "at"}
        assert rig["schematic"]["gas"].keys() >= {"air", "co2", "o2", "vessel"}


async def test_state_carries_unit_quality_and_time_of_each_reading() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        w.controller.failing["ph_loop.ph"] = "no reply"
        w.controller.moving.add("balance.mass")
        w.controller.tick()
        state = (await viewer.get("/api/state")).json()
        assert state["readings"]["ph_loop.ph"]["quality"] == "missing"
        assert state["readings"]["ph_loop.ph"]["detail"] == "no reply"
        assert state["readings"]["t_chamber.temperature"]["unit"] == "degC"
        assert [
            (r["quality"], r["stable"])
            for r in (state["readings"][n] for n in ("balance.mass", "t_chamber.temperature"))
        ] == [
            ("good", False),
            ("good", True),
        ]
        heart = state["actuators"]["reglo.heart"]
        assert heart["status"] == {"kind": "pump", "on": True, "flow_ul_min": 2000.0, "delivered_ul": 0.0}
        assert heart["basal"] == {"verb": "run", "flow_ul_min": 1000.0}
        assert heart["guarantee"] == "guard"
        assert heart["fault"] == ""


async def test_an_actuator_that_does_not_answer_shows_why_and_its_last_value() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        w.controller.lost["reglo.heart"] = "reglo: no reply in 1.0 s"
        w.controller.tick()
        heart = (await viewer.get("/api/state")).json()["actuators"]["reglo.heart"]
        assert heart["fault"] == "reglo: no reply in 1.0 s"
        assert heart["status"]["on"] is True


async def test_history_is_thinned_and_keeps_its_peaks() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        answer = (await viewer.get("/api/history?point=ph_loop.ph&seconds=7200&max_points=50")).json()
        assert answer["unit"] == "pH"
        assert len(answer["rows"]) == 50
        end = w.controller.clock.utc().timestamp()
        fine = w.controller.history.query("ph_loop.ph", end - 7200, end + 1, 4000)
        assert min(row[2] for row in answer["rows"]) == min(row.least for row in fine)
        assert max(row[3] for row in answer["rows"]) == max(row.most for row in fine)
        assert thinned(fine[:3], 50) == [(row.at, row.mean, row.least, row.most) for row in fine[:3]]


async def test_a_point_that_was_read_but_not_kept_yet_has_an_empty_history() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        w.controller.history.series = dict  # type: ignore[method-assign]
        answer = await viewer.get("/api/history?point=ph_loop.ph")
        assert answer.status_code == 200
        assert answer.json()["unit"] == "pH"


async def test_protocols_name_units_and_ranges() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        found = {each["name"]: each for each in (await viewer.get("/api/protocols")).json()["protocols"]}
        batch = next(param for param in found["recycle"]["params"] if param["name"] == "batch")
        assert batch["unit"] == "uL"
        assert batch["low"] < batch["default"] < batch["high"]


async def started(w: World) -> str:
    async with w.http(Role.OPERATOR) as operator:
        answer = await operator.post(
            "/api/runs", json={"protocol": "recycle", "params": {"batch": "12 mL"}, "reason": "weekly trial"}
        )
    assert answer.status_code == 201, answer.text
    assert answer.json()["params"]["batch_ul"] == 12_000.0
    found: str = answer.json()["id"]
    return found


async def test_a_run_is_started_held_resumed_and_aborted_with_who_and_why() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        run = await started(w)
        await asyncio.sleep(20)
        paused = await operator.post(f"/api/runs/{run}/pause", json={"reason": "lunch"})
        assert paused.json()["state"] == "holding"
        await asyncio.sleep(20)
        assert (await operator.get(f"/api/runs/{run}")).json()["state"] == "held"
        again = await operator.post(f"/api/runs/{run}/pause", json={"reason": ""})
        assert again.status_code == 409
        assert again.json()["error"]["action"] == "abort, recover, resume, stop"
        await operator.post(f"/api/runs/{run}/resume", json={"reason": "back"})
        await asyncio.sleep(20)
        assert (await operator.get("/api/runs")).json()["runs"][0]["state"] == "running"
        await operator.post(f"/api/runs/{run}/abort", json={"reason": "enough"})
        await asyncio.sleep(20)
        assert (await operator.get(f"/api/runs/{run}")).json()["ended"] is True
        rows = [row.body for row in w.controller.journal.rows if row.kind.startswith("run.") and "user" in row.body]
        assert [(row["user"], row["reason"]) for row in rows] == [
            ("a operator", "weekly trial"), ("a operator", "lunch"), ("a operator", "back"), ("a operator", "enough"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"protocol": "recycel"}, 404, "recycle"),
        ({"protocol": "recycle", "params": {"batch": "12"}}, 422, "unit"),
        ({"protocol": "recycle", "params": {"batch": "12 mL/min"}}, 422, "mL"),
        ({"protocol": "recycle", "params": {"batch": "12 L"}}, 422, "range"),
        ({"protocol": "recycle", "params": {"bach": "12 mL"}}, 422, "batch"),
        ({"protocol": "recycle", "surprise": 1}, 422, "extra"),
        ({"protocol": "../../etc/passwd"}, 404, "no protocol"),
    ],
)
async def test_a_start_that_makes_no_sense_is_answered_in_words(body: object, status: int, says: str) -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        answer = await operator.post("/api/runs", json=body)
        assert answer.status_code == status
        error = answer.json()["error"]
        assert error.keys() == {"what", "where", "cause", "action"}
        assert says in " ".join(error.values()).lower() or says in " ".join(error.values())
        assert w.controller.runs.list() == []


async def test_a_second_run_is_refused_while_one_is_active() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        await started(w)
        answer = await operator.post("/api/runs", json={"protocol": "exchange"})
        assert answer.status_code == 409
        assert answer.json()["error"]["action"] == "wait until it has ended, or abort it"


async def test_alarms_tell_consequence_and_response_and_are_acknowledged_once_seen() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        w.controller.alarms.event("device_lost", "ph_loop", "no reply")
        (alarm,) = (await operator.get("/api/alarms")).json()["alarms"]
        assert alarm["consequence"]
        assert alarm["response"]
        assert alarm["respond_within"]
        seen = await operator.post(f"/api/alarms/{alarm['id']}/acknowledge", json={"reason": "cable was loose"})
        assert seen.json()["state"] == AlarmState.ACKNOWLEDGED
        assert seen.json()["acknowledged_by"] == "a operator"
        last = w.controller.journal.rows[-1]
        assert (last.kind, last.body["reason"]) == ("alarm.reason", "cable was loose")
        missing = await operator.post("/api/alarms/device_lost:nothing/acknowledge", json={})
        assert missing.status_code == 404


async def test_A9_a_stop_is_answered_though_a_device_does_not_confirm_and_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dashboards.routes.safety.CONFIRM_S", 0.2)
    async with world() as w, w.http(Role.OPERATOR) as operator:
        hung, done = asyncio.Event(), asyncio.Event()

        async def stop(who: str, reason: str) -> None:
            w.controller.gate.emergency = f"{who}: {reason}"
            await hung.wait()
            done.set()

        w.controller.emergency_stop = stop  # type: ignore[method-assign]
        stopped = (await operator.post("/api/estop", json={"reason": "smoke"})).json()
        assert stopped == {"emergency": "a operator: smoke", "confirmed": False}
        hung.set()
        async with asyncio.timeout(5.0):
            await done.wait()


async def test_I5_an_emergency_stop_latches_and_its_reset_needs_a_reason() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        stopped = await operator.post("/api/estop", json={})
        assert stopped.json()["emergency"].startswith("a operator")
        empty = await operator.post("/api/estop/reset", json={"reason": "   "})
        assert empty.status_code == 422
        assert w.controller.gate.emergency is not None
        over = await operator.post("/api/estop/reset", json={"reason": "line replaced"})
        assert over.json() == {"emergency": None, "confirmed": True}
        assert w.controller.journal.rows[-1].body == {"user": "a operator", "reason": "line replaced"}


async def test_speed_exists_only_for_simulated_rigs_and_is_recorded() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        assert (await operator.put("/api/speed", json={"speed": 10, "reason": "hurry"})).json() == {"speed": 10.0}
        row = w.controller.journal.rows[-1].body
        assert (row["user"], row["old"], row["new"], row["reason"]) == ("a operator", 1.0, 10.0, "hurry")
        for wrong in (0.5, 601, "NaN", "fast", None):
            assert (await operator.put("/api/speed", json={"speed": wrong})).status_code == 422
    async with world(simulated=False) as w, w.http(Role.OPERATOR) as operator:
        assert (await operator.get("/api/speed")).status_code == 404
        assert (await operator.put("/api/speed", json={"speed": 10})).status_code == 404


async def test_books_show_ledger_grade_viability_and_journal() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        ledger = (await viewer.get("/api/ledger")).json()
        assert ledger["scheduled_ml"] == pytest.approx(20.0 * ledger["days"])
        assert ledger["saved_fraction"] == pytest.approx(1.0 - 41.2 / ledger["scheduled_ml"])
        assert ledger["mass_balance_error_ml"] == pytest.approx(-0.12)
        of_it, of_spent = 0.060, 0.020 + 0.002 * 3.0
        bound = 3.0 * math.hypot(of_it, of_spent)
        assert ledger["mass_balance_uncertainty_ml"] == pytest.approx(bound), (
            "three deviations, the bottles' fill not in them"
        )
        assert (ledger["bound_ml"], ledger["bound_ratio"]) == (None, None), "nothing was estimated"
        estimate = {"lactate_umol_d": {"value": 60.0}, "loop": {"lactate_mm": {"value": 6.0}}}
        w.controller.journal.append("estimate", {"estimate": estimate, "inputs": {"loop_ul": 42_000.0}})
        await asyncio.sleep(61.0)
        told = (await viewer.get("/api/ledger")).json()
        assert told["bound_ml"] == pytest.approx(60.0 * told["days"] / 10.0 - 42.0, abs=0.01), (
            "720 µmol at 10 mM at most"
        )
        assert told["bound_ratio"] == pytest.approx(told["fresh_ml"] / told["bound_ml"])
        assert (await viewer.get("/api/grade")).json() == {"grade": None}
        await started(w)
        await asyncio.sleep(400)
        graded = (await viewer.get("/api/grade")).json()["grade"]
        assert graded["grade"] == "B"
        assert graded["limiting"] in graded["variables"]
        scores = (await viewer.get("/api/viability")).json()
        assert scores["care_rating"]["label"] == "care-quality proxy, not evidence of feeling"
        assert (
            scores["viability"]["label"] == "estimate of the tissue's condition for its care, not evidence of feeling"
        )
        assert scores["viability"]["low"] <= scores["viability"]["value"] <= scores["viability"]["high"]
        entries = (await viewer.get("/api/audit?limit=5")).json()["entries"]
        assert entries[0]["seq"] > entries[-1]["seq"]
        assert len(entries) <= 5


async def test_decisions_tell_grade_choice_cost_and_the_reason_as_it_was_written() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        assert (await viewer.get("/api/decisions")).json() == {"decisions": [], "retreat": None}
        await started(w)
        await asyncio.sleep(700)
        (first,) = (await viewer.get("/api/decisions")).json()["decisions"]
        (row,) = [row for row in w.controller.journal.rows if row.kind == "note.recycle"]
        assert (first["seq"], first["utc"]) == (row.seq, row.utc)
        assert first["reason"] == row.body["decision"]["reason"]
        assert (first["action"], first["grade"], first["limiting"]) == ("dilute", "B", "lactate_mm")
        assert first["eur"] == pytest.approx(4.652)
        assert (first["drawn_ml"], first["fresh_ml"], first["dialysate_ml"]) == (18.0, 3.6, 0.0)
        assert [other["action"] for other in first["others"]] == ["return", "condition", "discard"]
        assert first["others"][0]["refused"]
        # The grade's own reasons come with it, and those of no other cycle.
        graded = next(row for row in w.controller.journal.rows if row.kind == "note.grade" and row.run == first["run"])
        assert first["grade_reasons"] == graded.body["reasons"]
        w.controller.journal.append(
            "note.grade", {**graded.body, "cycle": 13, "reasons": ["another"]}, run=first["run"]
        )
        w.controller.journal.append("note.recycle", {**row.body, "cycle": 14}, run=first["run"])
        newest, older = (await viewer.get("/api/decisions")).json()["decisions"]
        assert (newest["cycle"], newest["grade_reasons"]) == (14, [])
        assert older == first
        assert len((await viewer.get("/api/decisions?limit=1")).json()["decisions"]) == 1
        assert (await viewer.get("/api/decisions?limit=0")).status_code == 422


async def test_the_story_of_the_journal_leaves_out_what_regulators_do_all_day() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        w.controller.journal.append("act", {"actuator": "relay.heater"})
        story = (await viewer.get("/api/audit")).json()["entries"]
        everything = (await viewer.get("/api/audit?rows=all")).json()["entries"]
        assert "act" not in {row["kind"] for row in story}
        assert "act" in {row["kind"] for row in everything}


@pytest.mark.parametrize("path", ["/api/nothing", "/api/runs/run-99", "/api/history?point=ph_loop.ph%27%3B--"])
async def test_what_is_not_there_is_said_with_a_next_step(path: str) -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        answer = await viewer.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["action"]


async def test_an_answer_about_a_defect_shows_no_internals() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:

        def broken(self: FakeController) -> None:
            raise RuntimeError("secret /home/user/data")

        w.controller.last_grade = broken.__get__(w.controller)  # type: ignore[method-assign]
        answer = await viewer.get("/api/grade")
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert "RuntimeError" in answer.json()["error"]["cause"]


async def test_the_retreat_of_the_present_run_is_told_until_it_ends() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        await started(w)
        assert (await viewer.get("/api/decisions")).json()["retreat"] is None
        active = w.controller.runs.active
        assert active is not None
        row = {"where": "tissue", "text": "the tissue lost 0.1. Next: look", "exchanged_ul_d": 20_000.0}
        w.controller.journal.append("note.recycle_retreat", row, run="an earlier run")
        assert (await viewer.get("/api/decisions")).json()["retreat"] is None
        seq = w.controller.journal.append("note.recycle_retreat", row, run=active.id)
        told = (await viewer.get("/api/decisions")).json()["retreat"]
        assert (told["seq"], told["run"], told["exchanged_ml_d"]) == (seq, active.id, 20.0)
        w.controller.journal.append("note.recycle_resumed", {"where": "tissue", "text": "well"}, run=active.id)
        assert (await viewer.get("/api/decisions")).json()["retreat"] is None
        w.controller.journal.append("note.recycle_retreat", row, run=active.id)
        assert (await viewer.get("/api/decisions")).json()["retreat"] is not None
        await w.controller.runs.abort(active.id, "anna", "a test")
        await asyncio.sleep(600)
        assert w.controller.runs.active is None
        assert (await viewer.get("/api/decisions")).json()["retreat"] is None
