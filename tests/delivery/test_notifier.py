"""Escalation, flood, chatter, failing and hanging channels, daily tests and restarts, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.alarms.definitions import DEFINITIONS, URGENCY
from controller.alarms.states import AlarmState
from controller.delivery import notifier
from controller.delivery.channels import SEND_S
from controller.delivery.escalation import MAX_WAIT_S, MIN_WAIT_S, is_quiet, wait_s
from controller.delivery.notifier import day_to_test, moment_of_test
from controller.rig.notify import Quiet
from tests.delivery.desk import ANNA_BERT, CRITICAL, HIGH, LOW, MEDIUM, Desk, spec_of

HEART = ":".join(CRITICAL)
PH = ":".join(HIGH)
SOON_S = 5.0
"""Within this time of its raising, an alarm is with the first channel."""


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look less often, for tests of days."""
    monkeypatch.setattr(notifier, "LOOK_S", 10.0)


@asynccontextmanager
async def desk(**how: Any) -> AsyncIterator[Desk]:
    found = Desk(**how)
    try:
        yield found
    finally:
        await found.end()


@pytest.mark.virtual_time
async def test_L5_an_alarm_that_is_not_acknowledged_goes_to_the_next_step_and_is_repeated() -> None:
    async with desk() as d:
        at_s = await d.raise_now(CRITICAL)
        await d.live(3600)
        wait = wait_s(d.spec, "critical", CRITICAL[0])
        assert MIN_WAIT_S <= wait < DEFINITIONS[CRITICAL[0]].respond_within_s
        assert d["anna"].told(HEART)[0] - at_s < SOON_S
        first_bert = d["bert"].told(HEART)[0] - at_s
        assert wait <= first_bert < wait + SOON_S
        assert first_bert < DEFINITIONS[CRITICAL[0]].respond_within_s, "the second person has time to act too"
        assert 3 <= len(d["anna"].told(HEART)) <= 6
        assert [kind for kind, _ in d.rows if kind == "notice.sent"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("how", ["acknowledged", "return_to_normal_unacknowledged", "shelved"])
async def test_L5_escalation_stops_and_those_who_were_told_know_why(how: str) -> None:
    async with desk() as d:
        await d.raise_now(CRITICAL)
        await d.live(30)
        if how == "acknowledged":
            d.alarms.acknowledge(HEART, "anna")
        elif how == "shelved":
            d.alarms.shelve(HEART, 3600, "anna", "pump is being changed")
        else:
            d.present.clear()
        await d.live(3000)
        assert d["bert"].told(HEART) == []
        assert len(d["anna"].told(HEART)) == 1
        assert d["anna"].ends(HEART) == [how]
        if how == "acknowledged":
            assert "by anna" in d["anna"].got[-1][1].body


@pytest.mark.virtual_time
async def test_L5_an_undelivered_critical_alarm_escalates_at_once_and_the_channel_is_an_alarm() -> None:
    async with desk() as d:
        d["anna"].works = False
        at_s = await d.raise_now(CRITICAL)
        await d.live(60)
        assert d["bert"].told(HEART)[0] - at_s < 10.0
        assert "channel_failed:anna" in {each.id for each in d.alarms.active()}
        # A high alarm waits its turn: only what is critical goes on at once.
        other_s = await d.raise_now(HIGH)
        await d.live(60)
        assert d["bert"].told(PH) == []
        await d.live(1800)
        assert d["bert"].told(PH)[0] - other_s >= wait_s(d.spec, "high", HIGH[0])


@pytest.mark.virtual_time
async def test_L5_a_channel_that_hangs_keeps_no_other_waiting_and_counts_as_failed() -> None:
    async with desk() as d:
        d["anna"].hangs_s = 60.0
        at_s = await d.raise_now(CRITICAL)
        await d.live(SEND_S + 15)
        assert d["bert"].told(HEART)[0] - at_s < SEND_S + SOON_S + 3


@pytest.mark.virtual_time
async def test_L5_an_alarm_of_an_outage_is_delivered_afterwards_with_its_age() -> None:
    async with desk() as d:
        for channel in d.channels.values():
            channel.works = False
        await d.raise_now(CRITICAL, "the pump stands")
        await d.live(7200, step_s=10)
        for channel in d.channels.values():
            assert channel.attempts > 90, "a critical alarm is tried each minute, however long the outage"
            channel.works = True
        await d.live(70)
        message = d["anna"].got[0][1]
        assert message.data["alarms"][0]["age_s"] == pytest.approx(7230, abs=120)
        assert "2 h ago" in message.body
        assert "the pump stands" in message.body
        assert "CEST" in message.body
        await d.live(3700)
        assert "channel_failed:anna" not in {e.id for e in d.alarms.active() if e.state is AlarmState.UNACKNOWLEDGED}


@pytest.mark.virtual_time
async def test_L5_an_alarm_that_returned_during_the_outage_is_told_all_the_same_but_not_an_acknowledged_one() -> None:
    async with desk() as d:
        for channel in d.channels.values():
            channel.works = False
        await d.raise_now(CRITICAL)
        await d.raise_now(HIGH)
        d.alarms.acknowledge(PH, "anna")
        d.present.clear()
        await d.live(900)
        for channel in d.channels.values():
            channel.works = True
        await d.live(400)
        assert len(d["anna"].told(HEART)) + len(d["bert"].told(HEART)) >= 1
        told = d["anna"].got or d["bert"].got
        assert "cause is gone" in told[0][1].body
        assert d["anna"].told(PH) == d["bert"].told(PH) == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("working", [True, False])
async def test_L5_a_restart_loses_no_alarm_and_sends_none_twice(working: bool) -> None:
    async with desk() as d:
        d["anna"].works = working
        d["bert"].works = working
        await d.raise_now(CRITICAL)
        await d.live(20)
        await d.end()
        d.begin()
        d["anna"].works = d["bert"].works = True
        await d.live(60)
        assert len(d["anna"].told(HEART)) == 1
        assert d["bert"].told(HEART) == [] or not working


@pytest.mark.virtual_time
async def test_L5_a_lost_journal_loses_no_undelivered_alarm() -> None:
    async with desk() as d:
        d["anna"].works = d["bert"].works = False
        await d.raise_now(CRITICAL)
        await d.live(10)
        await d.end()
        d.present.clear()
        d.alarms = type(d.alarms)(d.record, d.clock.utc_text)  # nothing is known of what was
        d.begin()
        d["anna"].works = d["bert"].works = True
        await d.live(120)
        assert d["anna"].told(HEART)
        await d.live(3000)
        assert HEART not in d.memory.notes, "and then it is forgotten"


@pytest.mark.virtual_time
async def test_D2_a_full_disk_silences_no_channel() -> None:
    async with desk() as d:
        d.memory.full = True
        await d.raise_now(CRITICAL)
        await d.live(60)
        assert d["anna"].told(HEART)
        assert "channel_failed:outbox" in {each.id for each in d.alarms.active()}


@pytest.mark.virtual_time
async def test_L3_a_chattering_source_makes_few_messages_in_a_day(coarse: None) -> None:
    async with desk() as d:
        for _ in range(24 * 30):  # a day: twenty seconds here, a hundred away
            d.present[HIGH] = "no reply"
            await d.live(40, step_s=5)
            d.present.clear()
            await d.live(80, step_s=5)
        assert 1 <= len(d["anna"].got) < 40
        assert len(d["bert"].got) < 40


@pytest.mark.virtual_time
async def test_L3_a_flood_is_summarised_and_the_critical_alarm_in_it_comes_first() -> None:
    async with desk() as d:
        for n in range(60):
            d.alarms.event("command_failed", f"relay.x{n}", "no answer")
            if n == 30:
                d.present[CRITICAL] = "the heart stands"
            await d.live(2)
        await d.live(600)
        messages = [message for _, message in d["anna"].got]
        assert len(messages) < 15, "sixty alarms are not sixty messages"
        flood = [message for message in messages if "ALARM FLOOD" in message.body]
        assert flood
        told = {each["id"] for message in messages for each in message.data["alarms"]}
        assert len(told) == 61, "nothing is left out of the data"
        (first,) = [message for message in messages if HEART in {e["id"] for e in message.data["alarms"]}][:1]
        assert first.title.startswith("[critical]")
        assert max(len(message.body) for message in messages) < 6000


@pytest.mark.virtual_time
async def test_L3_priorities_go_where_they_belong(coarse: None) -> None:
    async with desk() as d:
        for cause in (MEDIUM, LOW):
            await d.raise_now(cause)
        await d.live(200_000, step_s=30)
        assert d["anna"].told(":".join(MEDIUM))
        assert d["anna"].told(":".join(LOW))
        assert d["bert"].got == []


QUIET = spec_of(
    channels={"anna": {"url_env": "A", "min_priority": "low", "quiet": {"from": "22:00", "to": "07:00"}}},
    test_at="12:00",
)


@pytest.mark.virtual_time
async def test_L3_quiet_hours_hold_back_what_is_not_critical_until_they_end(coarse: None) -> None:
    begin = datetime(2026, 5, 4, 21, 0, tzinfo=UTC)  # 23:00 in Berlin
    async with desk(spec=QUIET, epoch=begin) as d:
        await d.raise_now(HIGH)
        await d.live(3600)
        assert d["anna"].got == []
        at_s = await d.raise_now(CRITICAL)
        await d.live(60)
        assert d["anna"].told(HEART)[0] - at_s < 25.0
        assert d["anna"].told(PH) == []
        d.alarms.acknowledge(HEART, "anna")
        await d.live(8 * 3600, step_s=15)
        (at_s,) = d["anna"].told(PH)[:1]
        local = (begin + timedelta(seconds=at_s - d.clock._start_s)).astimezone(ZoneInfo("Europe/Berlin"))
        assert (local.hour, local.minute) == (7, 0)


@given(st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2027, 1, 1)))  # noqa: DTZ001  (a local time)
def test_L3_quiet_hours_over_midnight(local: datetime) -> None:
    over = Quiet.model_validate({"from": "22:00", "to": "07:00", "days": ["fri"]})
    expected = (local.weekday() == 4 and local.time() >= time(22)) or (local.weekday() == 5 and local.time() < time(7))
    assert is_quiet(over, local) is expected
    assert not is_quiet(None, local)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_L5_every_step_comes_before_the_time_to_respond_is_over(kind: str) -> None:
    definition = DEFINITIONS[kind]
    wait = wait_s(ANNA_BERT, definition.priority, kind)
    assert wait <= MAX_WAIT_S[definition.priority]
    assert 2 * wait <= max(definition.respond_within_s, 2 * MIN_WAIT_S)
    assert definition.priority in URGENCY


