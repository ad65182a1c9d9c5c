"""The states of a run, with their ISA-88 names, and all legal transitions between them (E1).

A transition that is not in the table is refused. Only an explicit command leaves `held` (E3).
"""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """ISA-88 states of a procedure."""

    IDLE = "idle"
    RUNNING = "running"
    HOLDING = "holding"
    HELD = "held"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ABORTING = "aborting"
    ABORTED = "aborted"
    COMPLETE = "complete"

    @property
    def ended(self) -> bool:
        """Whether the run has ended for good."""
        return self in (RunState.STOPPED, RunState.ABORTED, RunState.COMPLETE)


class RunEvent(StrEnum):
    """Triggers of transitions: first the commands of people, then the reports of the run itself."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    ABORT = "abort"
    FAULT = "fault"
    """A person is needed: a refusal that will not pass, or an unknown outcome."""
    RECOVER = "recover"
    """The controller has restarted."""
    RESTED = "rested"
    """All outputs have come to rest as commanded, by readback."""
    RESTARTED = "restarted"
    FINISHED = "finished"


class IllegalTransition(Exception):
    """The command is not legal in the run's present state."""

    def __init__(self, state: RunState, event: RunEvent) -> None:
        legal = ", ".join(sorted(known for at, known in TRANSITIONS if at == state)) or "none: the run has ended"
        super().__init__(
            f"a run that is {state} cannot take “{event}”. Likely cause: it moved on meanwhile. Next: {legal}"
        )
        self.state = state
        self.event = event


_S, _E = RunState, RunEvent

TRANSITIONS: dict[tuple[RunState, RunEvent], RunState] = {
    (_S.IDLE, _E.START): _S.RUNNING,
    (_S.RUNNING, _E.PAUSE): _S.HOLDING,
    (_S.RUNNING, _E.FAULT): _S.HOLDING,
    (_S.RUNNING, _E.STOP): _S.STOPPING,
    (_S.RUNNING, _E.ABORT): _S.ABORTING,
    (_S.RUNNING, _E.RECOVER): _S.RESTARTING,
    (_S.RUNNING, _E.FINISHED): _S.COMPLETE,
    (_S.HOLDING, _E.RESTED): _S.HELD,
    (_S.HOLDING, _E.ABORT): _S.ABORTING,
    (_S.HOLDING, _E.RECOVER): _S.HOLDING,
    (_S.HELD, _E.RESUME): _S.RESTARTING,
    (_S.HELD, _E.STOP): _S.STOPPING,
    (_S.HELD, _E.ABORT): _S.ABORTING,
    (_S.HELD, _E.RECOVER): _S.HELD,
    (_S.RESTARTING, _E.RESTARTED): _S.RUNNING,
    (_S.RESTARTING, _E.PAUSE): _S.HOLDING,
    (_S.RESTARTING, _E.FAULT): _S.HOLDING,
    (_S.RESTARTING, _E.STOP): _S.STOPPING,
    (_S.RESTARTING, _E.ABORT): _S.ABORTING,
    (_S.RESTARTING, _E.RECOVER): _S.RESTARTING,
    (_S.STOPPING, _E.RESTED): _S.STOPPED,
    (_S.STOPPING, _E.ABORT): _S.ABORTING,
    (_S.STOPPING, _E.RECOVER): _S.STOPPING,
    (_S.ABORTING, _E.RESTED): _S.ABORTED,
    (_S.ABORTING, _E.RECOVER): _S.ABORTING,
}


def after(state: RunState, event: RunEvent) -> RunState:
    """Return the state after `event`. Raises :class:`IllegalTransition` if it is not in the table."""
    try:
        return TRANSITIONS[(state, event)]
    except KeyError:
        raise IllegalTransition(state, event) from None
