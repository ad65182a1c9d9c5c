"""One step of many rigs: the mechanisms, composed symmetrically (Strang).

Each mechanism is of second order in dt. The whole falls to first order at small steps, for the tissue's feedback on what
it lives in is taken once a step (measured in docs/validation.md).

Lines forward for half a step, gas for half, tissue and turnover for the whole, gas for half, lines backward for half. Each
line by itself is exact (its source only loses, so what enters it is steady); gas is exponential; the tissue goes by the
midpoint rule with what it may take bounded by what is there, so that nothing becomes negative.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, pi

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, dialysis, gas, heat, hydraulics, membranes, organoid, sphere, turnover
from sim.plant.columns import (
    AGE,
    ALB,
    ALK,
    AMBIENT,
    AMM,
    ARRIVED,
    BATH,
    BATH_GOAL,
    BATH_PER_S,
    BREATHES,
    BUBBLE,
    CAPACITY,
    CAR,
    CELL_UL,
    CHAMBER,
    CHAMBER_FULL_UL,
    CLOG,
    CO2_FRACTION,
    COLUMNS,
    COMMAND,
    CORE_M,
    COUNT,
    DEAD,
    DIALYSES,
    DRIED,
    DRY,
    EVAPORATION,
    EVENTS,
    FILTER,
    FILTER_KPA,
    FILTERED,
    FLOW_UL_S,
    FOULING,
    FOULING_PER_UL,
    GAIN,
    GAS,
    GLC,
    GLN,
    HEATER_W,
    INS,
    JACKET_W_PER_K,
    KLA,
    KOA_AT_UL_S,
    KOA_UL_S,
    LAC,
    LDH,
    LEAK,
    LEAKING,
    LIQ,
    LIVE,
    METABOLISM,
    MIC,
    MOVED,
    O2_FRACTION,
    OPEN,
    OSM,
    OVERFLOW,
    OXY,
    OXYGEN_SURFACE,
    PAR,
    PRESSURE,
    PUMP,
    RESISTANCE,
    RETURN,
    RETURNS,
    REVOLUTION_UL,
    REVOLUTIONS,
    SCALE,
    SOURCE,
    SPILLS_TO,
    TARGET,
    TEMPERATURE,
    TORN,
    TRO,
    TUBE_KLA,
    TURNOVER,
    UPTAKE,
    USE,
    VIABILITY,
    VOLUME_MM3,
    WATER_UL_S,
    WORN,
)  # fmt: skip
from sim.plant.compiled import SOURCES, compiled, kept

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]

LEAST_UL = 1e-6
"""Less liquid than this has no concentration."""


@compiled
def command_lines(links: I8, lines: F8, body: F8, dt_s: float) -> None:
    """What each pump moves in this step, against what pressure; wear counts on."""
    for number in range(lines.shape[0]):
        line = lines[number]
        line[PRESSURE] = 0.0
        if line[COMMAND] == 0.0:
            line[FLOW_UL_S] = 0.0
            continue
        turned = abs(line[COMMAND]) / line[REVOLUTION_UL] * dt_s / 60.0
        # Tubing and filter as they will be in the middle of the step.
        free = (
            line[COMMAND] * line[GAIN] * hydraulics.wear(line[REVOLUTIONS] + 0.5 * turned) * max(0.0, 1.0 - line[WORN])
        )
        line[REVOLUTIONS] += turned
        resistance = line[RESISTANCE]
        if links[number, FILTERED] == 1:
            passing = abs(line[FLOW_UL_S]) * 0.5 * dt_s
            fouling = min(1e9, membranes.fouled(body[FOULING], body[FOULING_PER_UL] * passing, membranes.LAW))
            whole = body[FILTER_KPA] * fouling * max(1.0, body[CLOG])
            resistance += whole * (membranes.TORN_RESISTANCE if body[TORN] > 0.0 else 1.0)
        flow = hydraulics.loaded(free, resistance) * line[SCALE] if line[OPEN] > 0.0 else 0.0
        line[FLOW_UL_S] = flow / 60.0
        if free != 0.0:
            line[PRESSURE] = hydraulics.P_STALL_KPA * max(0.0, 1.0 - abs(flow / free))
            if free < 0.0:  # the gauge sits where the pump delivers: a pump that turns backwards sucks there
                line[PRESSURE] = -line[PRESSURE]


@compiled
def into_chamber(vessels: F8, body: F8, places: I8, arriving: F8) -> None:
    """Fill the chamber; once it is full it is stirred, and what is too much runs over, exactly for a steady inflow."""
    chamber, beyond = vessels[places[CHAMBER]], vessels[places[SPILLS_TO]]
    full = body[CHAMBER_FULL_UL]
    volume = arriving[LIQ]
    room = max(0.0, full - chamber[LIQ])
    if volume <= room:
        for column in range(COLUMNS):
            chamber[column] += arriving[column]
        return
    # A chamber that was overfull (it was not so at rest) first gives its surplus away.
    if chamber[LIQ] > full:
        share = 1.0 - full / chamber[LIQ]
        for column in range(COLUMNS):
            part = chamber[column] * share
            chamber[column] -= part
            beyond[column] += part
    first = room / volume
    turns = volume * (1.0 - first) / full
    stays = exp(-turns)
    mixes = (1.0 - stays) / turns if turns > 1e-9 else 1.0 - 0.5 * turns
    for column in range(COLUMNS):
        held = chamber[column] + arriving[column] * first
        rest = arriving[column] * (1.0 - first)
        now = held * stays + rest * mixes
        chamber[column] = now
        beyond[column] += held + rest - now


@compiled
def move(
    number: int, links: I8, vessels: F8, held: F8, lines: F8, body: F8, places: I8, tally: F8, scratch: F8, dt_s: float
) -> None:
    """One line, for `dt_s`: its source, its dead volume, its filter, its leak, its target."""
    line = lines[number]
    volume = abs(line[FLOW_UL_S]) * dt_s
    if volume <= 0.0:
        return
    backwards = line[FLOW_UL_S] < 0.0
    source = links[number, TARGET] if backwards else links[number, SOURCE]
    target = links[number, SOURCE] if backwards else links[number, TARGET]
    giver = vessels[source]
    air = min(line[BUBBLE], volume)
    line[BUBBLE] -= air
    wanted = volume - air
    taken = min(wanted, giver[LIQ])
    if taken < wanted * 0.999:
        if line[DRY] == 0.0:
            line[DRY] = 1.0
            line[DRIED] += 1.0
            body[EVENTS] += 1.0
    elif wanted > 0.0:
        line[DRY] = 0.0
    entering, leaving = scratch[0], scratch[1]
    share = taken / giver[LIQ] if giver[LIQ] > 0.0 else 0.0
    for column in range(COLUMNS):
        part = giver[column] * share
        entering[column] = part
        giver[column] -= part
    if share >= 1.0:
        for column in range(COLUMNS):
            giver[column] = 0.0
    line[MOVED] += taken
    if taken > 0.0 and entering[INS] > 0.0:
        lost = entering[INS] * turnover.insulin_lost(entering[ALB] / taken)
        entering[INS] -= lost
        tally[PUMP, INS] -= lost
        entering[PAR] += lost
        tally[PUMP, PAR] += lost
    hydraulics.pass_along(held[number], entering, leaving, volume / line[CELL_UL], backwards)
    for column in range(COLUMNS):
        # Rounding of a sum: nothing that leaves can be negative, but the charge of strong acid.
        if leaving[column] < 0.0 and column != ALK:
            leaving[column] = 0.0
    if links[number, FILTERED] == 1:
        torn = body[TORN] > 0.0
        stopped = 1.0 - membranes.TORN_PASSES if torn else membranes.RETENTION
        for column in (PAR, MIC):
            part = leaving[column] * stopped
            leaving[column] -= part
            tally[FILTER, column] -= part
        if not torn:
            # A blocked filter is a very large resistance, not an infinite one: the flow stays a number.
            grown = membranes.fouled(body[FOULING], body[FOULING_PER_UL] * leaving[LIQ], membranes.LAW)
            body[FOULING] = min(1e9, grown)
    if links[number, RETURNS] == 1 and not backwards:
        leaving[USE] += leaving[LIQ]
        tally[RETURN, USE] += leaving[LIQ]
    dialysed = links[number, DIALYSES]
    if dialysed >= 0 and not backwards and leaving[LIQ] > 0.0:
        koa_ul_s = dialysis.risen(line[KOA_UL_S], line[KOA_AT_UL_S], line[FLOW_UL_S])
        through_fibres(vessels[dialysed], leaving, koa_ul_s, line[FLOW_UL_S])
    if line[LEAKING] > 0.0 and leaving[LIQ] > 0.0:
        part = min(1.0, line[LEAKING] * dt_s / 60.0 / leaving[LIQ])
        for column in range(COLUMNS):
            lost = leaving[column] * part
            leaving[column] -= lost
            tally[LEAK, column] -= lost
    line[ARRIVED] += leaving[LIQ]
    if target == places[CHAMBER]:
        into_chamber(vessels, body, places, leaving)
    else:
        taker = vessels[target]
        for column in range(COLUMNS):
            taker[column] += leaving[column]


@compiled
def through_fibres(batch: F8, dialysate: F8, koa_ul_s: float, flow_ul_s: float) -> None:
    """What dialysate and the batch around the fibres exchange; the pressures are balanced, no water passes."""
    passed, volume = dialysate[LIQ], batch[LIQ]
    if volume < LEAST_UL:
        return
    share = dialysis.exchange_share(koa_ul_s, flow_ul_s, passed, volume)
    for column in dialysis.SMALL:
        crossed = (dialysate[column] / passed * volume - batch[column]) * share
        batch[column] += crossed
        dialysate[column] -= crossed
    # Basal medium has no insulin; what leaks is lost.
    leaked = batch[INS] * dialysis.exchange_share(dialysis.INSULIN_KOA * koa_ul_s, flow_ul_s, passed, volume)
    batch[INS] -= leaked
    dialysate[INS] += leaked


@compiled
def spill(vessels: F8, traits: F8, body: F8, places: I8, tally: F8, spilled: F8) -> None:
    """What a vessel cannot hold is on the bench."""
    for number in range(vessels.shape[0]):
        over = vessels[number, LIQ] - traits[number, CAPACITY]
        if over > 0.0 and number != places[CHAMBER]:
            spilled[number] += over
            body[EVENTS] += 1.0
            share = over / vessels[number, LIQ]
            for column in range(COLUMNS):
                lost = vessels[number, column] * share
                vessels[number, column] -= lost
                tally[OVERFLOW, column] -= lost


@compiled
def breathe(links: I8, traits: F8, vessels: F8, held: F8, lines: F8, body: F8, ph: F8, tally: F8, dt_s: float) -> None:
    """Gas exchange of open vessels and of silicone tubing, both with the lung's gas, which fills the housing [P]."""
    oxygen_fraction, co2_fraction = body[O2_FRACTION], body[CO2_FRACTION]
    for number in range(vessels.shape[0]):
        vessel = vessels[number]
        volume = vessel[LIQ]
        kla = traits[number, KLA]
        if kla <= 0.0 or volume < LEAST_UL:
            continue
        ph[number] = chemistry.ph_closed(vessel[ALK] / volume, vessel[CAR] / volume, ph[number])
        gain = gas.oxygen_gain(vessel[OXY] / volume, oxygen_fraction, kla, dt_s) * volume
        vessel[OXY] += gain
        tally[GAS, OXY] += gain
        gain = gas.carbon_gain(vessel[CAR] / volume, ph[number], co2_fraction, kla, dt_s) * volume
        gain = max(gain, -0.9 * vessel[CAR])
        vessel[CAR] += gain
        tally[GAS, CAR] += gain
    for number in range(lines.shape[0]):
        if links[number, BREATHES] == 0:
            continue
        guess = ph[links[number, SOURCE]]
        kla = lines[number, TUBE_KLA]
        for cell in range(held.shape[1]):
            content = held[number, cell]
            volume = content[LIQ]
            if volume < LEAST_UL:
                continue
            guess = chemistry.ph_closed(content[ALK] / volume, content[CAR] / volume, guess)
            gain = gas.oxygen_gain(content[OXY] / volume, oxygen_fraction, kla, dt_s) * volume
            content[OXY] += gain
            tally[GAS, OXY] += gain
            gain = gas.carbon_gain(content[CAR] / volume, guess, co2_fraction, kla, dt_s) * volume
            gain = max(gain, -0.9 * content[CAR])
            content[CAR] += gain
            tally[GAS, CAR] += gain