# --- the daily test ----------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_L6_every_channel_is_tested_each_day_at_its_local_time_also_over_the_change_of_the_clock(
    coarse: None,
) -> None:
    begin = datetime(2026, 3, 27, 10, 0, tzinfo=UTC)  # two days before Berlin goes to summer time
    async with desk(epoch=begin) as d:
        await d.live(5 * 86_400, step_s=60)
        local = [at.astimezone(ZoneInfo("Europe/Berlin")) for at, _ in d["anna"].tests]
        assert [(at.day, at.hour, at.minute) for at in local] == [
            (28, 9, 0),
            (29, 9, 0),
            (30, 9, 0),
            (31, 9, 0),
            (1, 9, 0),
        ]
        assert len(d["bert"].tests) == 5
        results = [body for kind, body in d.rows if kind == "notice.tested"]
        assert len(results) == 10
        assert all(body["ok"] for body in results)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("at", [time(2, 30), time(1, 45), time(0, 0), time(9, 0)])
def test_L6_each_local_day_of_a_year_has_exactly_one_test(zone: str, at: time) -> None:
    where = ZoneInfo(zone)
    now, tested, days = (
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 1, 1, 12, tzinfo=UTC).astimezone(where).date(),
        [],
    )
    while now < datetime(2027, 1, 3, tzinfo=UTC):
        now += timedelta(minutes=15)
        day = day_to_test(now, tested, at, where)
        if day is not None:
            assert now - moment_of_test(day, at, where) < timedelta(minutes=15)
            days.append(day)
            tested = day
    assert len(days) == len(set(days))
    assert (days[-1] - days[0]).days == len(days) - 1, "no day is left out"


@pytest.mark.virtual_time
async def test_L6_a_channel_that_fails_its_test_is_an_alarm_that_others_are_told_of(coarse: None) -> None:
    async with desk(tested=False) as d:
        d["bert"].works = False
        await d.live(120)
        assert [body["ok"] for kind, body in d.rows if kind == "notice.tested"] == [True, False]
        assert "channel_failed:bert" in {each.id for each in d.alarms.active()}
        assert d["anna"].told("channel_failed:bert")
        attempts = d["bert"].attempts
        await d.live(6 * 3600, step_s=10)
        assert d["bert"].attempts - attempts < 100, "a dead channel is not hammered"
        d["bert"].works = True
        await d.live(3700)
        assert not d.notifier.causes()


@pytest.mark.virtual_time
async def test_L6_a_person_can_test_at_any_time() -> None:
    async with desk() as d:
        await d.live(5)
        d["anna"].works = False
        found = await d.notifier.test("carla")
        assert [(each["name"], each["ok"]) for each in found] == [("anna", False), ("bert", True)]
        assert {body.get("user") for kind, body in d.rows if kind == "notice.tested"} == {"carla"}
