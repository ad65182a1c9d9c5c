"""Judge what one dose moved from the balance, the pump's counter and its command. Pure.

:mod:`controller.ledger.witnesses` gives the interval of each source; this module decides which source to trust. A dose
watched to its end is judged by the balance, an unwatched one by the agreement of balance and counter. In both cases the
counter bounds what may still be given: a dose that no balance sees (a slipped tube) must not be given again.
"""

from __future__ import annotations

from dataclasses import replace

from controller.ledger.witnesses import UNMEASURED, K, Moved, against, agreed, by_command, by_pump, went_back
from controller.steps.steps import Act, StepRecord
from controller.transfers.routes import Trust
from drivers.commands import PumpStatus

MIN_SEEN = 0.5
"""Share of a finished dose that the balance must have seen for its result to be taken without reading the pump."""
MIN_COUNTED = 0.9
"""Share of a finished dose that the pump's counter must have counted."""


def hardly_seen(balance: Moved | None, act: Act, trust: Trust) -> bool:
    """Return whether the balance has seen too little of a dose: a worn tube gives less, a slipped one nothing."""
    return balance is not None and balance.high < MIN_SEEN * act.ul * trust.gain


def watched(
    step: StepRecord,
    act: Act,
    trust: Trust,
    *,
    balance: Moved | None,
    status: PumpStatus | None,
    finished: bool,
    stuck: bool,
    ran_s: float,
) -> Moved:
    """Judge a dose of `step` that this process watched to its end: by the balance, else by the pump.

    A stuck balance is no evidence. The counter alone must then account for the time that its pump ran: it may have been
    zeroed meanwhile.

    Args:
        step: the transfer.
        act: the dose.
        trust: the trust in the pump's calibration.
        balance: what the balance shows, if there is one.
        status: the pump's status after the dose, if it was read.
        finished: whether the pump ended the dose as commanded.
        stuck: whether the balance has not changed since before the pump stood.
        ran_s: how long the pump ran at least (s).
    """
    asked_ul = act.ul * trust.gain
    by_total = _by_total(act, trust, status)
    pump = by_command(asked_ul, rel_sd=trust.rel_sd) if finished and not _denied(act, status) else by_total
    if stuck:
        return _claimed(step, act, trust, _with_stuck_balance(act, trust, balance, pump, ran_s), status)
    if balance is None:
        return _claimed(step, act, trust, agreed(None, pump, asked_ul=max_moved_ul(act, trust)), status)
    if balance.certain and by_total is not None:
        both = agreed(balance, by_total, asked_ul=asked_ul)
        balance = balance if both.certain else both
    return _claimed(step, act, trust, balance, status)


def _with_stuck_balance(act: Act, trust: Trust, balance: Moved | None, pump: Moved | None, ran_s: float) -> Moved:
    """Judge a dose by its pump alone: a stuck balance does not narrow the pump's interval, but may contradict it."""
    ran_ul = min(act.flow_ul_min * ran_s / 60.0, act.ul) * trust.gain
    asked_ul = max_moved_ul(act, trust)
    if pump is None or pump.high < MIN_SEEN * ran_ul:
        return agreed(None, None, asked_ul=asked_ul)
    moved = agreed(balance, pump, asked_ul=asked_ul)
    return pump if moved.certain else moved


def left_open(step: StepRecord, act: Act, trust: Trust, *, balance: Moved | None, status: PumpStatus | None) -> Moved:
    """Judge a dose of `step` whose end was not watched: the process died during it, or its reply was lost."""
    moved = agreed(balance, _by_total(act, trust, status), asked_ul=max_moved_ul(act, trust))
    return _claimed(step, act, trust, moved, status)


def max_moved_ul(act: Act, trust: Trust) -> float:
    """Return the maximum that a dose can have moved by its pump's calibration (µL)."""
    return act.ul * trust.gain * (1 + K * trust.rel_sd)


def lost_power(act: Act, status: PumpStatus | None) -> bool:
    """Return whether the pump's counter was zeroed since before the dose."""
    return status is not None and act.total_ul is not None and went_back(act.total_ul, status.delivered_ul)


def doubt(moved: Moved) -> tuple[str, ...]:
    """Return why a dose is in doubt, for people."""
    if moved.source == UNMEASURED:
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
    """Return the bounds of a dose, for people."""
    return f"between {moved.low / 1000:.2f} and {moved.high / 1000:.2f} mL moved, by {moved.source}"


def _denied(act: Act, status: PumpStatus | None) -> bool:
    """Return whether the pump's counter contradicts the end of a dose that it reports as finished."""
    if status is None or act.total_ul is None:
        return False
    return status.delivered_ul - act.total_ul + status.resolution_ul < MIN_COUNTED * act.ul


def _by_total(act: Act, trust: Trust, status: PumpStatus | None) -> Moved | None:
    if status is None:
        return None
    return by_pump(
        None if act.total_ul is None else act.total_ul * trust.gain,
        status.delivered_ul * trust.gain,
        step_ul=status.resolution_ul * trust.gain,
        rel_sd=trust.rel_sd,
        max_ul=max_moved_ul(act, trust),
    )


def _claimed(step: StepRecord, act: Act, trust: Trust, moved: Moved, status: PumpStatus | None) -> Moved:
    """Add the counter's claim to `moved`, and put it in doubt if the step's doses do not add up to the counter."""
    if status is None or act.total_ul is None or lost_power(act, status):
        return moved
    counted_ul = max(0.0, status.delivered_ul - act.total_ul) * trust.gain
    moved = replace(moved, counted=counted_ul, counter_step=status.resolution_ul * trust.gain)
    seen_ul = sum(part.high for part in step.parts)
    return against(moved, seen_ul=seen_ul, counted_ul=step.counted_ul + counted_ul, rel_sd=trust.rel_sd)
