"""Alarms, runs, people and faults, told from journal rows with answers known beforehand."""

from __future__ import annotations

from controller.figures.alarm_record import alarm_figures
from controller.figures.story import faults, grades, person_actions, runs, scores
from controller.figures.transfers import transfers
from tests.figures.bench import BEGIN, Rows

HOUR = 3600.0
BACK = "alarm.return_to_normal_unacknowledged"


def test_an_alarm_has_its_count_its_wait_and_whether_it_stands() -> None:
    rows = Rows()
    for begun in (0.0, 2 * HOUR):
        rows.add("alarm.raised", {"alarm": "temperature:t", "priority": "critical", "detail": "39"}, at_s=begun)
        rows.add("alarm.acknowledged", {"alarm": "temperature:t", "user": "Ada"}, at_s=begun + 600 * (1 + begun / HOUR))
        rows.add("alarm.normal", {"alarm": "temperature:t"}, at_s=begun + HOUR)
    rows.add("alarm.raised", {"alarm": "slow_loop:c", "priority": "medium", "detail": "late"}, at_s=5 * HOUR)
    first, second = alarm_figures(rows.rows, BEGIN, BEGIN + 6 * HOUR)
    assert (first.alarm, first.count, first.acknowledged, first.standing) == ("temperature:t", 2, 2, False)
    assert (first.median_ack_s, first.longest_ack_s) == (1200.0, 1800.0)
    assert first.within_s == 900.0
    assert first.late == 1
    assert first.present_s == 2 * HOUR
    assert (second.alarm, second.standing, second.acknowledged, second.median_ack_s) == ("slow_loop:c", True, 0, None)
    assert second.present_s == HOUR


def test_an_alarm_that_came_back_before_anybody_looked_is_one_with_two_causes() -> None:
    rows = Rows()
    for kind in ("alarm.raised", BACK, "alarm.unacknowledged", BACK):
        rows.add(kind, {"alarm": "gas_mixture:g", "priority": "critical", "detail": ""}, at_s=60.0 * len(rows.rows))
    (found,) = alarm_figures(rows.rows, BEGIN, BEGIN + HOUR)
    assert (found.count, found.times, found.standing) == (1, 2, True)


def test_a_restart_ends_what_stood_and_what_was_over_before_the_period_is_not_told() -> None:
    rows = Rows()
    rows.add("alarm.raised", {"alarm": "run_held:1", "priority": "high", "detail": ""}, at_s=0.0)
    rows.add("controller.started", {}, at_s=HOUR)
    assert alarm_figures(rows.rows, BEGIN + 2 * HOUR, BEGIN + 3 * HOUR) == []
    (found,) = alarm_figures(rows.rows, BEGIN, BEGIN + 3 * HOUR)
    assert not found.standing
    assert found.present_s == HOUR


def test_a_run_has_its_steps_and_its_holds_within_the_period() -> None:
    rows = Rows()
    rows.add("run.start", {"protocol": "recycle", "user": "Ada", "reason": "Monday"}, at_s=0.0, run="run-1")
    for at_s, event in ((0.0, "running"), (HOUR, "holding"), (HOUR + 5, "held"), (3 * HOUR, "running")):
        rows.add("run.state", {"event": "", "from": "", "to": event}, at_s=at_s, run="run-1")
    rows.add("run.message", {"text": "the balance is silent"}, at_s=2.5 * HOUR, run="run-1")
    rows.add("step", {"n": 1}, at_s=2.6 * HOUR, run="run-1")
    rows.add("step.done", {"n": 1}, at_s=2.7 * HOUR, run="run-1")
    rows.add("step", {"n": 2}, at_s=4 * HOUR, run="run-1")
    (run,) = runs(rows.rows, BEGIN + 2 * HOUR, BEGIN + 5 * HOUR)
    assert (run.protocol, run.user, run.steps, run.done, run.ended) == ("recycle", "Ada", 2, 1, None)
    assert run.held == [(BEGIN + 2 * HOUR, BEGIN + 3 * HOUR)]
    assert run.messages == [(BEGIN + 2.5 * HOUR, "the balance is silent")]
    (still,) = runs(rows.rows, BEGIN, BEGIN + 2 * HOUR)
    assert still.state == "held"
    assert still.held == [(BEGIN + HOUR, BEGIN + 2 * HOUR)]


