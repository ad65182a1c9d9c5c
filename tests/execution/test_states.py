"""ISA-88 states: every pair of state and event, not only the legal ones (E1, E3)."""

from __future__ import annotations

import pytest

from controller.core.run_states import TRANSITIONS, IllegalTransition, RunEvent, RunState, after

LEGAL = {
    RunState.IDLE: {"start": "running"},
    RunState.RUNNING: {
        "pause": "holding",
        "fault": "holding",
        "stop": "stopping",
        "abort": "aborting",
        "recover": "restarting",
        "finished": "complete",
    },
    RunState.HOLDING: {"rested": "held", "abort": "aborting", "recover": "holding"},
    RunState.HELD: {"resume": "restarting", "stop": "stopping", "abort": "aborting", "recover": "held"},
    RunState.RESTARTING: {
        "restarted": "running",
        "pause": "holding",
        "fault": "holding",
        "stop": "stopping",
        "abort": "aborting",
        "recover": "restarting",
    },
    RunState.STOPPING: {"rested": "stopped", "abort": "aborting", "recover": "stopping"},
    RunState.ABORTING: {"rested": "aborted", "recover": "aborting"},
    RunState.STOPPED: {},
    RunState.ABORTED: {},
    RunState.COMPLETE: {},
}


@pytest.mark.parametrize("state", list(RunState))
@pytest.mark.parametrize("event", list(RunEvent))
def test_E1_every_pair(state: RunState, event: RunEvent) -> None:
    legal: dict[str, str] = LEGAL[state]
    if event.value in legal:
        assert after(state, event) == legal[event.value]
    else:
        with pytest.raises(IllegalTransition, match=state.value):
            after(state, event)


def test_E1_every_state_can_be_reached_and_left_unless_it_is_an_end() -> None:
    reached = {RunState.IDLE}
    while True:
        more = {to for (at, _), to in TRANSITIONS.items() if at in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(RunState)
    ends = {state for state in RunState if not any(at is state for at, _ in TRANSITIONS)}
    assert ends == {RunState.STOPPED, RunState.ABORTED, RunState.COMPLETE}
    assert all(state.ended == (state in ends) for state in RunState)


def test_E3_only_commands_lead_out_of_held() -> None:
    commands = {RunEvent.RESUME, RunEvent.STOP, RunEvent.ABORT}
    assert {event for (at, event), to in TRANSITIONS.items() if at is RunState.HELD and to is not at} == commands


def test_E1_the_error_tells_what_is_possible() -> None:
    with pytest.raises(IllegalTransition, match="abort, recover, resume, stop"):
        after(RunState.HELD, RunEvent.PAUSE)
