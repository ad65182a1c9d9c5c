"""The states of a run, with their ISA-88 names, and every step that is legal between them (E1).

The table is the whole truth: what is not in it is refused. Nothing leaves `held` but an explicit command (E3).
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
        """Whether nothing more can come of the run."""
        return self in (RunState.STOPPED, RunState.ABORTED, RunState.COMPLETE)


class RunEvent(StrEnum):
    """What moves a run from state to state: commands of people first, then what the run itself reports."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    ABORT = "abort"
    FAULT = "fault"
    """Something needs a person: a refusal that will not pass, an outcome that is not known."""
    RECOVER = "recover"
    """The controller came back after it was gone."""
    RESTED = "rested"
    """Everything the command asked to come to rest has done so, by readback."""
    RESTARTED = "restarted"
    FINISHED = "finished"


class IllegalTransition(Exception):
    """The command makes no sense in the state the run is in."""

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
    """The state that `event` leads to; raises :class:`IllegalTransition` for what is not in the table."""
    try:
        return TRANSITIONS[(state, event)]
    except KeyError:
        raise IllegalTransition(state, event) from None