def test_a_run_that_ended_before_the_period_is_not_told() -> None:
    rows = Rows()
    rows.add("run.start", {"protocol": "feed"}, at_s=0.0, run="run-1")
    rows.add("run.state", {"to": "complete"}, at_s=60.0, run="run-1")
    assert runs(rows.rows, BEGIN + HOUR, BEGIN + 2 * HOUR) == []
    assert runs(rows.rows, BEGIN, BEGIN + HOUR)[0].ended == BEGIN + 60.0


def test_people_are_told_with_what_they_did_and_why() -> None:
    rows = Rows()
    refill = {"vessel": "reservoir", "ul": 500_000.0, "change_ul": 480_000.0, "user": "Ada", "reason": "new bottle"}
    rows.add("ledger.reconciled", refill, at_s=1.0)
    rows.add("safety.clear", {"interlock": "temperature"}, at_s=2.0)
    rows.add("assay", {"user": "Bo", "text": "8.2 mM", "used": True, "analyte": "lactate"}, at_s=3.0)
    first, second = person_actions(rows.rows)
    assert (first.who, first.what, first.why) == ("Ada", "set reservoir to 500.00 mL (+480.00 mL)", "new bottle")
    assert second.who == "Bo"
    assert "analyte lactate" in second.what


def test_faults_are_sorted_and_counted_when_there_are_too_many() -> None:
    rows = Rows()
    rows.add("controller.started", {"rig": "bench", "rig_hash": "abc", "version": "0.1.0"}, at_s=0.0)
    rows.add("safety.trip", {"interlock": "temperature", "point": "t", "detail": "39 degC"}, at_s=1.0)
    rows.add("act.outcome", {"actuator": "a.b", "error": "no reply"}, at_s=2.0)
    rows.add("act.outcome", {"act": 3, "status": {}}, at_s=2.5)
    for _ in range(203):
        refused = {"actuator": "a.b", "command": "run", "by": "run:1", "reasons": ["too full"]}
        rows.add("act.refused", refused, at_s=3.0)
    found = faults(rows.rows)
    assert found.trips == [(BEGIN + 1.0, "temperature on t: 39 degC")]
    assert found.failures == [(BEGIN + 2.0, "a.b: no reply")]
    assert (len(found.refusals), found.untold) == (200, 3)
    assert found.starts == [(BEGIN, "bench", "abc", "0.1.0")]


def test_a_grade_is_read_with_its_reasons() -> None:
    rows = Rows()
    rows.add("note.grade", {"grade": "B", "confidence": 0.7, "limiting": "ph", "reasons": ["7.2"]}, at_s=0.0)
    (grade,) = grades(rows.rows)
    assert (grade.grade, grade.limiting, grade.reasons) == ("B", "ph", ("7.2",))


ESTIMATE = {
    "value": 0.93, "low": 0.86, "high": 0.97, "version": "viability-3", "measured": ["pH"], "unmeasured": ["LDH"],
    "causes": {}, "sentences": ["No harm or loss seen."],
}  # fmt: skip
RATING = {"score": 0.2, "low": 0.2, "high": 1.0, "coverage": 0.2, "limiting": "ldh", "version": "care-rating-3"}


def test_estimate_and_care_rating_are_read() -> None:
    rows = Rows()
    rows.add("scores", {"viability": ESTIMATE, "care_rating": RATING, "welfare": {"score": 1.0}}, at_s=1.0)
    rows.add("scores", {"viability": None, "care_rating": RATING, "welfare": {"score": 1.0}}, at_s=2.0)
    found = scores(rows.rows)
    assert [(each.low, each.score, each.high, each.coverage) for each in found.viability] == [(0.86, 0.93, 0.97, 0.5)]
    assert [each.score for each in found.care_rating] == [0.2] * 2


def test_a_transfer_is_put_together_from_its_two_rows() -> None:
    rows = Rows()
    rows.add("step.act", {"n": 2, "act": 1, "line": "draw", "flow_ul_min": 4000.0}, at_s=10.0, run="run-1")
    moved = {"line": "draw", "ul": 900.0, "sd_ul": 9.0, "source": "balance", "asked_ul": 1000.0, "end": "done"}
    rows.add("moved", {**moved, "n": 2, "act": 1}, at_s=40.0, run="run-1")
    rows.add("moved", {"line": "feed", "ul": 5.0, "sd_ul": 1.0, "source": "person"}, at_s=50.0)
    first, second = transfers(rows.rows)
    assert (first.begin, first.end, first.flow_ul_min, first.weighed) == (BEGIN + 10, BEGIN + 40, 4000.0, True)
    assert (second.begin, second.asked_ul, second.weighed) == (None, None, False)
