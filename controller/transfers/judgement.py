"""What one dose moved: the balance, its pump's counter and its command held against each other. Pure.

:mod:`controller.ledger.witnesses` says what each of them knows; here is decided whom to believe when. A dose that was
watched to its end is the balance's, one that nobody saw end is what balance and counter agree on. In both cases what the
counter claims bounds what may still be given: a dose that no balance sees (a slipped tube) must not be given again.
"""

from __future__ import annotations

from dataclasses import replace

from controller.ledger.witnesses import NOBODY, K, Moved, against, agreed, by_command, by_pump, went_back
from controller.steps.steps import Act, StepRecord
from controller.transfers.routes import Trust
from drivers.commands import PumpStatus

SEEN_LEAST = 0.5
"""Of a dose that its pump ended well the balance is believed without further question when it has seen this share."""

COUNTED_LEAST = 0.9
"""Of a dose that its pump has ended its counter has counted this share at the least."""


def hardly_seen(balance: Moved | None, act: Act, trust: Trust) -> bool:
    """Whether the balance has seen so little of a dose that the pump has to be asked: a worn tube gives less, a slipped
    one nothing.
    """
    return balance is not None and balance.high < SEEN_LEAST * act.ul * trust.gain


def watched(
    step: StepRecord,
    act: Act,
    trust: Trust,
    *,
    balance: Moved | None,
    told: PumpStatus | None,
    finished: bool,
    stuck: bool,
    ran_s: float,
) -> Moved:
    """A dose of `step` that this process saw to its end: by the balance, else by the pump.

    `told` is what the pump says after it, if it was asked; `finished` whether the pump ended it as it was commanded;
    `stuck` whether the balance has shown exactly the same since before the pump stood, `ran_s` how long that ran at
    the least. A balance that is stuck is no witness, and a counter without one has to answer for the time that its pump
    ran: it may have been zeroed meanwhile.
    """
    asked_ul = act.ul * trust.gain
    by_total = _by_total(act, trust, told)
    pump = by_command(asked_ul, rel_sd=trust.rel_sd) if finished and not _denied(act, told) else by_total
    if stuck:
        ran_ul = min(act.flow_ul_min * ran_s / 60.0, act.ul) * trust.gain
        if pump is None or pump.high < SEEN_LEAST * ran_ul:
            return _claimed(step, act, trust, agreed(None, None, asked_ul=greatest_ul(act, trust)), told)
    if balance is None or stuck:
        moved = agreed(balance, pump, asked_ul=greatest_ul(act, trust))
        if stuck and moved.certain and pump is not None:
            moved = pump  # a balance that is stuck does not narrow what its pump says
        return _claimed(step, act, trust, moved, told)
    if balance.certain and by_total is not None:
        both = agreed(balance, by_total, asked_ul=asked_ul)
        balance = balance if both.certain else both
    return _claimed(step, act, trust, balance, told)


def left_open(step: StepRecord, act: Act, trust: Trust, *, balance: Moved | None, told: PumpStatus | None) -> Moved:
    """A dose of `step` that nobody saw end: the process died with it, or its reply was lost."""
    moved = agreed(balance, _by_total(act, trust, told), asked_ul=greatest_ul(act, trust))
    return _claimed(step, act, trust, moved, told)


def greatest_ul(act: Act, trust: Trust) -> float:
    """The most that a dose can have moved by its pump's calibration (µL)."""
    return act.ul * trust.gain * (1 + K * trust.rel_sd)


def lost_power(act: Act, told: PumpStatus | None) -> bool:
    """Whether the pump's counter was zeroed since before the dose."""
    return told is not None and act.total_ul is not None and went_back(act.total_ul, told.delivered_ul)


def doubt(moved: Moved) -> tuple[str, ...]:
    """Why a dose is in doubt, for people."""
    if moved.source == NOBODY:
        return (
            "neither its counter nor the balance can tell",
            f"between {moved.low / 1000:.2f} and {moved.high / 1000:.2f} mL may have moved",
        )
    if moved.source != "contradiction":
        return (moved.source, between(moved))
    return (
        f"its counter went on by {moved.counted / 1000:.2f} mL, and the balance has not seen as much: the tube has slipped"
        " off the vessel on the balance, or the balance is jammed",
        between(moved),
    )


def between(moved: Moved) -> str:
    """A dose's bounds, for people."""
    return f"between {moved.low / 1000:.2f} and {moved.high / 1000:.2f} mL moved, by {moved.source}"


def _denied(act: Act, told: PumpStatus | None) -> bool:
    """Whether the pump's own counter says that a dose of which it stands has not been given."""
    if told is None or act.total_ul is None:
        return False
    return told.delivered_ul - act.total_ul + told.resolution_ul < COUNTED_LEAST * act.ul


def _by_total(act: Act, trust: Trust, told: PumpStatus | None) -> Moved | None:
    if told is None:
        return None
    return by_pump(
        None if act.total_ul is None else act.total_ul * trust.gain,
        told.delivered_ul * trust.gain,
        step_ul=told.resolution_ul * trust.gain,
        rel_sd=trust.rel_sd,
        greatest_ul=greatest_ul(act, trust),
    )


def _claimed(step: StepRecord, act: Act, trust: Trust, moved: Moved, told: PumpStatus | None) -> Moved:
    """`moved` with what the pump's counter claims of it, and in doubt where the step's doses do not come to as much."""
    if told is None or act.total_ul is None or lost_power(act, told):
        return moved
    counted_ul = max(0.0, told.delivered_ul - act.total_ul) * trust.gain
    moved = replace(moved, counted=counted_ul, counter_step=told.resolution_ul * trust.gain)
    seen_ul = sum(part.high for part in step.parts)
    return against(moved, seen_ul=seen_ul, counted_ul=step.counted_ul + counted_ul, rel_sd=trust.rel_sd)