@compiled
def age(links: I8, traits: F8, vessels: F8, lines: F8, ph: F8, tally: F8, dt_s: float) -> None:
    """What medium does by itself, and the water that it loses through the walls of its tubes."""
    for number in range(vessels.shape[0]):
        vessel = vessels[number]
        volume = vessel[LIQ]
        if traits[number, LIVE] == 0.0 or volume < LEAST_UL:
            continue
        gone = vessel[GLN] * (1.0 - exp(-turnover.glutamine_rate(ph[number]) * dt_s))
        vessel[GLN] -= gone
        vessel[AMM] += gone
        tally[TURNOVER, GLN] -= gone
        tally[TURNOVER, AMM] += gone
        gone = vessel[TRO] * (1.0 - exp(-turnover.TROPHIC_PER_S * dt_s))
        vessel[TRO] -= gone
        tally[TURNOVER, TRO] -= gone
        gone = vessel[LDH] * (1.0 - exp(-turnover.LDH_PER_S * dt_s))
        vessel[LDH] -= gone
        tally[TURNOVER, LDH] -= gone
        days = volume * dt_s / turnover.DAY_S
        vessel[AGE] += days
        tally[TURNOVER, AGE] += days
        if vessel[MIC] > 0.0:
            before = vessel[MIC]
            vessel[MIC] = turnover.multiplied(before / volume, dt_s) * volume
            tally[TURNOVER, MIC] += vessel[MIC] - before
            # CFU/mL × µL is a thousandth of a count.
            eaten = min(0.9 * vessel[GLC], vessel[MIC] / 1000.0 * turnover.MICROBE_GLUCOSE_NMOL_S * dt_s)
            vessel[GLC] -= eaten
            vessel[LAC] += 2.0 * eaten
            vessel[ALK] -= 2.0 * eaten
            tally[TURNOVER, GLC] -= eaten
            tally[TURNOVER, LAC] += 2.0 * eaten
            tally[TURNOVER, ALK] -= 2.0 * eaten
    for number in range(lines.shape[0]):
        if links[number, BREATHES] == 1:
            vessel = vessels[links[number, SOURCE]]
            lost = min(lines[number, WATER_UL_S] * dt_s, 0.5 * vessel[LIQ])
            vessel[LIQ] -= lost
            tally[EVAPORATION, LIQ] -= lost


