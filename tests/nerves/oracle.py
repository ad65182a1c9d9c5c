"""An independent judge of stimulation: it knows the limits' numbers, and nothing of how the governor counts them.

It takes pulses at the frames at which they were really delivered, in order, and checks exact sliding windows in seconds. All
limits are those of the envelope. Seconds and stretches with stimulation are counted from their first pulse on, so that it
does not matter where the seconds of an engine begin.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from itertools import accumulate, groupby

from nerves.envelope import Envelope

SLACK = 1e-6
"""What rounding may do: of a limit, and of a time (s)."""
STRETCH_S = 600.0


@dataclass(frozen=True, slots=True)
class Given:
    """A pulse as it was delivered: seconds, and (µs, µA) of each phase."""

    at_s: float
    electrode: int
    requester: str
    phases: tuple[tuple[float, float], ...]
    kohm: float | None
    leased: bool
    lost_response: bool
    review_nc: float
    """What the review of the tissue allows in one phase."""


class Window:
    """The sum over the last `length_s` seconds, and the fullest it has been."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._events: deque[tuple[float, float]] = deque()
        self._sum = 0.0
        self.fullest = 0.0

    def add(self, at_s: float, amount: float) -> float:
        self._events.append((at_s, amount))
        self._sum += amount
        while self._events[0][0] <= at_s - self._length_s:
            self._sum -= self._events.popleft()[1]
        self.fullest = max(self.fullest, self._sum)
        return self._sum


@dataclass
class Oracle:
    """Counts violations by name, and how full each ceiling has been (1 is the limit)."""

    envelope: Envelope
    area_cm2: float
    violations: Counter[str] = field(default_factory=Counter)
    fullest: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._charge: defaultdict[str, Window] = defaultdict(lambda: Window(1.0))
        self._pulses: defaultdict[str, Window] = defaultdict(lambda: Window(60.0))
        self._hour_charge, self._hour_seconds, self._day = Window(3600.0), Window(3600.0), Window(86_400.0)
        self._second = self._stretch = -math.inf
        self._last: dict[int, float] = {}
        self._running: list[tuple[float, int]] = []
        self._session: tuple[float, float] | None = None

    def judge(self, pulse: Given) -> None:
        """Judge one pulse; later ones may not be earlier."""
        self._waveform(pulse)
        self._tissue(pulse)
        self._spacing(pulse)
        self._budgets(pulse)
        self._welfare(pulse)

    def _under(self, name: str, value: float, limit: float, slack: float = 0.0) -> None:
        self.fullest[name] = max(self.fullest[name], value / limit)
        if not value <= limit * (1 + SLACK) + slack:
            self.violations[name] += 1

    def _waveform(self, pulse: Given) -> None:
        env = self.envelope
        charges = [us * ua / 1000.0 for us, ua in pulse.phases if ua]
        sides = [sum(group) for _, group in groupby(charges, lambda charge: charge > 0)]
        if not all(map(math.isfinite, charges)) or not 2 <= len(sides) <= 3 or not sides[0] < 0 < sides[1]:
            self.violations["shape"] += 1
            return
        phase_nc = max(*map(abs, sides), *map(abs, accumulate(charges)))
        self._under("charge", phase_nc, env.charge_nc)
        self._under("density", phase_nc * 1e-3 / self.area_cm2, env.density_uc_cm2)
        self._under("current", max(abs(ua) for _, ua in pulse.phases), env.current_ua)
        self._under("net charge", abs(sum(charges)), max(env.net_share * phase_nc, env.net_pc / 1000.0), 1e-9)
        if math.log10(phase_nc * 1e-3 / self.area_cm2 * phase_nc * 1e-3) > env.shannon_k:
            self.violations["shannon"] += 1
        if not all(env.phase_us_min <= us <= max(env.phase_us_max, env.pause_us_max) for us, _ in pulse.phases):
            self.violations["duration"] += 1
        self._under("pulse", sum(us for us, _ in pulse.phases), env.pulse_us_max)
        self._under("review", phase_nc, pulse.review_nc)

    def _tissue(self, pulse: Given) -> None:
        env = self.envelope
        if pulse.kohm is None or not env.impedance_kohm_min <= pulse.kohm <= env.impedance_kohm_max:
            self.violations["impedance"] += 1
        else:
            self._under("voltage", max(abs(ua) for _, ua in pulse.phases) * pulse.kohm * 1e-3, env.voltage_v)
        if not pulse.leased:
            self.violations["lease"] += 1
        if pulse.lost_response:
            self.violations["response"] += 1

    def _spacing(self, pulse: Given) -> None:
        before = self._last.get(pulse.electrode)
        if before is not None:
            apart_s = pulse.at_s - before
            self._under("rate", 1.0 / apart_s if apart_s > 0 else math.inf, self.envelope.rate_hz)
        self._last[pulse.electrode] = pulse.at_s
        length_s = sum(us for us, _ in pulse.phases) * 1e-6
        self._running = [(end, e) for end, e in self._running if end > pulse.at_s + SLACK]
        self._running.append((pulse.at_s + length_s, pulse.electrode))
        self._under("at once", len({e for _, e in self._running}), self.envelope.at_once)

    def _budgets(self, pulse: Given) -> None:
        env = self.envelope
        nc = sum(abs(us * ua) for us, ua in pulse.phases) / 1000.0
        for scope, key, max_nc, max_pulses in (
            ("electrode", f"e{pulse.electrode}", env.electrode_nc_s, env.electrode_pulses_min),
            ("requester", f"r{pulse.requester}", env.requester_nc_s, env.requester_pulses_min),
            ("organoid", "o", env.organoid_nc_s, env.organoid_pulses_min),
        ):
            self._under(f"{scope} second", self._charge[key].add(pulse.at_s, nc), max_nc)
            self._under(f"{scope} minute", self._pulses[key].add(pulse.at_s, 1.0), max_pulses)
        self._under("organoid hour", self._hour_charge.add(pulse.at_s, nc), env.organoid_nc_h)

    def _welfare(self, pulse: Given) -> None:
        env = self.envelope
        if pulse.at_s >= self._second + 1.0:
            self._second = pulse.at_s
            self._under("duty", self._hour_seconds.add(pulse.at_s, 1.0), env.duty * 3600.0)
        if pulse.at_s >= self._stretch + STRETCH_S:
            self._stretch = pulse.at_s
            self._under("organoid day", self._day.add(pulse.at_s, 1.0) * STRETCH_S / 3600.0, env.day_h)
        begin, last = self._session or (pulse.at_s, pulse.at_s)
        pause = pulse.at_s - last
        if pause >= env.rest_s:
            begin = pulse.at_s
            self._under("rest", env.rest_s, pause)  # how near the shortest rest has come to its limit
        self._session = (begin, pulse.at_s)
        self._under("session", pulse.at_s - begin, env.session_s)
