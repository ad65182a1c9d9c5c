"""The light plant: one circulating medium, one batch of spent medium, and the tissue, driven by recorded inputs.

For fitting, where a rig must be lived through ten thousand times. It shares the tissue, gas, chemistry and turnover of the
plant (:mod:`sim.plant.tissue`, `gas`, `chemistry`, `ageing`), and replaces its hydraulics by what was recorded: transfers,
flow of the hearts, gas and temperature. Loop and chambers are one body of medium, because a heart moves the content of a
chamber within minutes; oxygen, which a chamber has for a minute, is at its steady state:

    loop:     G·(c* − c_loop) = Q·(c_loop − c_chamber)
    chamber:  Q·(c_inlet − c_chamber) = uptake,   c_inlet = c* − (c* − c_loop)·e^(−kLa·τ) in the heart's silicone tube

A step may be two hours. `tests/fitting/test_light_plant.py` compares both plants.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.plant import ageing, chemistry, gas, organoid, sphere
from sim.plant.columns import CAUSES, COLUMNS, TISSUE, Content, TissueState, width
from sim.plant.compiled import SOURCES, compiled, kept
from sim.plant.tissue import bounded, demand, react, secrete, stable_share

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
TISSUE_FIELDS = width(TISSUE)
FRESH_PH = 7.5
"""The pH at which the bicarbonate of a label is meant."""
LOOP, SPENT, BODIES = 0, 1, 2
RATES = 4


class SeenColumn(IntEnum):
    """The columns of the answer: what is in a body of medium at the end of a step."""

    GLUCOSE = 0
    LACTATE = 1
    AMMONIA = 2
    GLUTAMINE = 3
    """Free and in the dipeptide."""
    OSMOLALITY = 4
    BICARBONATE = 5
    """Of a label: at pH 7.5."""
    PH = 6
    OXYGEN = 7
    """Per cent of air saturation; of the loop, and in the row of the spent medium that in the chambers (the mean)."""
    VOLUME = 8


SEEN = len(SeenColumn)


class InputColumn(IntEnum):
    """The columns of the inputs, by step."""

    DT_S = 0
    TEMPERATURE_C = 1
    O2_FRACTION = 2
    CO2_FRACTION = 3
    FLOW = 4
    """Flow of the hearts over their flow by design."""


class MoveColumn(IntEnum):
    """The columns of the transfers, in their order."""

    STEP = 0
    """Number of the step before which it happens."""
    SOURCE = 1
    """0 or 1: a body; from 2 on: a medium; -1: nothing, water."""
    TARGET = 2
    """0 or 1: a body; -1: gone."""
    UL = 3


class Place(NamedTuple):
    """Constants of the rig."""

    gas_ul_s: float
    """Gas transfer of the loop, kLa times its volume."""
    spent_gas_ul_s: float
    tube_kla_per_s: float
    tube_ul: float
    """Held by the hearts' tubes."""
    flow_ul_s: float
    """Of all hearts, by design."""
    water_ul_s: float
    """Lost by loop and chambers."""
    spent_water_ul_s: float


@compiled
def breathe(row: F8, co2_fraction: float, transfer_ul_s: float, guess: float, dt_s: float) -> float:
    """Exchange carbon dioxide of a body with the gas; return the pH afterwards."""
    volume = row[Content.LIQUID]
    buffer = row[Content.BUFFER] / volume
    alkalinity = row[Content.ALKALINITY] / volume
    ph = chemistry.ph_closed(alkalinity, row[Content.CARBON] / volume, guess, buffer)
    kla = transfer_ul_s / volume
    # Two half steps: the exchange is linear around the present pH only.
    for _ in range(2):
        gain = gas.carbon_gain(row[Content.CARBON] / volume, ph, co2_fraction, kla, 0.5 * dt_s, buffer)
        row[Content.CARBON] += max(gain * volume, -0.9 * row[Content.CARBON])
        ph = chemistry.ph_closed(alkalinity, row[Content.CARBON] / volume, ph, buffer)
    return ph