@compiled
def demand(chamber: F8, body: F8, shells: F8, profile: F8, film_m_s: float, wants: F8) -> None:
    """What the tissue takes, nmol/s of all organoids, into `wants`: oxygen, glucose, lactate (made), glutamine."""
    volume = chamber[LIQ]
    for each in range(4):
        wants[each] = 0.0
    if volume < 1.0:
        body[UPTAKE] = 0.0
        return
    radius = organoid.radius_m(body[VOLUME_MM3])
    rate = organoid.pace(body[TEMPERATURE]) * body[VIABILITY]
    oxygen_mm = max(0.0, chamber[OXY] / volume)
    v_max = organoid.V_MAX * rate
    each_mol_s = 0.0
    if v_max > 0.0:
        each_mol_s = sphere.solve(
            shells, profile, radius, oxygen_mm, film_m_s, v_max, organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY
        )
    body[CORE_M] = sphere.core_radius(shells, profile, radius, organoid.DEATH_OXYGEN_MM)
    area = 4.0 * pi * radius * radius
    body[OXYGEN_SURFACE] = oxygen_mm - each_mol_s / (film_m_s * area)
    living_m3 = body[VOLUME_MM3] * 1e-9 * (1.0 - body[DEAD])
    most = v_max * living_m3
    short = min(1.0, max(0.0, 1.0 - each_mol_s / most)) if most > 0.0 else 0.0
    glucose = organoid.glucose_uptake(living_m3 * rate, chamber[GLC] / volume, short)
    oxygen = organoid.burnable(each_mol_s, glucose, chamber[LAC] / volume)
    per_nmol = body[COUNT] * 1e9
    glutamine_mm = max(0.0, chamber[GLN] / volume)
    wants[0] = oxygen * per_nmol
    wants[1] = glucose * per_nmol
    wants[2] = 2.0 * (glucose - oxygen / 6.0) * per_nmol
    saturation = glutamine_mm / (glutamine_mm + organoid.KM_GLUTAMINE_MM)
    wants[3] = organoid.AMMONIA_PER_GLUCOSE * glucose * saturation * per_nmol


