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
from sim.plant.columns import COLUMNS, Content, Shell
from sim.plant.fleet import Fleet

F8 = NDArray[np.float64]


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
        self._oxygen, self._capacity = fleet.profile[0, 0, Shell.OXYGEN].copy(), fleet.profile[0, 0, Shell.CAPACITY]
        (self._filtered,) = np.flatnonzero(fleet.links["filtered"])
        self._live = np.flatnonzero(fleet.traits["live"])
        self._tubes = np.flatnonzero(fleet.links["breathes"])
        self._guess: F8 = np.full(len(self._live) + len(self._tubes) * hydraulics.CELLS, 7.4)

    def pack(self) -> F8:
        """The fleet's state as one vector."""
        fleet = self.fleet
        tissue = fleet.tissues[0, 0]
        fouling = float(fleet.lines["fouling"][0, self._filtered].item())
        body = np.array([fleet.spaces["temperature_c"][0, 0], tissue["volume_mm3"], fouling])
        living = fleet.profile[0, 0, Shell.LIVING]
        revolutions = fleet.lines["revolutions"][0]
        return np.concatenate([fleet.vessels[0].ravel(), fleet.held[0].ravel(), body, living, revolutions])

    def split(self, y: F8) -> tuple[F8, F8, F8, F8]:
        """Vessels, cells, body and living shells, revolutions of a state."""
        a = int(np.prod(self._vessels))
        b = a + int(np.prod(self._held))
        c = b + 3 + sphere.NODES
        return y[:a].reshape(self._vessels), y[a:b].reshape(self._held), y[b:c], y[c:]

    @staticmethod
    def _bottle_ph(rows: F8) -> F8:
        volume = rows[:, Content.LIQUID]
        guess = np.full(len(rows), 7.4)
        return ph(rows[:, Content.ALKALINITY] / volume, rows[:, Content.CARBON] / volume, guess)

    @staticmethod
    def _age(rows: F8, changes: F8, at: NDArray[np.int64], acidity: F8, kept_c: F8) -> None:
        """Decay and age of some rows of contents, added to the rows `at` of `changes`."""
        slope = turnover.GLUTAMINE_PER_PH * (np.clip(acidity, turnover.MIN_PH, turnover.MAX_PH) - 7.2)
        warmer = (kept_c - turnover.REFERENCE_C) / 10
        decayed = (
            turnover.GLUTAMINE_PER_S_AT_7_2
            * np.exp(slope)
            * turnover.GLUTAMINE_Q10**warmer
            * rows[:, Content.GLUTAMINE]
        )
        changes[at, Content.GLUTAMINE] -= decayed
        changes[at, Content.AMMONIA] += decayed
        for column, per_s, q10 in (
            (Content.INSULIN, turnover.INSULIN_PER_S, turnover.INSULIN_Q10),
            (Content.TROPHIC, turnover.TROPHIC_PER_S, turnover.TROPHIC_Q10),
            (Content.LDH, turnover.LDH_PER_S, 1.0),
        ):
            changes[at, column] -= per_s * q10**warmer * rows[:, column]
        changes[at, Content.AGE] += rows[:, Content.LIQUID] / turnover.DAY_S

    def _breathe_bottles(self, vessels: F8, changes: F8) -> None:
        """Gas through the caps of bottles."""
        traits = self.fleet.traits
        at = np.flatnonzero((traits["cap_kla_per_s"] > 0) & (vessels[:, Content.LIQUID] > 1.0))
        rows, kla = vessels[at], traits["cap_kla_per_s"][at]
        volume = rows[:, Content.LIQUID]
        co2 = rows[:, Content.CARBON] / volume / (1 + 10 ** (self._bottle_ph(rows) - chemistry.PK))
        o2_goal = chemistry.O2_MM_PER_FRACTION * traits["kept_o2"][at]
        co2_goal = chemistry.CO2_MM_PER_FRACTION * traits["kept_co2"][at]
        changes[at, Content.OXYGEN] += kla * (o2_goal * volume - rows[:, Content.OXYGEN])
        changes[at, Content.CARBON] += kla * (co2_goal - co2) * volume

    def rates(self, _t: float, y: F8) -> F8:
        """dy/dt."""
        fleet = self.fleet
        vessels, held, body, revolutions = self.split(y)
        dy = np.zeros_like(y)
        d_vessels, d_held, d_body, d_revolutions = self.split(dy)
        temperature, volume_mm3, fouling = body[:3].tolist()
        shells, volumes = body[3:], sphere.SHELLS[1, : sphere.NODES] / sphere.SHELLS[1, : sphere.NODES].sum()
        share = float(volumes @ shells)
        space, tissue = fleet.spaces[0, 0], fleet.tissues[0, 0]
        (chamber,) = fleet.chambers.values()
        (beyond,) = fleet.outlets["target"].tolist()
        stream = 0.0
        for number, line in enumerate(fleet.lines[0]):
            if line["command_ul_min"] == 0.0:
                continue
            d_revolutions[number] = line["command_ul_min"] / line["revolution_ul"] / 60
            if line["open"] == 0.0:
                continue
            source, target, filtered = (int(fleet.links[what][number]) for what in ("source", "target", "filtered"))
            worn = 1 - hydraulics.WEAR_LOSS * (1 - exp(-revolutions[number] / hydraulics.WEAR_REVOLUTIONS))
            free = line["command_ul_min"] * line["gain"] * worn
            resistance = line["kpa_per_ul_min"] + (line["filter_kpa_per_ul_min"] * fouling if filtered else 0.0)
            flow = free / (1 + resistance * free / hydraulics.P_STALL_KPA) / 60
            entering = vessels[source] / vessels[source, Content.LIQUID] * flow
            d_vessels[source] -= entering
            lost = entering[Content.INSULIN] * turnover.INSULIN_PER_PASS
            lost *= 1 - entering[Content.ALBUMIN] / flow / (entering[Content.ALBUMIN] / flow + turnover.ALBUMIN_HALF_MM)
            entering[Content.INSULIN] -= lost
            entering[Content.PARTICLES] += lost
            for cell in range(hydraulics.CELLS):
                leaving = held[number, cell] / line["cell_ul"] * flow
                d_held[number, cell] += entering - leaving
                entering = leaving
            if filtered:
                entering = entering.copy()
                entering[[Content.PARTICLES, Content.MICROBES]] *= 1 - membranes.RETENTION
                d_body[2] = line["fouling_per_ul"] * entering[Content.LIQUID]  # cake: grows with the volume alone
            if fleet.links["returns"][number]:
                entering[Content.REUSE] += entering[Content.LIQUID]
            d_vessels[target] += entering
            if target == chamber:
                over = vessels[chamber] / vessels[chamber, Content.LIQUID] * entering[Content.LIQUID]
                d_vessels[chamber] -= over
                d_vessels[beyond] += over
                stream += flow
        o2_goal = chemistry.oxygen_mm(space["o2_fraction"])
        co2_goal = chemistry.co2_mm(space["co2_fraction"])

        live, tubes = self._live, self._tubes
        content = np.concatenate([vessels[live], held[tubes].reshape(-1, COLUMNS)])
        kla = np.concatenate(
            [fleet.traits["kla_per_s"][live], np.repeat(fleet.lines["wall_kla_per_s"][0, tubes], hydraulics.CELLS)]
        )
        volume, carbon = content[:, Content.LIQUID], content[:, Content.CARBON] / content[:, Content.LIQUID]
        acidity = self._guess = ph(content[:, Content.ALKALINITY] / volume, carbon, self._guess)
        co2 = carbon / (1 + 10 ** (acidity - chemistry.PK))
        oxygen_in, carbon_in = kla * (o2_goal * volume - content[:, Content.OXYGEN]), kla * (co2_goal - co2) * volume
        d_vessels[live, Content.OXYGEN] += oxygen_in[: len(live)]
        d_vessels[live, Content.CARBON] += carbon_in[: len(live)]
        d_held[tubes, :, Content.OXYGEN] += oxygen_in[len(live) :].reshape(-1, hydraulics.CELLS)
        d_held[tubes, :, Content.CARBON] += carbon_in[len(live) :].reshape(-1, hydraulics.CELLS)
        for tube in tubes.tolist():
            d_vessels[fleet.links["source"][tube], Content.LIQUID] -= fleet.lines["water_loss_ul_s"][0, tube]

        acidity = acidity[: len(live)]
        kept_c = np.where(np.isnan(fleet.traits["kept_c"]), temperature, fleet.traits["kept_c"])
        self._age(vessels[live], d_vessels, live, acidity, kept_c[live])
        self._breathe_bottles(vessels, d_vessels)
        resting = np.setdiff1d(np.flatnonzero(vessels[:, Content.LIQUID] > 1.0), live)
        self._age(vessels[resting], d_vessels, resting, self._bottle_ph(vessels[resting]), kept_c[resting])
        line_c = np.where(np.isnan(fleet.lines["kept_c"][0]), temperature, fleet.lines["kept_c"][0])
        cells = held.reshape(-1, COLUMNS)
        full = np.flatnonzero(cells[:, Content.LIQUID] > 1e-6)
        d_cells = d_held.reshape(-1, COLUMNS)
        self._age(cells[full], d_cells, full, self._bottle_ph(cells[full]), np.repeat(line_c, hydraulics.CELLS)[full])

        # Tissue.
        c = vessels[chamber] / vessels[chamber, Content.LIQUID]
        radius = (3 * volume_mm3 / (4 * pi)) ** (1 / 3) * 1e-3
        film = sphere.film_coefficient(2 * radius, stream * 1e-9 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S)
        viability = min(1.0, share / sphere.capacity(self._capacity, radius))
        pace = organoid.Q10 ** ((temperature - 37) / 10)
        uptake = sphere.solve(
            sphere.SHELLS, self._oxygen, shells.copy(), radius, float(c[Content.OXYGEN]), film, organoid.V_MAX * pace,
            organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY,
        )  # fmt: skip
        living = volume_mm3 * 1e-9 * share
        short = min(1.0, max(0.0, 1 - uptake / (organoid.V_MAX * pace * living)))
        glucose = (
            organoid.V_GLUCOSE * pace * living * c[Content.GLUCOSE] / (c[Content.GLUCOSE] + organoid.KM_GLUCOSE_MM)
        )
        glucose *= 1 + organoid.PASTEUR * short
        assert 6 * glucose > uptake, "the reference knows only tissue with enough glucose"
        count = tissue["count"] * 1e9
        lactate = 2 * (glucose - uptake / 6) * count
        glutamine = (
            organoid.AMMONIA_PER_GLUCOSE
            * glucose
            * c[Content.GLUTAMINE]
            / (c[Content.GLUTAMINE] + organoid.KM_GLUTAMINE_MM)
            * count
        )
        d = d_vessels[chamber]
        d[Content.OXYGEN] -= uptake * count
        d[Content.CARBON] += uptake * count
        d[Content.GLUCOSE] -= glucose * count
        d[Content.OSMOLES] -= glucose * count
        d[Content.LACTATE] += lactate
        d[Content.ALKALINITY] -= lactate
        d[Content.GLUTAMINE] -= glutamine
        d[Content.AMMONIA] += glutamine
        d[Content.TROPHIC] += organoid.TROPHIC_UNITS * turnover.TROPHIC_PER_S * organoid.TROPHIC_VOLUME_UL * viability
        d[Content.PARTICLES] += organoid.PARTICLES_PER_S
        acid = float(acidity[live.tolist().index(chamber)])
        harm = organoid.harm_per_hour(
            tissue, temperature, acid, c[Content.GLUCOSE], c[Content.LACTATE], c[Content.AMMONIA],
            c[Content.OSMOLES], c[Content.MICROBES], c[Content.INSULIN],
        )  # fmt: skip
        d_body[0] = (space["heater_w"] - heat.LOSS_W_PER_K * (temperature - space["ambient_c"])) / heat.CAPACITY_J_PER_K
        growth = organoid.GROWTH_PER_DAY * viability / 86_400
        d_body[1] = -growth * log(volume_mm3 / organoid.CEILING_MM3) * volume_mm3
        oxygen = np.maximum(self._oxygen, 0.0)
        lack = np.maximum(0.0, 1 - oxygen / organoid.DEATH_OXYGEN_MM)
        assert c[Content.GLUCOSE] > 1.0
        best = 0.94 + 0.06 * c[Content.TROPHIC] / (c[Content.TROPHIC] + 0.15)
        regrowth = organoid.REGROWTH_PER_H * oxygen / (oxygen + organoid.REGROWTH_OXYGEN_MM) * shells
        regrown = np.where(shells > best, organoid.FOLLOWS_PER_H, regrowth if harm < 0.001 else 0.0) * (best - shells)
        d_body[3:] = (regrown - (harm + organoid.ANOXIA_HARM_PER_H * lack) * shells) / 3600
        died = float(volumes @ np.maximum(0.0, -d_body[3:]))
        d[Content.LDH] += died * volume_mm3 * tissue["count"] * organoid.LDH_U_PER_MM3 * 1e6
        assert d_vessels.shape[1] == COLUMNS
        return dy