@compiled
def transfer(bodies: F8, media: F8, source: int, target: int, ul: float) -> None:
    """Move a volume from a body, a medium or nothing (water) to a body or away; of a body at most nine tenths."""
    if source < 0:
        bodies[target, Content.LIQUID] += ul
        return
    share = ul if source >= BODIES else min(0.9, ul / max(bodies[source, Content.LIQUID], 1e-9))
    for column in range(COLUMNS):
        amount = share * (media[source - BODIES, column] if source >= BODIES else bodies[source, column])
        if source < BODIES:
            bodies[source, column] -= amount
        if target >= 0:
            bodies[target, column] += amount


@compiled
def metabolise(row: F8, wants: F8, dt_s: float) -> None:
    """Apply what the tissue wants for a step; oxygen is not limited, because gas replaces it at once."""
    glucose, lactate = wants[Content.GLUCOSE] * dt_s, wants[Content.LACTATE] * dt_s
    glutamine = wants[Content.GLUTAMINE] * dt_s
    part = bounded(1.0, glucose, row[Content.GLUCOSE])
    part = bounded(part, -lactate, row[Content.LACTATE])
    part = bounded(part, glutamine, row[Content.GLUTAMINE] + row[Content.DIPEPTIDE])
    oxygen = wants[Content.OXYGEN] * dt_s * part
    react(row, oxygen, glucose * part, lactate * part, glutamine * part, stable_share(row))


@compiled
def record_seen(row: F8, ph: float, oxygen_mm: float, seen: F8) -> None:
    """Write what is in a body into a row of :class:`SeenColumn`."""
    volume = max(row[Content.LIQUID], 1e-9)
    seen[SeenColumn.GLUCOSE] = row[Content.GLUCOSE] / volume
    seen[SeenColumn.LACTATE] = row[Content.LACTATE] / volume
    seen[SeenColumn.AMMONIA] = row[Content.AMMONIA] / volume
    seen[SeenColumn.GLUTAMINE] = (row[Content.GLUTAMINE] + row[Content.DIPEPTIDE]) / volume
    seen[SeenColumn.OSMOLALITY] = row[Content.OSMOLES] / volume
    label = row[Content.ALKALINITY] - row[Content.BUFFER] * (FRESH_PH - chemistry.BUFFER_REFERENCE_PH)
    seen[SeenColumn.BICARBONATE] = label / volume
    seen[SeenColumn.PH] = ph
    seen[SeenColumn.OXYGEN] = 100.0 * oxygen_mm / chemistry.AIR_SATURATION_MM
    seen[SeenColumn.VOLUME] = row[Content.LIQUID]


@compiled
def oxygenated(
    goal_mm: float, uptake_nmol_s: float, flow_ul_s: float, place: Place, gas_scale: float
) -> tuple[float, float]:
    """Return the oxygen of the loop and of the chambers' inlet (mmol/L) at the steady state."""
    inlet = 1.0
    if flow_ul_s > 0.0:
        inlet = np.exp(-place.tube_kla_per_s * gas_scale * place.tube_ul / flow_ul_s)
    missing = uptake_nmol_s / (place.gas_ul_s * gas_scale + flow_ul_s * (1.0 - inlet))
    return goal_mm - missing, goal_mm - missing * inlet


Live = Callable[[F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, int, int], None]