@compiled
def give_and_take(chamber: F8, tally: F8, wants: F8, dt_s: float, book: bool) -> float:
    """Apply `wants` for `dt_s`, no more of anything than nine tenths of what is there; returns the share applied."""
    part = 1.0
    oxygen, glucose, lactate, glutamine = wants[0] * dt_s, wants[1] * dt_s, wants[2] * dt_s, wants[3] * dt_s
    if oxygen > 0.9 * chamber[OXY]:
        part = min(part, 0.9 * max(chamber[OXY], 0.0) / oxygen)
    if glucose > 0.9 * chamber[GLC]:
        part = min(part, 0.9 * max(chamber[GLC], 0.0) / glucose)
    if -lactate > 0.9 * chamber[LAC]:
        part = min(part, 0.9 * max(chamber[LAC], 0.0) / -lactate)
    if glutamine > 0.9 * chamber[GLN]:
        part = min(part, 0.9 * max(chamber[GLN], 0.0) / glutamine)
    oxygen, glucose, lactate, glutamine = oxygen * part, glucose * part, lactate * part, glutamine * part
    chamber[OXY] -= oxygen
    chamber[CAR] += oxygen
    chamber[GLC] -= glucose
    chamber[LAC] += lactate
    chamber[ALK] -= lactate
    chamber[GLN] -= glutamine
    chamber[AMM] += glutamine
    if book:
        tally[METABOLISM, OXY] -= oxygen
        tally[METABOLISM, CAR] += oxygen
        tally[METABOLISM, GLC] -= glucose
        tally[METABOLISM, LAC] += lactate
        tally[METABOLISM, ALK] -= lactate
        tally[METABOLISM, GLN] -= glutamine
        tally[METABOLISM, AMM] += glutamine
    return part


