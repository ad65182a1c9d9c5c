"""Interlocks: levels looked at once a second and at every decision, never edges (I1).

Input that is missing, stale, flat, from the future or out of range counts as unsafe (I2). Pure: what they remember
from one moment to the next goes in and comes out as a :class:`~controller.safety.terms.Watch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from controller.safety.terms import (
    Airless,
    Cause,
    Crossing,
    Interlock,
    KernelReading,
    Limits,
    Mixture,
    Response,
    Trip,
    View,
    Watch,
)
from drivers.commands import Quality

FUTURE_S = 1.0
"""A reading from later than this after now is not believed."""
FLAT_S = 180.0
"""A pH probe that says exactly the same for so long has stopped."""
STRIKES_WITHIN_S = 1800.0
"""Trips on a level are counted together when they come within so long of each other."""

NO_HEART_FLOW = "no_heart_flow"
CLOSED_VALVE = "closed_valve"
GAS_MIXTURE = "gas_mixture"


def doubt(reading: KernelReading | None, now_s: float, rule: Interlock) -> str | None:
    """Say why the newest good reading cannot be trusted, or None when it can (I2).

    A reading that is suspect or missing does not renew anything: what is judged is the last good one, with its age.
    """
    if reading is None:
        return "never read"
    if (good := reading.good) is None:
        return f"no good reading: the last one is {reading.quality.value}"
    reading = good
    if not isfinite(reading.value):
        return "not a number"
    age_s = now_s - reading.at_s
    if not age_s <= rule.stale_s:
        return f"stale: {age_s:.0f} s old"
    if age_s < -FUTURE_S:
        return f"from the future: {-age_s:.0f} s ahead"
    if not rule.valid_low <= reading.value <= rule.valid_high:
        return f"out of range: {reading.value:g}"
    if rule.flat_s and now_s - reading.same_since_s > rule.flat_s:
        return f"flat: exactly {reading.value:g} for {now_s - reading.same_since_s:.0f} s"
    return None


def evaluate(view: View, limits: Limits) -> tuple[Trip, ...]:
    """Every interlock that is not content at this moment."""
    return _present(view, limits)[0]


def _present(view: View, limits: Limits) -> tuple[tuple[Trip, ...], tuple[Crossing, ...]]:
    """Every interlock that is not content at this moment, and the levels that one reading alone has crossed."""
    before = {trip.interlock: trip for trip in view.watch.trips}
    pending = {crossing.interlock: crossing for crossing in view.watch.crossings}
    trips: list[Trip] = []
    crossings: list[Crossing] = []
    for rule in limits.interlocks:
        if rule.name in view.bypassed:
            continue
        trip, crossing = _debounced(rule, view, before.get(rule.name), pending.get(rule.name))
        if trip is not None:
            trips.append(trip)
        if crossing is not None:
            crossings.append(crossing)
    if (why := standing(view, limits)) is not None:
        # A heart that stands mixes and feeds nothing: medium must not be drawn away from the tissue meanwhile.
        draws = () if limits.draw is None else (limits.draw,)
        trips.append(_trip(NO_HEART_FLOW, limits.heart, why, view.now_s, draws, Cause.LOW))
    trips.extend(_closed_valves(view, limits))
    if limits.mixture is not None and (trip := _mixture(view, limits.mixture)) is not None:
        trips.append(trip)
    return tuple(trips), tuple(crossings)


def watch(view: View, limits: Limits) -> Watch:
    """What there is now and what has to be remembered: since when, held trips, strikes and latches."""
    now_s = view.now_s
    memory = view.watch
    rich_since_s = _rich_since(view, limits)
    present, crossings = _present(view, limits)
    airless = _airless(view, limits, present)
    if not present and not memory.trips and not memory.strikes:
        unchanged = (rich_since_s, airless, crossings) == (memory.rich_since_s, memory.airless, memory.crossings)
        return memory if unchanged else Watch(rich_since_s=rich_since_s, airless=airless, crossings=crossings)
    before = {(trip.interlock, trip.point): trip for trip in memory.trips}
    rules = {rule.name: rule for rule in limits.interlocks}
    strikes = [strike for strike in memory.strikes if now_s - strike[1] <= STRIKES_WITHIN_S]
    lasting = {
        key: after
        for key, trip in before.items()
        # A bypass sets aside what is present or held; what is latched still needs its reset (I5).
        if (trip.latched or trip.interlock not in view.bypassed)
        and (after := _outlasting(trip, now_s, rules.get(trip.interlock), strikes, limits, memory.no_air)) is not None
    }
    trips = []
    for trip in present:
        lasts = lasting.pop((trip.interlock, trip.point), None)
        known = before.pop((trip.interlock, trip.point), None)
        rule = rules.get(trip.interlock)
        if rule is not None and rule.strikes and trip.cause is Cause.HIGH:
            if known is None or not known.present or known.cause is not Cause.HIGH:
                strikes.append((rule.name, now_s))
            if not rule.hold_most_s and sum(name == rule.name for name, _ in strikes) >= rule.strikes:
                trip = replace(trip, latched=True)
        if known is not None:
            if lasts is not None and _SEVERITY[lasts.response] > _SEVERITY[trip.response]:
                trip = lasts  # a sensor that fails meanwhile does not loosen it
            else:
                trip = replace(trip, since_s=known.since_s, latched=trip.latched or known.latched)
        trips.append(trip)
    trips.extend(lasting.values())
    return Watch(tuple(trips), tuple(strikes), rich_since_s, airless, crossings)


def standing(view: View, limits: Limits) -> str | None:
    """Why the heart cannot be said to flow, or None when it flows."""
    heart = view.seen.get(limits.heart)
    if heart is None:
        return "its status was never read"
    if not view.now_s - heart.at_s <= limits.heart_stale_s:
        return f"its status is {view.now_s - heart.at_s:.0f} s old"
    return None if heart.on else "the heart stands"


def is_open(valve: str, view: View, limits: Limits) -> bool:
    """Whether a valve says that it is open, and has said so lately."""
    seen = view.seen.get(valve)
    return seen is not None and seen.on and view.now_s - seen.at_s <= limits.switch_stale_s.get(valve, 0.0)


def _debounced(
    rule: Interlock, view: View, before: Trip | None, crossing: Crossing | None
) -> tuple[Trip | None, Crossing | None]:
    """Judge one interlock; returns its trip, and what waits for a second reading to confirm it.

    A suspect reading beyond the level counts like any other. One inside it counts as none: it neither clears nor delays.
    """
    reading, now_s = view.readings.get(rule.point), view.now_s
    why = doubt(reading, now_s, rule)
    if why is not None or reading is None:
        return _trip(rule.name, rule.point, why or "", now_s, rule.trips, Cause.DOUBT, rule.on_doubt), None
    standing = before if before is not None and before.present else None
    good = reading.quality is Quality.GOOD
    beyond = _level(rule, reading, now_s, before) if good or _suspected(reading, now_s, rule) else None
    if beyond is not None:
        if rule.debounce_s <= 0.0 or (standing is not None and standing.cause is beyond.cause):
            return beyond, None
        if crossing is None or crossing.cause is not beyond.cause:
            crossing = Crossing(rule.name, beyond.cause, now_s, reading.at_s, beyond.detail)
        if reading.at_s > crossing.reading_s or now_s - crossing.since_s >= rule.debounce_s:
            return beyond, None
    elif good:
        if standing is None or rule.debounce_s <= 0.0:
            return None, None
        if crossing is None or crossing.cause is not None:
            crossing = Crossing(rule.name, None, now_s, reading.at_s)
        if reading.at_s > crossing.reading_s:
            return None, None
    elif crossing is not None and crossing.cause is not None and now_s - crossing.since_s >= rule.debounce_s:
        return _crossed(rule, crossing, crossing.cause, now_s, "no good reading has come since"), None
    if standing is None:
        return None, crossing
    held = _trip(rule.name, rule.point, standing.detail, now_s, rule.trips, standing.cause, standing.response)
    return held, crossing


def unconfirmed(watch: Watch, limits: Limits, now_s: float) -> Iterator[Trip]:
    """Yield what one reading alone says against the rig: no trip yet, but nothing new may begin meanwhile."""
    rules = {rule.name: rule for rule in limits.interlocks}
    for crossing in watch.crossings:
        if crossing.cause is not None:
            yield _crossed(rules[crossing.interlock], crossing, crossing.cause, now_s, "not confirmed yet")


def _crossed(rule: Interlock, crossing: Crossing, cause: Cause, now_s: float, note: str) -> Trip:
    response = rule.on_high if cause is Cause.HIGH else rule.on_low
    return _trip(rule.name, rule.point, f"{crossing.detail} ({note})", now_s, rule.trips, cause, response)


def _suspected(reading: KernelReading, now_s: float, rule: Interlock) -> bool:
    """Whether there is a suspect value of now that may count against the rig."""
    fresh = -FUTURE_S <= now_s - reading.at_s <= rule.stale_s
    return reading.quality is Quality.SUSPECT and isfinite(reading.value) and fresh


def _level(rule: Interlock, reading: KernelReading, now_s: float, before: Trip | None) -> Trip | None:
    """Compare one value with the levels; where a trip stands already, with where it clears."""
    value = reading.value
    was = None if before is None else before.cause
    high = rule.high - (rule.deadband if was is Cause.HIGH else 0.0)
    low = rule.low + (rule.deadband if was is Cause.LOW else 0.0)
    # The limit that was passed is told, not where the trip clears, as long as the value is beyond both.
    if value > high:
        why = f"{value:g} is above {rule.high if value > rule.high else high:g}"
        return _trip(rule.name, rule.point, why, now_s, rule.trips, Cause.HIGH, rule.on_high)
    if value < low:
        why = f"{value:g} is below {rule.low if value < rule.low else low:g}"
        return _trip(rule.name, rule.point, why, now_s, rule.trips, Cause.LOW, rule.on_low)
    return None


def _closed_valves(view: View, limits: Limits) -> Iterator[Trip]:
    """A pump that runs against a valve that is not known to be open."""
    for transfer in view.underway:
        pump = limits.pumps.get(transfer.actuator)
        if pump is None or pump.valve is None or not transfer.running or is_open(pump.valve, view, limits):
            continue
        why = f"{transfer.actuator} runs and its valve is not known to be open"
        yield _trip(CLOSED_VALVE, pump.valve, why, view.now_s, (transfer.actuator,), Cause.LOW)


def _rich_since(view: View, limits: Limits) -> float | None:
    """Since when the gas has held too much CO2; None while it does not."""
    if limits.mixture is None or _too_much_co2(view, limits.mixture) is None:
        return None
    return view.now_s if view.watch.rich_since_s is None else view.watch.rich_since_s


def _airless(view: View, limits: Limits, present: Sequence[Trip]) -> Airless | None:
    """Whether air is to be taken for closed from now on, see :class:`Airless`."""
    mixture, was = limits.mixture, view.watch.airless
    if mixture is None or heard_flow(view, mixture.air, mixture) is not None:
        return None
    shut = any(trip.interlock == GAS_MIXTURE for trip in present)
    if was is None:
        held = any(trip.interlock == GAS_MIXTURE for trip in view.watch.trips)
        return Airless(mixture.trial_s) if shut or held else None
    if was.trusted:
        return Airless(min(2.0 * was.wait_s, mixture.trial_most_s)) if shut else was
    ph = _believed(view, mixture.ph, mixture.ph_stale_s)
    if shut or ph is None or ph <= mixture.ph_alkaline:
        return replace(was, alkaline_since_s=None)
    since_s = view.now_s if was.alkaline_since_s is None else was.alkaline_since_s
    return Airless(was.wait_s, since_s, trusted=view.now_s - since_s >= was.wait_s)


def _mixture(view: View, mixture: Mixture) -> Trip | None:
    """CO2 that must not flow."""
    since_s = view.watch.rich_since_s
    why = _unheard_air(view, mixture) if heard_flow(view, mixture.air, mixture) is None else None
    if why is None and since_s is not None and view.now_s - since_s >= mixture.delay_s:
        why = _too_much_co2(view, mixture)
    return None if why is None else _trip(GAS_MIXTURE, mixture.co2, why, view.now_s, (mixture.co2,), Cause.HIGH)


def _unheard_air(view: View, mixture: Mixture) -> str | None:
    """Judged by pH, at once: in CO2 alone the medium is acid within a minute, without CO2 alkaline within several."""
    co2 = heard_flow(view, mixture.co2, mixture)
    if not view.watch.no_air and (co2 is None or co2 <= 0.0):
        return None
    ph = _believed(view, mixture.ph, mixture.ph_stale_s)
    why = f"{mixture.air} is not heard: it may be without power, and closed"
    if ph is None:
        return None if view.watch.no_air else f"{why}; nor does {mixture.ph} tell"
    return None if ph >= mixture.ph_shut else f"{why}; pH {ph:.2f} is below {mixture.ph_shut:.2f}"


def _too_much_co2(view: View, mixture: Mixture) -> str | None:
    """Judged by what is measured; oxygen that is not heard counts as none. CO2 that is not heard could not be shut."""
    co2, air, o2 = (heard_flow(view, point, mixture) for point in (mixture.co2, mixture.air, mixture.o2))
    if co2 is None or (air is None and not view.watch.no_air):
        return None
    total = co2 + (air or 0.0) + (o2 or 0.0)
    if total <= 0.0 or co2 / total <= mixture.trip_co2:
        return None
    return f"CO2 is {co2 / total:.0%} of the gas, more than {mixture.trip_co2:.0%}: air fails"


def _believed(view: View, point: str, stale_s: float) -> float | None:
    """Return the newest good reading while it is fresh and alive, else None."""
    newest = view.readings.get(point)
    reading = None if newest is None else newest.good
    if reading is None or not isfinite(reading.value):
        return None
    fresh = -FUTURE_S <= view.now_s - reading.at_s <= stale_s
    return reading.value if fresh and view.now_s - reading.same_since_s <= FLAT_S else None


def heard_flow(view: View, point: str, mixture: Mixture) -> float | None:
    """Return the newest good reading of a flow while it is fresh, else None.

    A flow that could not be read at the last attempt is not heard, at once: in CO2 alone pH falls by 0.3 in ten seconds.
    pH then decides, so that a reply that was lost shuts nothing by itself.
    """
    newest = view.readings.get(point)
    lost = newest is None or newest.quality is Quality.MISSING
    reading = None if newest is None or lost else newest.good
    if reading is None or not isfinite(reading.value):
        return None
    return max(reading.value, 0.0) if -FUTURE_S <= view.now_s - reading.at_s <= mixture.stale_s else None


def _trip(
    name: str,
    point: str,
    detail: str,
    now_s: float,
    actuators: tuple[str, ...],
    cause: Cause,
    response: Response = Response.OFF,
) -> Trip:
    return Trip(name, point, detail, now_s, actuators, False, cause, response, now_s)


_SEVERITY = {Response.TELL: 0, Response.BASAL: 1, Response.OFF: 2}


def _outlasting(
    trip: Trip,
    now_s: float,
    rule: Interlock | None,
    strikes: Sequence[tuple[str, float]],
    limits: Limits,
    airless: bool,
) -> Trip | None:
    """What is left of a trip when its cause is gone, or None. Doubt ends as soon as the reading is back."""
    if trip.latched:
        return replace(trip, present=False)
    if trip.cause is not Cause.HIGH:
        return None
    since_s = now_s - trip.seen_s
    if trip.interlock == GAS_MIXTURE and limits.mixture is not None:
        hold_s = limits.mixture.airless_hold_s if airless else limits.mixture.hold_s
        return replace(trip, present=False) if since_s < hold_s else None
    if rule is None:
        return None
    hold_s = rule.hold_s
    if rule.hold_most_s:
        beyond = sum(name == rule.name for name, _ in strikes) - rule.strikes + 1
        hold_s = min(hold_s * 2.0 ** max(beyond, 0), rule.hold_most_s)
    if since_s < hold_s:
        return replace(trip, present=False)
    return replace(trip, present=False, response=Response.BASAL) if since_s < hold_s + rule.probation_s else None
