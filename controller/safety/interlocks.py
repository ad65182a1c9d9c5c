"""Interlocks: level-triggered, evaluated once a second and at every decision (I1).

Input that is missing, stale, flat, future-dated or out of range counts as unsafe (I2). Pure: the memory from one
evaluation to the next is passed in and returned as a :class:`~controller.safety.terms.Watch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from controller.safety.terms import (
    Airless,
    Cause,
    Crossing,
    HeartLimits,
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
"""Maximum time (s) that a reading may lie in the future."""
FLAT_S = 180.0
"""Maximum time (s) without any change of a pH reading; after it the probe counts as stuck."""
STRIKES_WITHIN_S = 1800.0
"""Period (s) within which the trips of an interlock are counted together."""

NO_HEART_FLOW = "no_heart_flow"
"""With several hearts a full stop and the heart's name follow."""
CLOSED_VALVE = "closed_valve"
GAS_MIXTURE = "gas_mixture"
GAS_UNIT, PH_UNIT = "mL/min", "pH"
"""Units of the readings that the mixture is judged by. A reading in another unit counts as none."""


def doubt(reading: KernelReading | None, now_s: float, rule: Interlock) -> str | None:
    """Return why the newest good reading cannot be trusted, or None if it can (I2).

    A suspect or missing reading renews nothing: the last good reading is judged, with its age.
    """
    if reading is None:
        return "never read"
    if (good := reading.good) is None:
        return f"no good reading: the last one is {reading.quality.value}"
    reading = good
    if reading.unit != rule.unit:
        return f"in {reading.unit or 'no unit'}, and its limits are in {rule.unit or 'no unit'}"
    if not isfinite(reading.value):
        return "not a number"
    age_s = now_s - reading.at_s
    if not age_s <= rule.stale_s:
        return f"stale: {age_s:.0f} s old"
    if age_s < -FUTURE_S:
        return f"from the future: {-age_s:.0f} s ahead"
    if not rule.valid_min <= reading.value <= rule.valid_max:
        return f"out of range: {reading.value:g}"
    if rule.flat_s and now_s - reading.same_since_s > rule.flat_s:
        return f"flat: exactly {reading.value:g} for {now_s - reading.same_since_s:.0f} s"
    return None


def evaluate(view: View, limits: Limits) -> tuple[Trip, ...]:
    """Return every interlock that is tripped at this moment."""
    return _present(view, limits)[0]


def _present(view: View, limits: Limits) -> tuple[tuple[Trip, ...], tuple[Crossing, ...]]:
    """Return the interlocks that are tripped now, and the limits that one reading alone has crossed."""
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
    trips.extend(_no_flow(view, limits))
    trips.extend(_closed_valves(view, limits))
    if limits.mixture is not None and (trip := _mixture(view, limits.mixture)) is not None:
        trips.append(trip)
    return tuple(trips), tuple(crossings)


def _no_flow(view: View, limits: Limits) -> Iterator[Trip]:
    """Yield a trip for each heart that is not known to run.

    Without circulation nothing mixes or feeds: no medium may be drawn from the tissue meanwhile.
    """
    stand = {heart.pump: why for heart in limits.hearts if (why := standing(heart, view)) is not None}
    if not stand:
        return
    mixed = {heart.loop for heart in limits.hearts if heart.pump not in stand}
    for heart in limits.hearts:
        if heart.pump in stand:
            draws = heart.draws if heart.loop in mixed else (*heart.draws, *heart.loop_draws)
            yield _trip(heart.interlock, heart.pump, stand[heart.pump], view.now_s, draws, Cause.LOW)


def watch(view: View, limits: Limits) -> Watch:
    """Evaluate all interlocks and return their new memory: present, held and latched trips, strikes, crossings."""
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
    lasting = _lasting(before, view, limits, rules, strikes)
    trips = []
    for trip in present:
        key = (trip.interlock, trip.point)
        known = before.pop(key, None)
        counted = _counted(trip, known, rules.get(trip.interlock), strikes, now_s)
        trips.append(_continued(counted, known, lasting.pop(key, None)))
    trips.extend(lasting.values())
    return Watch(tuple(trips), tuple(strikes), rich_since_s, airless, crossings)


def _lasting(
    before: Mapping[tuple[str, str], Trip],
    view: View,
    limits: Limits,
    rules: Mapping[str, Interlock],
    strikes: Sequence[tuple[str, float]],
) -> dict[tuple[str, str], Trip]:
    """Return the remembered trips that last even if their cause is gone, by interlock and point."""
    lasting = {}
    for key, trip in before.items():
        # A bypass suspends a trip that is present or held; a latched trip still needs its reset (I5).
        if trip.latched or trip.interlock not in view.bypassed:
            after = _outlasting(trip, view.now_s, rules.get(trip.interlock), strikes, limits, view.watch.no_air)
            if after is not None:
                lasting[key] = after
    return lasting


