"""What must hold in every trial, whatever happens: looked at after every journal row and every few seconds.

The plant's truth is the judge; what the controller believes is only ever compared with it. Each invariant names the
behaviours that it stands for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from choroid.campaign.host import Host
from controller.alarms import AlarmState
from controller.rig.description import Rig
from sim.faults.injector import Injector
from sim.faults.kinds import KINDS, survivable
from sim.faults.schedule import Fault
from sim.lab import Lab

LOOK_S = 5.0
HEART_STOPPED_S = 60.0
"""The heart may stand for so long before somebody must have been told: its status may be 20 s old, the alarm waits 5 s,
and what is commanded anew needs its time."""
HEART_DOWN_S = 30.0
"""With no controller at work the guard has the heart circulating by then."""
HOT_C, COLD_C = 39.5, 34.0
COLD_TOLD_S = 900.0
PH_LOW, PH_HIGH = 6.9, 7.8
PH_SOUR = 6.7
"""An alarm does not excuse this: CO2 can be shut without any other gas being heard."""
MUCH_CO2_MM = 2.5
"""Dissolved CO2 as under a gas with 11 % of it, twice what the loop lives in. Dead tissue and microbes sour it too, and
then it is not the gas."""
PH_FOR_S = 180.0
"""Gas that stops or turns is told within a minute; the medium follows within another."""
PRESSED = 1.3
PRESSED_FOR_S = 30.0
"""A line is not kept so far above its highest pressure for so long: a sensor is read every other second, a pump stopped
at once."""
DRAWN_UL = 600.0
DRAWN_AFTER_S = 60.0
"""Where the heart's motor has stood for so long, no more than this is drawn from its loop: its status may be 29 s old."""
REACH_S = 180.0
"""A device is back to order so long after the last fault of it or of its line."""
MISLEADING = frozenset(
    ("leak", "occlusion", "empty", "reversed", "bubble", "worn_tubing", "stuck", "offset", "drift", "noise", "ignores",
     "eeprom", "clogged_filter", "reboot", "power_cut", "garble")
)  # fmt: skip
"""Faults under which a pump or the balance says what is not so. Then the ledger may be wrong, but not in silence."""
DOUBTING = frozenset(
    ("balance_drift", "pump_drift", "command_failed", "transfer_overlong", "run_held", "over_pressure_filter")
)
STORM_ROWS, STORM_WITHIN_S = 10, 3600.0
"""One alarm that is raised so often within an hour is a storm (ISA-18.2 chatter, with its suppression at work: L3)."""
FLOOD_ROWS, FLOOD_WITHIN_S = 30, 600.0
"""So many alarms within ten minutes are more than anyone reads; ISA-18.2 calls ten a flood, for healthy plants."""
LOST_VIABILITY = 0.10
DOUBLE = 1.25
DOUBLE_UL = 300.0
"""A step that moves so much more than it was asked was given twice; pumps err by some percent, counters by a step."""
STRAY_UL = 150.0
SIGMAS = 4.5
"""Of the ledger's doubt: three would be left by chance once in every few trials."""
LEAST_UL = 60.0
ML = 1000.0

EXPECTED_LOGS = (
    "the journal cannot be written",
    "could not be recorded",
    "history cannot be written",
    "not every output could be brought to its basal state",
    "cannot be used",
)
"""Errors in the log that belong to a bad disk or to devices that do not answer at an orderly end."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never happen, and did."""

    at_s: float
    invariant: str
    text: str


@dataclass(slots=True)
class _Open:
    """A dose that the journal has announced and not settled."""

    run: str
    n: int
    ul: float
    line: str
    begun_ul: float