def _made(sources: int) -> Live:
    @kept
    def live(
        steps: F8, moves: F8, place_row: F8, shares: F8, bodies: F8, media: F8, tissue_rows: F8, profiles: F8, scales: F8,
        out: F8, uptakes: F8, begin: int, end: int,
    ) -> None:  # fmt: skip
        if sources == 0:
            return
        place = Place(
            place_row[0], place_row[1], place_row[2], place_row[3], place_row[4], place_row[5], place_row[6]
        )  # fmt: skip
        tally = np.zeros((len(CAUSES), COLUMNS))
        wants, middle = np.zeros(COLUMNS), np.zeros(COLUMNS)
        for rig in range(begin, end):
            row = bodies[rig]
            tissues = tissue_rows[rig].view(TISSUE)[:, 0]
            water, gas_scale, flow_scale = scales[rig, 0], scales[rig, 1], scales[rig, 2]
            ph, spent_ph, next_move = 7.4, 7.4, 0
            for number in range(steps.shape[0]):
                while next_move < moves.shape[0] and moves[next_move, MoveColumn.STEP] <= number:
                    move = moves[next_move]
                    transfer(
                        row, media[rig], int(move[MoveColumn.SOURCE]), int(move[MoveColumn.TARGET]), move[MoveColumn.UL]
                    )
                    next_move += 1
                dt_s, temperature_c = steps[number, InputColumn.DT_S], steps[number, InputColumn.TEMPERATURE_C]
                flow = max(steps[number, InputColumn.FLOW] * flow_scale * place.flow_ul_s, 1e-6)
                co2 = steps[number, InputColumn.CO2_FRACTION]
                goal_mm = chemistry.O2_MM_PER_FRACTION * steps[number, InputColumn.O2_FRACTION]
                loop_gas = place.gas_ul_s * gas_scale
                ph = breathe(row[LOOP], co2, loop_gas, ph, 0.5 * dt_s)
                uptake = 0.0
                for each in range(tissues.shape[0]):
                    uptake += tissues[each].uptake_nmol_s
                loop_mm, inlet_mm = oxygenated(goal_mm, uptake, flow, place, gas_scale)
                chamber_mm = 0.0
                for each in range(tissues.shape[0]):
                    tissue: TissueState = tissues[each]
                    own_ul_s = flow * shares[each]
                    around_mm = max(inlet_mm - tissue.uptake_nmol_s / own_ul_s, 0.0)
                    chamber_mm += around_mm * shares[each]
                    for column in range(COLUMNS):
                        middle[column] = row[LOOP, column]
                    volume = middle[Content.LIQUID]
                    middle[Content.OXYGEN] = around_mm * volume
                    velocity = own_ul_s * 1e-9 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S
                    film = sphere.film_coefficient(2.0 * organoid.radius_m(tissue.volume_mm3), velocity)
                    demand(middle, tissue, temperature_c, sphere.SHELLS, profiles[rig, each], film, wants)
                    metabolise(row[LOOP], wants, dt_s)
                    uptakes[rig, number, 0] += wants[Content.OXYGEN]
                    uptakes[rig, number, 1] += wants[Content.GLUCOSE]
                    uptakes[rig, number, 2] += wants[Content.LACTATE]
                    uptakes[rig, number, 3] += wants[Content.GLUTAMINE]
                    # Half of the change: uptake and oxygen of the next step then approach each other without swinging.
                    tissue.uptake_nmol_s = 0.5 * (tissue.uptake_nmol_s + wants[Content.OXYGEN])
                    secrete(
                        row[LOOP],
                        middle,
                        tissue,
                        temperature_c,
                        ph,
                        volume,
                        sphere.SHELLS,
                        profiles[rig, each],
                        tally,
                        dt_s,
                    )
                ageing.decay(row[LOOP], ph, temperature_c, tally, dt_s)
                ageing.evaporate(row[LOOP], place.water_ul_s * water * dt_s, tally)
                ph = breathe(row[LOOP], co2, loop_gas, ph, 0.5 * dt_s)
                record_seen(row[LOOP], ph, loop_mm, out[rig, number, LOOP])
                if row[SPENT, Content.LIQUID] > 1.0:
                    spent_ph = breathe(row[SPENT], co2, place.spent_gas_ul_s, spent_ph, dt_s)
                    ageing.decay(row[SPENT], spent_ph, temperature_c, tally, dt_s)
                    ageing.evaporate(row[SPENT], place.spent_water_ul_s * water * dt_s, tally)
                record_seen(row[SPENT], spent_ph, chamber_mm, out[rig, number, SPENT])

    return live


live = _made(SOURCES)
"""Advance the rigs `begin` to `end` (exclusive) through all steps.

Shapes: steps (steps, fields of InputColumn), moves (moves, fields of MoveColumn), place (fields of Place,), shares of the
flow (tissues,), bodies (rigs, BODIES, COLUMNS), media (rigs, media, COLUMNS) of one µL, tissues (rigs, tissues, fields),
profiles (rigs, tissues, rows by Shell, shells), scales (rigs, 3: water loss, gas transfer, flow), out (rigs, steps, BODIES,
SEEN), uptakes (rigs, steps, RATES) in nmol/s: oxygen, glucose, lactate (made), glutamine. bodies, tissues, profiles, out
and uptakes are written.
"""