def _counted(
    trip: Trip, known: Trip | None, rule: Interlock | None, strikes: list[tuple[str, float]], now_s: float
) -> Trip:
    """Add a strike if `trip` is new, and return the trip, latched if its strikes are used up."""
    if rule is None or not rule.strikes or trip.cause is not Cause.HIGH:
        return trip
    if known is None or not known.present or known.cause is not Cause.HIGH:
        strikes.append((rule.name, now_s))
    if not rule.max_hold_s and sum(name == rule.name for name, _ in strikes) >= rule.strikes:
        return replace(trip, latched=True)
    return trip


def _continued(trip: Trip, known: Trip | None, lasts: Trip | None) -> Trip:
    """Return a present trip with the start and latch of the one remembered (`known`).

    If the trip that still lasts is the more severe one, it stays: a sensor that fails meanwhile does not loosen it.
    """
    if known is None:
        return trip
    if lasts is not None and _SEVERITY[lasts.response] > _SEVERITY[trip.response]:
        return lasts
    return replace(trip, since_s=known.since_s, latched=trip.latched or known.latched)


def standing(heart: HeartLimits, view: View) -> str | None:
    """Return why a heart is not known to run, or None if it runs."""
    seen = view.seen.get(heart.pump)
    if seen is None:
        return "its status was never read"
    if not view.now_s - seen.at_s <= heart.stale_s:
        return f"its status is {view.now_s - seen.at_s:.0f} s old"
    return None if seen.on else f"{heart.title} stands"


def is_open(valve: str, view: View, limits: Limits) -> bool:
    """Return whether a valve reports that it is open, in a status that is not stale."""
    seen = view.seen.get(valve)
    return seen is not None and seen.on and view.now_s - seen.at_s <= limits.switch_stale_s.get(valve, 0.0)


def _debounced(
    rule: Interlock, view: View, before: Trip | None, crossing: Crossing | None
) -> tuple[Trip | None, Crossing | None]:
    """Judge one interlock with its debounce.

    A suspect reading beyond the limit counts like a good one. A suspect reading inside it counts as none: it neither
    clears the trip nor delays it.

    Args:
        rule: the interlock.
        view: what the kernel knows.
        before: the trip of this interlock at the last evaluation.
        crossing: the crossing that still waits for a second reading.

    Returns:
        The trip, or None; and the crossing that waits for confirmation, or None.
    """
    reading, now_s = view.readings.get(rule.point), view.now_s
    why = doubt(reading, now_s, rule)
    if why is not None or reading is None:
        return _trip(rule.name, rule.point, why or "", now_s, rule.trips, Cause.DOUBT, rule.on_doubt), None
    standing = _standing(before)
    good = reading.quality is Quality.GOOD
    beyond = _level(rule, reading, now_s, before) if good or _suspected(reading, now_s, rule) else None
    if beyond is not None:
        return _leaving(rule, reading, now_s, standing, crossing, beyond)
    if good:
        return _returning(rule, reading, now_s, standing, crossing)
    if (expired := _expired(rule, crossing, now_s)) is not None:
        return expired, None
    return _kept(rule, standing, now_s), crossing


def _standing(before: Trip | None) -> Trip | None:
    return before if before is not None and before.present else None


def _leaving(
    rule: Interlock,
    reading: KernelReading,
    now_s: float,
    standing: Trip | None,
    crossing: Crossing | None,
    beyond: Trip,
) -> tuple[Trip | None, Crossing | None]:
    """Judge a reading beyond the limit: it trips once confirmed, or at the end of the debounce time."""
    if rule.debounce_s <= 0.0 or (standing is not None and standing.cause is beyond.cause):
        return beyond, None
    if crossing is None or crossing.cause is not beyond.cause:
        crossing = Crossing(rule.name, beyond.cause, now_s, reading.at_s, beyond.detail)
    if reading.at_s > crossing.reading_s or now_s - crossing.since_s >= rule.debounce_s:
        return beyond, None
    return _kept(rule, standing, now_s), crossing


def _returning(
    rule: Interlock, reading: KernelReading, now_s: float, standing: Trip | None, crossing: Crossing | None
) -> tuple[Trip | None, Crossing | None]:
    """Judge a good reading inside the limit: a trip clears when a second one confirms it."""
    if standing is None or rule.debounce_s <= 0.0:
        return None, None
    if crossing is None or crossing.cause is not None:
        crossing = Crossing(rule.name, None, now_s, reading.at_s)
    if reading.at_s > crossing.reading_s:
        return None, None
    return _kept(rule, standing, now_s), crossing


