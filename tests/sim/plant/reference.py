"""The plant once more, as one system of ordinary differential equations: rates only, no splitting, no steps.

It shares constitutive numbers with the plant (what a pH is, what a sphere takes up), and nothing of how these are put
together or integrated. State: vessels, lines' cells, then temperature, viability, volume, dead fraction, fouling,
revolutions. Holds for flows that go forward, a chamber that is full and vessels that neither run dry nor over.
"""

from __future__ import annotations

from math import exp, log, pi

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, heat, hydraulics, membranes, organoid, sphere, turnover
from sim.plant.columns import (
    AGE,
    ALB,
    ALK,
    AMBIENT,
    AMM,
    BREATHES,
    CAR,
    CELL_UL,
    CHAMBER,
    CO2_FRACTION,
    COLUMNS,
    COMMAND,
    COUNT,
    DEAD,
    FILTER_KPA,
    FILTERED,
    FOULING,
    FOULING_PER_UL,
    GAIN,
    GLC,
    GLN,
    HEATER_W,
    INS,
    KLA,
    LAC,
    LDH,
    LIQ,
    LIVE,
    MIC,
    O2_FRACTION,
    OPEN,
    OSM,
    OXY,
    PAR,
    RESISTANCE,
    RETURNS,
    REVOLUTION_UL,
    REVOLUTIONS,
    SOURCE,
    SPILLS_TO,
    TARGET,
    TEMPERATURE,
    TRO,
    TUBE_KLA,
    USE,
    VIABILITY,
    VOLUME_MM3,
    WATER_UL_S,
)  # fmt: skip
from sim.plant.fleet import Fleet

F8 = NDArray[np.float64]
BODY = (TEMPERATURE, VIABILITY, VOLUME_MM3, DEAD, FOULING)


def ph(alkalinity: F8, carbon: F8, guess: F8) -> F8:
    """pH of many mixtures at once, by Newton's method."""
    found: F8 = guess.copy()
    for _ in range(40):
        share = 1 / (1 + 10 ** (chemistry.PK - found))
        excess = carbon * share + chemistry.BUFFER_MM_PER_PH * (found - chemistry.BUFFER_REFERENCE_PH) - alkalinity
        step = excess / (carbon * log(10) * share * (1 - share) + chemistry.BUFFER_MM_PER_PH)
        found -= np.clip(step, -0.5, 0.5)
        if np.abs(step).max(initial=0.0) < 1e-12:
            break
    return found