class Watch:
    """See the module."""

    def __init__(self, rig: Rig, lab: Lab, faults: tuple[Fault, ...]) -> None:
        self.found: list[Violation] = []
        self.rows = 0
        self.alarms_raised = 0
        self.looks = 0
        self._rig = rig
        self._lab = lab
        self._faults = faults
        self._survivable = all(survivable(fault) for fault in faults)
        self._known: set[tuple[str, str]] = set()
        self._events = 0
        self._open: dict[str, _Open] = {}
        self._asked: dict[tuple[str, int], float] = {}
        self._given: dict[tuple[str, int], float] = {}
        self._moved = dict(lab.plant.truth().moved_ul)
        self._heart = rig.organs.heart.line
        self._heart_since_s: float | None = None
        self._cold_since_s: float | None = None
        self._sour_since_s: float | None = None
        self._gassed_since_s: float | None = None
        self._pressed_since_s: dict[str, float] = {}
        self._stands_since_s: float | None = None
        self._stood_ul = 0.0
        self._told: dict[str, float] = {}
        self._raised: dict[str, deque[float]] = {}
        self._all_raised: deque[float] = deque()
        self._heard: list[tuple[float, float, str]] = []
        self._active: dict[tuple[str, str], float] = {}
        self._down: list[tuple[float, float]] = []
        self._last_s = asyncio.get_running_loop().time()
        self.least_viability = self._first_viability = lab.plant.health

    def tell(self, invariant: str, subject: str, text: str) -> None:
        """Note a violation, once for each subject."""
        if (invariant, subject) not in self._known:
            self._known.add((invariant, subject))
            self.found.append(Violation(round(asyncio.get_running_loop().time(), 3), invariant, text))

    # --- after every row --------------------------------------------------------------------------------

    def on_row(self, seq: int, kind: str, body: Mapping[str, Any], run: str | None) -> None:
        """A row is in the journal."""
        self.rows += 1
        if kind == "step.act":
            self._announced(body, run or "")
        elif kind in ("step.refused", "moved") and run is not None:
            self._settled(kind, body, run)
        elif kind == "alarm.raised":
            self._alarm(body["alarm"])
        self._events_of_plant()

    def _announced(self, body: Mapping[str, Any], run: str) -> None:
        line = body["line"]
        moved = self._lab.plant.truth().moved_ul[line]
        if line in self._open:
            self.tell(
                "no double dose", f"{run}.{body['n']}", f"step {body['n']} doses {line} while a dose is open (E4)"
            )
        self._open[line] = _Open(run, body["n"], body["ul"], line, moved)
        self._asked.setdefault((run, body["n"]), body["ul"])

    def _settled(self, kind: str, body: Mapping[str, Any], run: str) -> None:
        opened = next((o for o in self._open.values() if (o.run, o.n) == (run, body["n"])), None)
        if opened is None:
            return
        line = opened.line
        del self._open[line]
        truly = self._lab.plant.truth().moved_ul[line] - opened.begun_ul
        self._moved[line] = self._lab.plant.truth().moved_ul[line]
        if kind == "step.refused":
            if truly > LEAST_UL:
                self.tell("mass balance", line, f"{line}: a dose that was refused moved {truly / ML:.3f} mL (F2)")
            return
        step = (run, opened.n)
        given = self._given[step] = self._given.get(step, 0.0) + truly
        asked = self._asked[step]
        if given > DOUBLE * asked + DOUBLE_UL:
            self.tell(
                "no double dose",
                f"{run}.{opened.n}",
                f"step {opened.n} of {run} asked for {asked / ML:.2f} mL along {line};"
                f" {given / ML:.2f} mL were truly moved (E4)",
            )
        low, high = body["low"], body["high"]
        slack = max(LEAST_UL, 0.5 * (high - low), 0.02 * truly)
        if not low - slack <= truly <= high + slack and not self._excused():
            self.tell(
                "mass balance",
                f"{line}.{body['end']}",
                f"{line}: the ledger books {low / ML:.3f} to {high / ML:.3f} mL ({body['source']}, {body['end']}),"
                f" {truly / ML:.3f} mL were truly moved (F1, F2)",
            )

    def _excused(self) -> bool:
        """Whether something misleads pumps or balance, and somebody has been told of it."""
        now_s = asyncio.get_running_loop().time()
        begun = [fault.at_s for fault in self._faults if fault.kind in MISLEADING and fault.at_s <= now_s]
        return bool(begun) and any(at_s >= min(begun) for kind, at_s in self._told.items() if kind in DOUBTING)

    def _alarm(self, identifier: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self._told[identifier.partition(":")[0]] = now_s
        self.alarms_raised += 1
        times = self._raised.setdefault(identifier, deque())
        for kept, within_s in ((times, STORM_WITHIN_S), (self._all_raised, FLOOD_WITHIN_S)):
            kept.append(now_s)
            while now_s - kept[0] > within_s:
                kept.popleft()
        if len(times) > STORM_ROWS:
            self.tell("no alarm storm", identifier, f"{identifier} was raised {len(times)} times within an hour (L3)")
        if len(self._all_raised) > FLOOD_ROWS:
            self.tell("no alarm storm", "all", f"{len(self._all_raised)} alarms within ten minutes (L3)")

    def _events_of_plant(self) -> None:
        events = self._lab.plant.events
        for at_s, text in events[self._events :]:
            if "pumped air" in text and self._backwards(text.partition(" ")[0], at_s):
                continue
            what = "no vessel overflows" if "overflow" in text else "no pump runs dry"
            self.tell(what, " ".join(text.split()[:2]), f"at {at_s:.0f} s: {text} (I4, I7)")
        self._events = len(events)

    def _backwards(self, line: str, at_s: float) -> bool:
        """Whether a motor turns backwards and drains what it should fill: nobody can know that but the rig's keeper."""
        pump = self._rig.lines[line].pump
        return any(
            fault.kind == "reversed" and fault.target == pump and fault.at_s <= at_s <= fault.end_s + LOOK_S
            for fault in self._faults
        )

    # --- every few seconds ------------------------------------------------------------------------------

    async def run(self, host: Host) -> None:
        """Look every few seconds until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look(host)

    def look(self, host: Host) -> None:
        """Compare the plant's truth with what must hold at any moment."""
        self.looks += 1
        now_s = asyncio.get_running_loop().time()
        truth = self._lab.plant.truth()
        self._events_of_plant()
        self._hear(host, now_s)
        kinds = {kind for kind, _ in self._active}
        at_work = host.life is not None and host.life.ready and not host.life.dead
        if not at_work:
            self._down.append((self._last_s, now_s))
        self._see_heart(truth.moved_ul, kinds, at_work, now_s)
        self._see_lines(truth.moved_ul)
        self._see_warmth(truth.temperature_c, kinds, now_s)
        self._see_pressure(truth.pressures_kpa, at_work, now_s)
        self._see_draw(truth.moved_ul, at_work, now_s)
        loop = self._rig.organs.lung.vessel
        self._see_acidity(truth.ph[loop], truth.concentrations[loop]["co2"], kinds, at_work, now_s)
        self.least_viability = min(self.least_viability, truth.viability)
        if self._survivable and truth.viability < self._first_viability - LOST_VIABILITY:
            self.tell(
                "no organoid lost",
                "viability",
                f"viability fell from {self._first_viability:.2f} to {truth.viability:.2f} under survivable faults",
            )
        self._last_s = now_s

    def _hear(self, host: Host, now_s: float) -> None:
        """Which alarms stand at this moment; with no controller, none does."""
        life = host.life
        active: set[tuple[str, str]] = set()
        if life is not None and not life.dead and life.controller is not None:
            active = {
                (alarm.kind, alarm.source)
                for alarm in life.controller.alarms.active()
                if alarm.state is not AlarmState.RETURNED
            }
        for key in [key for key in self._active if key not in active]:
            self._heard.append((self._active.pop(key), now_s, key[0]))
        for key in active:
            self._active.setdefault(key, now_s - LOOK_S)

    def _see_heart(self, moved: Mapping[str, float], kinds: set[str], at_work: bool, now_s: float) -> None:
        flows = moved[self._heart] - self._moved[self._heart] > 0.0
        self._moved[self._heart] = moved[self._heart]
        if flows:
            self._heart_since_s = None
            return
        if self._heart_since_s is None:
            self._heart_since_s = self._last_s
        stood_s = now_s - self._heart_since_s
        if self._backwards(self._heart, now_s):
            self._heart_since_s = None
            return
        told = kinds & {"no_heart_flow", "over_pressure_heart", "command_failed", "device_lost"}
        if stood_s > HEART_STOPPED_S + HEART_DOWN_S and not told and not (self._disturbed(now_s) and not at_work):
            who = "a controller at work" if at_work else "no controller at work"
            self.tell("the heart beats", "heart", f"the heart has stood for {stood_s:.0f} s, no alarm, {who}")

    def _disturbed(self, now_s: float) -> bool:
        """Whether a fault in hardware is on at this moment, or was within the last minutes."""
        return any(fault.at_s <= now_s <= fault.at_s + fault.for_s + 300.0 for fault in self._faults)

    def _see_lines(self, moved: Mapping[str, float]) -> None:
        """No line moves liquid that the journal has not announced."""
        for line, ul in moved.items():
            if line == self._heart:
                continue
            if line not in self._open and ul - self._moved[line] > STRAY_UL:
                self.tell(
                    "nothing moves unannounced",
                    line,
                    f"{line} moved {(ul - self._moved[line]) / ML:.3f} mL that no journal row has announced (F2)",
                )
            if line not in self._open:
                continue
            self._moved[line] = ul

    def _see_warmth(self, celsius: float, kinds: set[str], now_s: float) -> None:
        if celsius > HOT_C and (self._survivable or "temperature" not in kinds):
            self.tell("temperature within hard limits", "hot", f"the chamber is at {celsius:.1f} °C (I1)")
        if celsius >= COLD_C:
            self._cold_since_s = None
            return
        self._cold_since_s = now_s if self._cold_since_s is None else self._cold_since_s
        cold_s = now_s - self._cold_since_s
        if cold_s > COLD_TOLD_S and not kinds & {"temperature", "device_lost", "command_failed"}:
            self.tell(
                "temperature within hard limits",
                "cold",
                f"the chamber has been below {COLD_C:g} °C for {cold_s:.0f} s, and no alarm says so",
            )

    def _see_pressure(self, pressures: Mapping[str, float], at_work: bool, now_s: float) -> None:
        """No pump goes on pressing against what does not give way, as long as it can be told and its gauge be read."""
        safety = self._rig.safety
        for line, rule in (
            (self._heart, safety.over_pressure_heart),
            (self._rig.organs.kidney.return_, safety.over_pressure_filter),
        ):
            pump = self._rig.lines[line].pump or ""
            if pressures[line] <= PRESSED * rule.high_kpa:
                self._pressed_since_s.pop(line, None)
                continue
            since_s = self._pressed_since_s.setdefault(line, now_s)
            reached = at_work and not self._troubled(rule.point, now_s) and not self._troubled(pump, now_s)
            if not reached:
                self._pressed_since_s[line] = now_s
            elif now_s - since_s > PRESSED_FOR_S:
                self.tell(
                    "pressure within hard limits",
                    line,
                    f"{line} has been above {PRESSED * rule.high_kpa:.0f} kPa for {now_s - since_s:.0f} s"
                    f" ({pressures[line]:.0f} kPa), and its pump is not stopped (I1)",
                )

    def _see_draw(self, moved: Mapping[str, float], at_work: bool, now_s: float) -> None:
        """Medium is not taken away from tissue that nothing circulates to."""
        draw = self._rig.organs.kidney.draw
        heart, pump = (self._rig.lines[line].pump or "" for line in (self._heart, draw))
        if self._lab.drives.moving.get(heart, 0.0) or not at_work or self._troubled(pump, now_s):
            self._stands_since_s = None
            return
        if self._stands_since_s is None:
            self._stands_since_s = now_s
        if now_s - self._stands_since_s <= DRAWN_AFTER_S:
            self._stood_ul = moved[draw]
        elif moved[draw] - self._stood_ul > DRAWN_UL:
            self.tell(
                "nothing is drawn while the heart stands",
                draw,
                f"{(moved[draw] - self._stood_ul) / ML:.2f} mL were drawn while the heart has stood for"
                f" {now_s - self._stands_since_s:.0f} s (I1)",
            )

    def _troubled(self, point: str, now_s: float) -> bool:
        """Whether something ails a point, its device, its line or the controller's computer, or did lately."""
        device = point.partition(".")[0]
        where = {point, device, self._rig.devices[device].link, "host"}
        return any(
            fault.target in where
            and fault.kind not in ("clock_step", "dst", "flood", "careless")
            and fault.at_s <= now_s <= fault.at_s + fault.for_s + REACH_S
            for fault in self._faults
        )

    def _see_acidity(self, acidity: float, co2_mm: float, kinds: set[str], at_work: bool, now_s: float) -> None:
        if acidity >= PH_SOUR or co2_mm <= MUCH_CO2_MM or not at_work:
            self._gassed_since_s = None  # medium that microbes have soured is no fault of the gas
        elif self._gassed_since_s is None:
            self._gassed_since_s = now_s
        if PH_LOW <= acidity <= PH_HIGH or not at_work:
            self._sour_since_s = None  # a controller that has just come back has as long as any to tell
            return
        self._sour_since_s = now_s if self._sour_since_s is None else self._sour_since_s
        if now_s - self._sour_since_s <= PH_FOR_S:
            return
        if not kinds & {"acidity", "gas_mixture", "device_lost", "command_failed"}:
            self.tell(
                "gas within hard limits", "ph", f"the loop has been beyond pH {acidity:.2f} for minutes, no alarm"
            )
        elif (
            self._gassed_since_s is not None
            and now_s - self._gassed_since_s > PH_FOR_S
            and not self._gas_troubled(now_s)
        ):
            self.tell("gas within hard limits", "sour", f"the loop is at pH {acidity:.2f}, and CO2 is not shut (I1)")

    def _gas_troubled(self, now_s: float) -> bool:
        """Whether CO2 could perhaps not be shut, or only late."""
        lung = self._rig.organs.lung
        return self._troubled(lung.co2, now_s) or self._troubled(lung.ph, now_s)

    # --- at the end -------------------------------------------------------------------------------------

    def judge(self, host: Host, injector: Injector) -> None:
        """What can only be said when all is over: the controller lives, its run has ended, nothing moves."""
        life = host.life
        if life is None or life.controller is None or not life.ready:
            self.tell("the controller comes back", "controller", "no controller is at work at the end")
            return
        controller = life.controller
        for at_s, what in host.crashes:
            self.tell("no unexpected exception", what[:60], f"at {at_s:.0f} s the controller ended by itself: {what}")
        truth = self._lab.plant.truth()
        for name, volume in controller.ledger.volumes().items():
            error = volume.ul - truth.volumes_ul[name]
            if abs(error) > SIGMAS * volume.sd_ul + LEAST_UL and not self._excused():
                self.tell(
                    "mass balance",
                    f"vessel {name}",
                    f"{name}: the ledger says {volume.ul / ML:.3f} ± {volume.sd_ul / ML:.3f} mL,"
                    f" there are {truth.volumes_ul[name] / ML:.3f} mL (F1)",
                )
        self._judge_steps(host)
        self._judge_alarms(host, injector)
        if host.broker is not None and host.broker.gaps:
            self.tell("no reading lost", "broker", f"{host.broker.gaps[0]} (D1)")
        try:
            controller.journal.verify()
        except Exception as error:
            self.tell("journal intact", "journal", f"{error} (D3)")

    def _judge_steps(self, host: Host) -> None:
        """Every step that was begun has an end, but for the last of a run that was ended in it."""
        if host.life is None or host.life.controller is None:
            return
        begun: dict[tuple[str, int], str] = {}
        done: set[tuple[str, int]] = set()
        open_acts: dict[tuple[str, int], str] = {}
        last: dict[str, int] = {}
        for row in host.life.controller.journal.entries(
            kinds=("step", "step.done", "step.act", "step.refused", "moved", "run.state")
        ):
            if row.run is None or row.kind == "run.state":
                continue
            step = (row.run, row.body["n"])
            if row.kind == "step":
                if step in begun or row.body["n"] != last.get(row.run, 0) + 1:
                    self.tell("no step lost", str(step), f"step {step[1]} of {step[0]} follows {last.get(row.run, 0)}")
                begun[step] = row.body["verb"]
                last[row.run] = row.body["n"]
            elif row.kind == "step.done":
                if step in done:
                    self.tell("no step lost", str(step), f"step {step[1]} of {step[0]} was done twice")
                done.add(step)
            elif row.kind == "step.act":
                open_acts[step] = row.body["line"]
            else:
                open_acts.pop(step, None)
        for run, n in begun.keys() - done:
            if n != last[run]:
                self.tell("no step lost", f"{run}.{n}", f"step {n} ({begun[run, n]}) of {run} never ended (E4)")
        for (run, n), line in open_acts.items():
            self.tell(
                "no step lost", f"{run}.{n}", f"the dose of step {n} of {run} along {line} was never settled (F2)"
            )

    def _down_within(self, begin_s: float, end_s: float) -> float:
        """For how long no controller was at work between two moments (s)."""
        return sum(max(0.0, min(b, end_s) - max(a, begin_s)) for a, b in self._down)

    def _judge_alarms(self, host: Host, injector: Injector) -> None:
        """Whoever is to be told of a fault was told in time."""
        now_s = asyncio.get_running_loop().time()
        heard = [*self._heard, *((since_s, now_s, kind) for (kind, _), since_s in self._active.items())]
        for applied in injector.applied:
            fault = applied.fault
            kind = KINDS[fault.kind]
            within_s = kind.told_within_s
            if not kind.alarms or 0.0 < fault.for_s < within_s:
                continue
            begin_s = applied.begun_s
            # Nobody is told while no controller is at work; the one that comes back has as long as any, if there is
            # still something to be told.
            if fault.for_s and fault.for_s - self._down_within(begin_s, begin_s + fault.for_s) < within_s + LOOK_S:
                continue
            end_s = time_to_tell(begin_s, within_s + LOOK_S, self._down)
            if any(word in kind.alarms and since_s <= end_s and until_s >= begin_s for since_s, until_s, word in heard):
                continue
            self.tell(
                "every alarm that should be",
                f"{fault.kind} {fault.target}",
                f"{fault.kind} of {fault.target} at {begin_s:.0f} s for {fault.for_s:.0f} s:"
                f" none of {', '.join(kind.alarms)} within {within_s:.0f} s",
            )


def time_to_tell(begin_s: float, within_s: float, down: Sequence[tuple[float, float]]) -> float:
    """When a controller has been at work for `within_s` since `begin_s`; `down` are the times (s) when none was, in order."""
    end_s = begin_s + within_s
    for since_s, until_s in down:
        if since_s > end_s:
            break
        end_s += max(until_s - max(since_s, begin_s), 0.0)
    return end_s