def _expired(rule: Interlock, crossing: Crossing | None, now_s: float) -> Trip | None:
    """Return the trip of a crossing whose debounce time ended without a further good reading."""
    if crossing is None or crossing.cause is None or not now_s - crossing.since_s >= rule.debounce_s:
        return None
    return _crossed(rule, crossing, crossing.cause, now_s, "no good reading has come since")


def _kept(rule: Interlock, standing: Trip | None, now_s: float) -> Trip | None:
    """Return the trip that stands, seen now, or None if none stands."""
    if standing is None:
        return None
    return _trip(rule.name, rule.point, standing.detail, now_s, rule.trips, standing.cause, standing.response)


def unconfirmed(watch: Watch, limits: Limits, now_s: float) -> Iterator[Trip]:
    """Yield limits that one reading alone has crossed: not tripped yet, but no new action may begin meanwhile."""
    rules = {rule.name: rule for rule in limits.interlocks}
    for crossing in watch.crossings:
        if crossing.cause is not None:
            yield _crossed(rules[crossing.interlock], crossing, crossing.cause, now_s, "not confirmed yet")


def _crossed(rule: Interlock, crossing: Crossing, cause: Cause, now_s: float, note: str) -> Trip:
    response = rule.on_high if cause is Cause.HIGH else rule.on_low
    return _trip(rule.name, rule.point, f"{crossing.detail} ({note})", now_s, rule.trips, cause, response)


def _suspected(reading: KernelReading, now_s: float, rule: Interlock) -> bool:
    """Return whether the reading is a fresh suspect value, which may count against the rig."""
    fresh = -FUTURE_S <= now_s - reading.at_s <= rule.stale_s
    return reading.quality is Quality.SUSPECT and reading.unit == rule.unit and isfinite(reading.value) and fresh


def _level(rule: Interlock, reading: KernelReading, now_s: float, before: Trip | None) -> Trip | None:
    """Compare one value with the limits, or with the clearing levels where a trip stands already."""
    value = reading.value
    was = None if before is None else before.cause
    high = rule.high - (rule.deadband if was is Cause.HIGH else 0.0)
    low = rule.low + (rule.deadband if was is Cause.LOW else 0.0)
    # The detail names the limit itself, not the clearing level, while the value is beyond both.
    if value > high:
        why = f"{value:g} is above {rule.high if value > rule.high else high:g}"
        return _trip(rule.name, rule.point, why, now_s, rule.trips, Cause.HIGH, rule.on_high)
    if value < low:
        why = f"{value:g} is below {rule.low if value < rule.low else low:g}"
        return _trip(rule.name, rule.point, why, now_s, rule.trips, Cause.LOW, rule.on_low)
    return None


def _closed_valves(view: View, limits: Limits) -> Iterator[Trip]:
    """Yield a trip for each pump that runs against a valve not known to be open."""
    for transfer in view.underway:
        pump = limits.pumps.get(transfer.actuator)
        if pump is None or pump.valve is None or not transfer.running or is_open(pump.valve, view, limits):
            continue
        why = f"{transfer.actuator} runs and its valve is not known to be open"
        yield _trip(CLOSED_VALVE, pump.valve, why, view.now_s, (transfer.actuator,), Cause.LOW)


def _rich_since(view: View, limits: Limits) -> float | None:
    """Return since when the gas has held too much CO2, or None."""
    if limits.mixture is None or _too_much_co2(view, limits.mixture) is None:
        return None
    return view.now_s if view.watch.rich_since_s is None else view.watch.rich_since_s


def _airless(view: View, limits: Limits, present: Sequence[Trip]) -> Airless | None:
    """Return whether air counts as closed from now on; see :class:`Airless`."""
    mixture, was = limits.mixture, view.watch.airless
    if mixture is None or fresh_flow(view, mixture.air, mixture) is not None:
        return None
    shut = any(trip.interlock == GAS_MIXTURE for trip in present)
    if was is None:
        held = any(trip.interlock == GAS_MIXTURE for trip in view.watch.trips)
        return Airless(mixture.trial_s) if shut or held else None
    if was.trusted:
        return Airless(min(2.0 * was.wait_s, mixture.max_trial_s)) if shut else was
    return _air_trial(view, mixture, was, shut)