@compiled
def live(
    links: I8, vessels: F8, lines: F8, body: F8, places: I8, ph: F8, shells: F8, profile: F8, tally: F8, scratch: F8,
    dt_s: float,
) -> None:  # fmt: skip
    """Tissue for one step, by the midpoint rule."""
    chamber = vessels[places[CHAMBER]]
    stream = 0.0
    for number in range(lines.shape[0]):
        if links[number, TARGET] == places[CHAMBER] or links[number, SOURCE] == places[CHAMBER]:
            stream += abs(lines[number, FLOW_UL_S])
    velocity = stream * 1e-9 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S
    film = sphere.film_coefficient(2.0 * organoid.radius_m(body[VOLUME_MM3]), velocity)
    middle, wants = scratch[2], scratch[3]
    for column in range(COLUMNS):
        middle[column] = chamber[column]
    demand(middle, body, shells, profile, film, wants)
    give_and_take(middle, tally, wants, 0.5 * dt_s, False)
    demand(middle, body, shells, profile, film, wants)
    part = give_and_take(chamber, tally, wants, dt_s, True)
    body[UPTAKE] = wants[0] * part
    volume = max(middle[LIQ], 1.0)
    number = places[CHAMBER]
    ph[number] = chemistry.ph_closed(middle[ALK] / volume, middle[CAR] / volume, ph[number])
    secreted = organoid.TROPHIC_UNITS * turnover.TROPHIC_PER_S * organoid.TROPHIC_VOLUME_UL * body[VIABILITY] * dt_s
    debris = organoid.PARTICLES_PER_S * dt_s
    harm = organoid.harm_per_hour(
        middle[OXY] / volume, body[TEMPERATURE], ph[number], middle[GLC] / volume, middle[LAC] / volume,
        middle[AMM] / volume, middle[OSM] / volume, middle[MIC] / volume,
    )  # fmt: skip
    before = body[VIABILITY]
    change = organoid.viability_rate_per_hour(before, harm, middle[TRO] / volume) * dt_s / 3600.0
    body[VIABILITY] = min(1.0, max(0.0, before + change))
    radius = organoid.radius_m(body[VOLUME_MM3])
    relative = body[CORE_M] / radius
    dead_before = body[DEAD]
    body[DEAD] = organoid.core_after(dead_before, relative * relative * relative, dt_s)
    died = max(0.0, body[DEAD] - dead_before) + max(0.0, before - body[VIABILITY]) * (1.0 - body[DEAD])
    # U per L × µL is 1e-6 U.
    ldh = died * body[VOLUME_MM3] * body[COUNT] * organoid.LDH_U_PER_MM3 * 1e6
    chamber[TRO] += secreted
    tally[METABOLISM, TRO] += secreted
    chamber[LDH] += ldh
    tally[METABOLISM, LDH] += ldh
    chamber[PAR] += debris
    tally[METABOLISM, PAR] += debris
    body[VOLUME_MM3] = organoid.grown(body[VOLUME_MM3], body[VIABILITY], dt_s)


