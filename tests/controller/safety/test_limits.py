"""The limits of a rig with a watchdog relay (docs/watchdog-relay.md)."""

from __future__ import annotations

import pytest

from controller.safety.kernel import decide
from controller.safety.limits import limits_of
from controller.safety.terms import Intent, Limits
from drivers.commands import Command, Switch
from tests.controller.safety.decisions import changed_rig
from tests.controller.safety.facts import peace

RELAY = "relay.dosing_power"


@pytest.fixture
def limits() -> Limits:
    return limits_of(
        changed_rig(
            ('"1": {point: return_valve}\n', '"1": {point: return_valve}\n      "2": {point: dosing_power}\n'),
            ("\nsafety:\n", f"\nsafety:\n  watchdog: {{relay: {RELAY}, hold: 9 s, feeds: [dose_fresh, dose_base]}}\n"),
        )
    )


@pytest.mark.parametrize(
    ("command", "accepted"), [(Switch(True, 9.0), True), (Switch(True), False), (Switch(False), True)]
)
def test_the_watchdog_relay_is_closed_for_a_limited_time_only(command: Command, accepted: bool, limits: Limits) -> None:
    verdict = decide(Intent(RELAY, command, "controller", "renew the watchdog"), peace(), limits)
    assert verdict.accepted is accepted, verdict.reasons
    assert not accepted or verdict.command == command


def test_the_basal_state_of_the_watchdog_relay_is_open(limits: Limits) -> None:
    assert limits.basal[RELAY] == Switch(False)