def _air_trial(view: View, mixture: Mixture, was: Airless, shut: bool) -> Airless:
    """trust that air flows unread once the medium has been too alkaline for the trial time, and CO2 was not shut."""
    ph = _trusted_ph(view, mixture.ph, mixture.ph_stale_s)
    if shut or ph is None or ph <= mixture.ph_alkaline:
        return replace(was, alkaline_since_s=None)
    since_s = view.now_s if was.alkaline_since_s is None else was.alkaline_since_s
    return Airless(was.wait_s, since_s, trusted=view.now_s - since_s >= was.wait_s)


def _mixture(view: View, mixture: Mixture) -> Trip | None:
    """Return the trip that shuts CO2, or None."""
    since_s = view.watch.rich_since_s
    why = _air_lost(view, mixture) if fresh_flow(view, mixture.air, mixture) is None else None
    if why is None and since_s is not None and view.now_s - since_s >= mixture.delay_s:
        why = _too_much_co2(view, mixture)
    return None if why is None else _trip(GAS_MIXTURE, mixture.co2, why, view.now_s, (mixture.co2,), Cause.HIGH)


def _air_lost(view: View, mixture: Mixture) -> str | None:
    """Return why CO2 must be shut while the air flow is unknown, judged by pH without delay.

    In CO2 alone the medium turns acid within a minute; without CO2 it turns alkaline within several.
    """
    co2 = fresh_flow(view, mixture.co2, mixture)
    if not view.watch.no_air and (co2 is None or co2 <= 0.0):
        return None
    ph = _trusted_ph(view, mixture.ph, mixture.ph_stale_s)
    why = f"{mixture.air} has no reading: it may be without power, and closed"
    if ph is None:
        return None if view.watch.no_air else f"{why}; nor does {mixture.ph} tell"
    return None if ph >= mixture.ph_shut else f"{why}; pH {ph:.2f} is below {mixture.ph_shut:.2f}"


def _too_much_co2(view: View, mixture: Mixture) -> str | None:
    """Return why the measured gas holds too much CO2, or None.

    Oxygen without a fresh reading counts as none. CO2 without a fresh reading could not be shut, so nothing is said.
    """
    co2, air, o2 = (fresh_flow(view, point, mixture) for point in (mixture.co2, mixture.air, mixture.o2))
    if co2 is None or (air is None and not view.watch.no_air):
        return None
    total = co2 + (air or 0.0) + (o2 or 0.0)
    if total <= 0.0 or co2 / total <= mixture.trip_co2:
        return None
    return f"CO2 is {co2 / total:.0%} of the gas, more than {mixture.trip_co2:.0%}: air fails"


def _trusted_ph(view: View, point: str, stale_s: float) -> float | None:
    """Return the newest good reading of pH if it is fresh and not flat, else None."""
    newest = view.readings.get(point)
    reading = None if newest is None else newest.good
    if reading is None or reading.unit != PH_UNIT or not isfinite(reading.value):
        return None
    fresh = -FUTURE_S <= view.now_s - reading.at_s <= stale_s
    return reading.value if fresh and view.now_s - reading.same_since_s <= FLAT_S else None


def fresh_flow(view: View, point: str, mixture: Mixture) -> float | None:
    """Return the newest good reading of a gas flow (mL/min) if it is fresh, else None.

    A flow whose last read failed counts as unknown at once: in CO2 alone pH falls by 0.3 in ten seconds. pH then decides,
    so one lost reply shuts nothing by itself.
    """
    newest = view.readings.get(point)
    lost = newest is None or newest.quality is Quality.MISSING
    reading = None if newest is None or lost else newest.good
    if reading is None or reading.unit != GAS_UNIT or not isfinite(reading.value):
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


_SEVERITY = {Response.ALARM: 0, Response.BASAL: 1, Response.OFF: 2}


def _outlasting(
    trip: Trip,
    now_s: float,
    rule: Interlock | None,
    strikes: Sequence[tuple[str, float]],
    limits: Limits,
    airless: bool,
) -> Trip | None:
    """Return what remains of a trip whose cause is gone, or None. Doubt ends with the first trusted reading."""
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
    hold_s = _hold_s(rule, strikes)
    if since_s < hold_s:
        return replace(trip, present=False)
    return replace(trip, present=False, response=Response.BASAL) if since_s < hold_s + rule.probation_s else None


def _hold_s(rule: Interlock, strikes: Sequence[tuple[str, float]]) -> float:
    """Return how long a trip is held after its cause (s); doubled with each strike beyond the permitted number."""
    if not rule.max_hold_s:
        return rule.hold_s
    beyond = sum(name == rule.name for name, _ in strikes) - rule.strikes + 1
    return min(rule.hold_s * 2.0 ** max(beyond, 0), rule.max_hold_s)