@compiled
def warm(b: F8, dt_s: float) -> None:
    """The body's temperature, by heater, bath and room. The bath is taken as it is half way."""
    bath = b[BATH]
    if b[JACKET_W_PER_K] > 0.0:
        half_way = heat.relaxed(bath, b[BATH_GOAL], b[BATH_PER_S], 0.5 * dt_s)
        b[BATH] = heat.relaxed(bath, b[BATH_GOAL], b[BATH_PER_S], dt_s)
        bath = half_way
    b[TEMPERATURE] = heat.warmed(b[TEMPERATURE], b[HEATER_W], b[AMBIENT], b[JACKET_W_PER_K], bath, dt_s)


Step = Callable[[I8, F8, I8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, float, int], None]


def _made(sources: int) -> tuple[Step, Callable[[F8, F8, int], float], Callable[[I8, F8, F8], None]]:
    """Compile what Python calls. What numba keeps on disk is renewed when any file changes: `sources` is in its key."""

    @kept
    def step(
        links: I8, traits: F8, places: I8, shells: F8, vessels: F8, held: F8, lines: F8, body: F8, ph: F8, profile: F8,
        tally: F8, spilled: F8, scratch: F8, dt_s: float, steps: int,
    ) -> None:  # fmt: skip
        if steps < 0 and sources != 0:
            return
        half = 0.5 * dt_s
        count = links.shape[0]
        for rig in range(vessels.shape[0]):
            v, h, ln, b = vessels[rig], held[rig], lines[rig], body[rig]
            p, pr, ta, sp = ph[rig], profile[rig], tally[rig], spilled[rig]
            for _ in range(steps):
                command_lines(links, ln, b, dt_s)
                for number in range(count):
                    move(number, links, v, h, ln, b, places, ta, scratch, half)
                spill(v, traits, b, places, ta, sp)
                warm(b, half)
                breathe(links, traits, v, h, ln, b, p, ta, half)
                live(links, v, ln, b, places, p, shells, pr, ta, scratch, dt_s)
                age(links, traits, v, ln, p, ta, dt_s)
                breathe(links, traits, v, h, ln, b, p, ta, half)
                warm(b, half)
                for number in range(count - 1, -1, -1):
                    move(number, links, v, h, ln, b, places, ta, scratch, half)
                spill(v, traits, b, places, ta, sp)

    @kept
    def ph_in(vessels: F8, ph: F8, number: int) -> float:
        volume = vessels[number, LIQ] if sources != 0 else 0.0
        # What is found is not kept, not even as the next guess: asking must not move the plant by a bit.
        return float(chemistry.ph_closed(vessels[number, ALK] / volume, vessels[number, CAR] / volume, ph[number]))

    @kept
    def command_now(links: I8, lines: F8, body: F8) -> None:
        if sources != 0:
            command_lines(links, lines, body, 0.0)

    return step, ph_in, command_now


step, ph_in, command_now = _made(SOURCES)
"""`step` advances all rigs by `steps` steps of `dt_s` seconds, in place; `ph_in` is the pH of one vessel of one rig;
`command_now` renews flows and pressures of one rig without moving anything.

Shapes: links (lines, LINK_COLUMNS), traits (vessels, VESSEL_COLUMNS), places (4,), shells (3, nodes + 1), vessels
(rigs, vessels, COLUMNS), held (rigs, lines, cells, COLUMNS), lines (rigs, lines, LINE_COLUMNS), body (rigs, BODY_COLUMNS),
ph (rigs, vessels), profile (rigs, nodes), tally (rigs, causes, COLUMNS), spilled (rigs, vessels), scratch (4, COLUMNS).
"""
