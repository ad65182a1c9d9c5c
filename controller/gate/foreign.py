"""Foreign commands: an output that followed its command and later does something else (A12).

The cause is a second controller on another host, a tool, or a person at the panel. The protection of a motor, or a supply
that breaks down under load, looks the same and is answered in the same way. A single contradiction is answered by
the basal state. Two controllers that correct each other for ever would harm the tissue more than either, so from the third
contradiction within ten minutes the gate yields:

- A transfer pump or valve is given no new task, so that no dose goes out twice.
- An output that rests in its basal state and is found on (a transfer pump, a valve, a heater) is switched off at most once
  a minute: it may drain a vessel or overheat one.
- A heart is left alone while it circulates at its basal flow or more: its regulator's flow is not sent, and its lease does
  not end. Below that it is brought to its basal flow at most once a minute.
- Gas is left alone. Regulators of heat and gas go on, and interlocks act on every output as always.

This ends after ten minutes without a contradiction, or with a reset by a person.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.gate.outputs import GatedOutput
from controller.safety.kernel import comes_to_rest
from controller.safety.terms import Intent, Limits
from drivers.commands import FLOW_TOLERANCE, PumpStatus, Run, Status, Stop, Switch

CONTRADICTIONS = 3
WITHIN_S = 600.0
AGAIN_S = 60.0
"""Minimum time (s) between two corrections of an output that is under foreign command."""
GATE = "gate"


@dataclass(slots=True)
class _Record:
    times_s: deque[float] = field(default_factory=lambda: deque(maxlen=CONTRADICTIONS))
    acted_s: float = float("-inf")


class Foreign:
    """Counts contradictions per output. `alarm(kind, source, detail)` is called for what a person must know."""

    def __init__(self, limits: Limits, alarm: Callable[[str, str, str], None], now_s: Callable[[], float]) -> None:
        self._limits = limits
        self._valves = {pump.valve for pump in limits.pumps.values()} | set(limits.selectors)
        self._alarm = alarm
        self._now_s = now_s
        self._records: dict[str, _Record] = {}

    def contradicted(self, output: GatedOutput, status: Status, wrong: str) -> bool:
        """Record a contradiction. Return whether the output has to be brought to its basal state."""
        self._alarm("command_failed", output.name, f"it does not follow its command: {wrong}")
        on = output.seen is not None and output.seen.on
        timed = isinstance(output.commanded, Switch) and output.commanded.for_s is not None  # its contact may stick
        self._note(output, wrong, foreign=on and not timed)
        if not self.yields(output):
            return True
        if (self._is_heart(output) and not _circulates(output, status)) or (on and comes_to_rest(output.basal)):
            return self._may_act(output)
        return False

    def commanded_again(self, output: GatedOutput, wrong: str) -> None:
        """Record that a requester repeats its command because the output has left it, such as a heart that stands."""
        self._alarm("command_failed", output.name, f"it does not follow its command: {wrong}")
        self._note(output, wrong, foreign=output.seen is not None and output.seen.on)

    def refusal(self, intent: Intent, output: GatedOutput) -> str | None:
        """Return why an intent is refused because its output is under foreign command, or None."""
        if self._runs_again(intent, output):
            self._note(output, "it was stopped and runs again", foreign=True)
            if self.yields(output) and not self._may_act(output):
                return f"foreign: another controller or a person commands {output.name}; it is stopped once in {AGAIN_S:g} s"
        elif self._transfers(output) and not comes_to_rest(intent.command) and self.yields(output):
            return (
                f"foreign: another controller or a person commands {output.name}; it gets no task until"
                f" {WITHIN_S / 60:g} min have passed without that, or a person resets"
            )
        elif self._is_heart(output) and intent.requester != GATE and self.yields(output):
            if intent.command == output.commanded and output.lease_until_s is not None:
                output.renew(self._now_s())  # its end would be one more command
            return (
                f"foreign: another controller or a person commands {output.name}; it is only kept at its basal flow or"
                f" more until {WITHIN_S / 60:g} min have passed without that, or a person resets"
            )
        return None

    def yields(self, output: GatedOutput) -> bool:
        """Return whether the gate yields this output at present."""
        record = self._records.get(output.name)
        if record is None or len(record.times_s) < CONTRADICTIONS:
            return False
        now_s = self._now_s()
        first_s, last_s = record.times_s[0], record.times_s[-1]
        if now_s - last_s >= WITHIN_S:
            del self._records[output.name]
            return False
        return last_s - first_s < WITHIN_S

    def reset(self) -> None:
        """Forget all contradictions: a person has removed their cause."""
        self._records.clear()

    def _note(self, output: GatedOutput, wrong: str, *, foreign: bool) -> None:
        yielded = self.yields(output)
        self._records.setdefault(output.name, _Record()).times_s.append(self._now_s())
        if self.yields(output) and not yielded:
            self._alarm(
                "foreign_command",
                output.name,
                f"{CONTRADICTIONS} times within {WITHIN_S / 60:g} min it did not follow its command, at last:"
                f" {wrong}. It is not fought for any more, only kept safe. Likely causes: another controller, a tool or a"
                " person at its panel; of a pump that stands, also the protection of its motor, or its supply",
            )
        elif foreign and not yielded:
            self._alarm(
                "foreign_command", output.name, f"it followed its command, and now does something else: {wrong}"
            )

    def _may_act(self, output: GatedOutput) -> bool:
        record, now_s = self._records[output.name], self._now_s()
        if now_s - record.acted_s < AGAIN_S:
            return False
        record.acted_s = now_s
        return True

    @staticmethod
    def _runs_again(intent: Intent, output: GatedOutput) -> bool:
        """Return whether the gate itself stops an output that it had stopped before and that is on again."""
        if intent.requester != GATE or not intent.command == output.commanded == Stop():
            return False
        return output.seen is not None and output.seen.on and output.debt is None

    def _is_heart(self, output: GatedOutput) -> bool:
        pump = self._limits.pumps.get(output.name)
        return pump is not None and pump.role == "heart"

    def _transfers(self, output: GatedOutput) -> bool:
        pump = self._limits.pumps.get(output.name)
        return (pump is not None and pump.role == "transfer") or output.name in self._valves


def _circulates(output: GatedOutput, status: Status) -> bool:
    """Return whether the heart moves at least its basal flow, forwards."""
    match output.basal, status:
        case Run(flow_ul_min=basal), PumpStatus(running=True, flow_ul_min=flow):
            return flow >= basal * (1.0 - FLOW_TOLERANCE)
    return False