class Reference:
    """The right-hand side for the first rig of a fleet; commands and gas are read from the fleet at the time."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._vessels, self._held = fleet.vessels[0].shape, fleet.held[0].shape
        self._profile = fleet.profile[0].copy()
        self._live = np.flatnonzero(fleet.traits[:, LIVE])
        self._tubes = np.flatnonzero(fleet.links[:, BREATHES])
        self._guess: F8 = np.full(len(self._live) + len(self._tubes) * hydraulics.CELLS, 7.4)

    def pack(self) -> F8:
        """The fleet's state as one vector."""
        fleet = self.fleet
        body = fleet.body[0, list(BODY)]
        return np.concatenate([fleet.vessels[0].ravel(), fleet.held[0].ravel(), body, fleet.lines[0, :, REVOLUTIONS]])

    def split(self, y: F8) -> tuple[F8, F8, F8, F8]:
        """Vessels, cells, body, revolutions of a state."""
        a = int(np.prod(self._vessels))
        b = a + int(np.prod(self._held))
        return y[:a].reshape(self._vessels), y[a:b].reshape(self._held), y[b : b + 5], y[b + 5 :]

    def rates(self, _t: float, y: F8) -> F8:
        """dy/dt."""
        fleet = self.fleet
        vessels, held, body, revolutions = self.split(y)
        dy = np.zeros_like(y)
        d_vessels, d_held, d_body, d_revolutions = self.split(dy)
        temperature, viability, volume_mm3, dead, fouling = body.tolist()
        fixed = fleet.body[0]
        chamber, beyond = (int(fleet.places[place]) for place in (CHAMBER, SPILLS_TO))
        stream = 0.0
        for number, line in enumerate(fleet.lines[0]):
            if line[COMMAND] == 0.0:
                continue
            d_revolutions[number] = line[COMMAND] / line[REVOLUTION_UL] / 60
            if line[OPEN] == 0.0:
                continue
            source, target, filtered = (int(fleet.links[number, what]) for what in (SOURCE, TARGET, FILTERED))
            worn = 1 - hydraulics.WEAR_LOSS * (1 - exp(-revolutions[number] / hydraulics.WEAR_REVOLUTIONS))
            free = line[COMMAND] * line[GAIN] * worn
            resistance = line[RESISTANCE] + (fixed[FILTER_KPA] * fouling if filtered else 0.0)
            flow = free / (1 + resistance * free / hydraulics.P_STALL_KPA) / 60
            entering = vessels[source] / vessels[source, LIQ] * flow
            d_vessels[source] -= entering
            lost = entering[INS] * turnover.INSULIN_PER_PASS
            lost *= 1 - entering[ALB] / flow / (entering[ALB] / flow + turnover.ALBUMIN_HALF_MM)
            entering[INS] -= lost
            entering[PAR] += lost
            for cell in range(hydraulics.CELLS):
                leaving = held[number, cell] / line[CELL_UL] * flow
                d_held[number, cell] += entering - leaving
                entering = leaving
            if filtered:
                entering = entering.copy()
                entering[[PAR, MIC]] *= 1 - membranes.RETENTION
                d_body[4] = fixed[FOULING_PER_UL] * entering[LIQ]  # cake: grows with the volume alone
            if fleet.links[number, RETURNS]:
                entering[USE] += entering[LIQ]
            d_vessels[target] += entering
            if target == chamber:
                over = vessels[chamber] / vessels[chamber, LIQ] * entering[LIQ]
                d_vessels[chamber] -= over
                d_vessels[beyond] += over
                stream += flow
        o2_goal = chemistry.oxygen_mm(fixed[O2_FRACTION])
        co2_goal = chemistry.co2_mm(fixed[CO2_FRACTION])

        live, tubes = self._live, self._tubes
        content = np.concatenate([vessels[live], held[tubes].reshape(-1, COLUMNS)])
        kla = np.concatenate([fleet.traits[live, KLA], np.repeat(fleet.lines[0, tubes, TUBE_KLA], hydraulics.CELLS)])
        volume, carbon = content[:, LIQ], content[:, CAR] / content[:, LIQ]
        acidity = self._guess = ph(content[:, ALK] / volume, carbon, self._guess)
        co2 = carbon / (1 + 10 ** (acidity - chemistry.PK))
        oxygen_in, carbon_in = kla * (o2_goal * volume - content[:, OXY]), kla * (co2_goal - co2) * volume
        d_vessels[live, OXY] += oxygen_in[: len(live)]
        d_vessels[live, CAR] += carbon_in[: len(live)]
        d_held[tubes, :, OXY] += oxygen_in[len(live) :].reshape(-1, hydraulics.CELLS)
        d_held[tubes, :, CAR] += carbon_in[len(live) :].reshape(-1, hydraulics.CELLS)
        for tube in tubes.tolist():
            d_vessels[fleet.links[tube, SOURCE], LIQ] -= fleet.lines[0, tube, WATER_UL_S]

        volume, acidity = vessels[live, LIQ], acidity[: len(live)]
        slope = turnover.GLUTAMINE_PER_PH * (np.clip(acidity, 6.5, 8.2) - 7.2)
        decayed = turnover.GLUTAMINE_PER_S_AT_7_2 * np.exp(slope) * vessels[live, GLN]
        d_vessels[live, GLN] -= decayed
        d_vessels[live, AMM] += decayed
        d_vessels[live, TRO] -= turnover.TROPHIC_PER_S * vessels[live, TRO]
        d_vessels[live, LDH] -= turnover.LDH_PER_S * vessels[live, LDH]
        d_vessels[live, AGE] += volume / turnover.DAY_S

        # Tissue.
        c = vessels[chamber] / vessels[chamber, LIQ]
        radius = (3 * volume_mm3 / (4 * pi)) ** (1 / 3) * 1e-3
        film = sphere.film_coefficient(2 * radius, stream * 1e-9 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S)
        pace = organoid.Q10 ** ((temperature - 37) / 10) * viability
        uptake = sphere.one(
            sphere.SHELLS, self._profile, radius, float(c[OXY]), film, organoid.V_MAX * pace, organoid.KM_OXYGEN_MM,
            organoid.DIFFUSIVITY,
        )  # fmt: skip
        living = volume_mm3 * 1e-9 * (1 - dead)
        short = min(1.0, max(0.0, 1 - uptake / (organoid.V_MAX * pace * living)))
        glucose = organoid.V_GLUCOSE * pace * living * c[GLC] / (c[GLC] + organoid.KM_GLUCOSE_MM)
        glucose *= 1 + organoid.PASTEUR * short
        assert 6 * glucose > uptake, "the reference knows only tissue with enough glucose"
        count = fixed[COUNT] * 1e9
        lactate = 2 * (glucose - uptake / 6) * count
        glutamine = organoid.AMMONIA_PER_GLUCOSE * glucose * c[GLN] / (c[GLN] + organoid.KM_GLUTAMINE_MM) * count
        d = d_vessels[chamber]
        d[OXY] -= uptake * count
        d[CAR] += uptake * count
        d[GLC] -= glucose * count
        d[LAC] += lactate
        d[ALK] -= lactate
        d[GLN] -= glutamine
        d[AMM] += glutamine
        d[TRO] += organoid.TROPHIC_UNITS * turnover.TROPHIC_PER_S * organoid.TROPHIC_VOLUME_UL * viability
        d[PAR] += organoid.PARTICLES_PER_S
        acid = float(acidity[live.tolist().index(chamber)])
        harm = organoid.harm_per_hour(c[OXY], temperature, acid, c[GLC], c[LAC], c[AMM], c[OSM], c[MIC])
        d_body[0] = (fixed[HEATER_W] - heat.LOSS_W_PER_K * (temperature - fixed[AMBIENT])) / heat.CAPACITY_J_PER_K
        d_body[1] = organoid.viability_rate_per_hour(viability, harm, c[TRO]) / 3600
        growth = organoid.GROWTH_PER_DAY * viability / 86_400
        d_body[2] = -growth * log(volume_mm3 / organoid.CEILING_MM3) * volume_mm3
        core = sphere.core_radius(sphere.SHELLS, self._profile, radius, organoid.DEATH_OXYGEN_MM)
        anoxic = (core / radius) ** 3
        d_body[3] = (anoxic - dead) / (organoid.DYING_S if anoxic > dead else organoid.REFILLING_S)
        died = max(0.0, d_body[3]) + max(0.0, -d_body[1]) * (1 - dead)
        d[LDH] += died * volume_mm3 * fixed[COUNT] * organoid.LDH_U_PER_MM3 * 1e6
        assert d_vessels.shape[1] == COLUMNS
        return dy
