"""The plant: every vessel, line and organoid of one rig, advanced lazily and exactly where it matters.

One rig of :class:`sim.plant.fleet.Fleet` behind the interface that simulated devices use. It takes steps of
two seconds, shorter ones only where a pump, a valve, a heater or a gas changes: a mere question is answered with the state of
the last step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import pi, sin

from controller.rig.description import Rig
from controller.rig.selectors import common_lines
from sim.devices.port import BathRamp
from sim.neurons.conditions import TissueConditions
from sim.plant import chemistry, gas, heat, hydraulics
from sim.plant.columns import CAUSES, SPECIES, Content, TallyCause
from sim.plant.faults import Faults
from sim.plant.fleet import Fleet
from sim.plant.flows import MIN_UL
from sim.plant.parameters import PUBLISHED, PlantParameters
from sim.plant.sensors import Probe, models_of
from sim.plant.step import command_now, command_now_branched, ph_in
from sim.plant.truth import PlantTruth, TissueTruth

CONDUCTIVITY_US_CM_PER_MOSM = 52.0
"""Culture medium of 290 mOsm/kg conducts 14 to 16 mS/cm at 37 °C; nearly all of its osmoles are salt [P]."""
AERATED_MEDIUM_MV = 200.0
"""Redox potential of medium under air against Ag/AgCl: +150 to +250 mV; nothing in this plant changes it [P]."""


DENSITY_G_PER_UL = 0.001
STILL_UL_MIN = 1.0
"""Flow below which nothing moves (µL/min)."""
MEANS = tuple(field.name for field in fields(TissueConditions))
FLOW_LOSSES = {"evaporation": TallyCause.EVAPORATION, "overflow": TallyCause.OVERFLOW, "leak": TallyCause.LEAK}


class Plant:
    """Implements `PlantPort` for one rig; `now` is the loop's time."""

    def __init__(
        self, rig: Rig, *, seed: int, now: Callable[[], float], parameters: PlantParameters = PUBLISHED
    ) -> None:
        self.rig = rig
        self.faults = Faults()
        self.events: list[tuple[float, str]] = []
        self.fleet = Fleet(rig, [seed], parameters=parameters)
        self.switches: dict[str, bool] = {}
        self.positions: dict[str, float] = {each.valve: each.rest for each in rig.selectors.values()}
        """Where each selector's valve stands."""
        self.turned_under_flow: list[tuple[float, str, float]] = []
        """Times (s) at which a selector turned while medium flowed through it, with its valve and the flow (µL/min)."""
        self._now = now
        self._at_s = now()
        self._grid_s = self.fleet.layout.grid_s
        self._names = self.fleet.vessel_names
        self._nodes = list(self.fleet.layout.nodes)
        self._vessels, self._lines, self._body = self.fleet.vessels[0], self.fleet.lines[0], self.fleet.body[0]
        self._spaces, self._tissues = self.fleet.spaces[0], self.fleet.tissues[0]
        self._ph = self.fleet.ph[0]
        self._main = next(iter(self.fleet.chambers.values())) if self.fleet.loop is None else self.fleet.loop
        """The vessel whose medium a probe without a place measures: the loop, or else the first chamber."""
        self._gases: dict[str, float] = {}
        self._dried = [0.0] * (self.fleet.sizes.pumped + self.fleet.sizes.branches)
        self._told = 0.0
        self._faulty = False
        self._contaminated: dict[str, float] = {}
        self._filled_wrong: dict[str, str] = {}
        self._probes: dict[str, Probe] = {}
        self._truths: dict[str, Callable[[], float]] = {}
        for name, device in rig.devices.items():
            for model in models_of(device):
                point = f"{name}.{'flow' if model.quantity == 'liquid' else model.quantity}"
                self._probes[point] = Probe(point, model, (seed, len(self._probes)), self._at_s)
                self._truths[point] = self._truth_of(model.quantity, point, device.at)

    # --- what devices do --------------------------------------------------------------------------------

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`.

        The chart is that of the pump's first line. Where one motor turns several cassettes, a tube of another bore moves
        more or less by the volume of its revolution.
        """
        self._advance(exact=True)
        first, *others = self.fleet.pumps[point]
        self._lines["command_ul_min"][first] = flow_ul_min
        revolution_ul = self._lines["revolution_ul"]
        for number in others:
            self._lines["command_ul_min"][number] = flow_ul_min * revolution_ul[number] / revolution_ul[first]
        self._refresh()

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        if self.switches.get(point) != on:
            self._advance(exact=True)
            self.switches[point] = on
            for number, valve in enumerate(self.fleet.valves):
                if valve == point:
                    self._lines["open"][number] = float(on)
                    self._refresh()
            skin = self.rig.organs.skin
            if skin is not None and point == skin.heater:
                self._spaces["heater_w"][self.fleet.heated_space] = skin.power_w if on else 0.0

    def set_position(self, point: str, position: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        if self.positions.get(point) != position:
            self._advance(exact=True)
            if (flow_ul_min := self._through(point)) > STILL_UL_MIN:
                self.turned_under_flow.append((self._at_s, point, flow_ul_min))
            self.positions[point] = position
            self.fleet.turn(0, point, position)
            self._refresh()

    def _through(self, valve: str) -> float:
        """Return the flow through a selector (µL/min), by its common line."""
        names = self.fleet.line_names
        common = [
            line
            for name, each in self.rig.selectors.items()
            if each.valve == valve
            for line in common_lines(self.rig, name)
        ]
        return max((abs(float(self._lines["flow_ul_s"][names.index(line)])) * 60.0 for line in common), default=0.0)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self._advance(exact=True)
        self._gases[point] = flow_ml_min
        lung = self.rig.organs.lung
        if lung is None:
            return
        air, co2, o2 = (self._gases.get(name, 0.0) for name in (lung.air, lung.co2, lung.o2))
        fractions = gas.mixed(air, co2, o2)
        if fractions is not None:
            space = self._spaces[self.fleet.gassed_space]
            space["o2_fraction"], space["co2_fraction"] = fractions

    def set_bath(self, point: str, course: BathRamp | None) -> None:
        """See :class:`sim.devices.port.PlantPort`; only the thermostat that is the rig's heater touches the rig."""
        skin = self.rig.organs.skin
        if skin is None or point != skin.heater:
            return
        self._advance(exact=True)
        space = self._spaces[self.fleet.heated_space]
        space["jacket_w_per_k"] = 0.0 if course is None else heat.JACKET_W_PER_K
        if course is not None:
            space["bath_c"], space["bath_goal_c"], space["bath_per_s"] = (
                course.now_c,
                course.goal_c,
                1.0 / course.constant_s,
            )

    def sense(self, point: str) -> float:
        """See :class:`sim.devices.port.PlantPort`."""
        self._advance(exact=False)
        return self._probes[point].read(self._truths[point](), self._now(), self.faults)

    def measured(self, point: str, since_s: float) -> list[float]:
        """Return what the probe of `point` has measured since `since_s`, before any wire; empty where there is none."""
        probe = self._probes.get(point)
        return [] if probe is None else [value for at_s, value in probe.measured if at_s >= since_s]

    # --- what a person does -----------------------------------------------------------------------------

    def fill(self, vessel: str, volume_ul: float, *, on_top: bool = False) -> None:
        """Replace a vessel by one with this volume of the medium in the rig file; 0 for an emptied waste.

        With `on_top` the volume is added to the content. Raises KeyError for an unknown vessel, ValueError for more than
        it holds, or for another volume than 0 where the rig file has no medium.
        """
        spec = self.rig.vessels[vessel]
        self._advance(exact=True)
        number = self._names.index(vessel)
        before = self._vessels[number] * float(on_top)
        if not 0.0 <= volume_ul <= spec.capacity_ul - before[Content.LIQUID] or (
            volume_ul > 0.0 and spec.contains is None
        ):
            raise ValueError(f"{volume_ul:g} µL of {spec.contains or 'no medium'} cannot be put into {vessel}")
        self.fleet.replace(0, number, before + self.fleet.composition(spec.contains) * volume_ul, TallyCause.HAND)

    def take(self, vessel: str, volume_ul: float) -> None:
        """Pour a volume out of a vessel, or all if there is less. Raises KeyError for an unknown vessel."""
        if vessel not in self.rig.vessels:
            raise KeyError(vessel)
        self._advance(exact=True)
        number = self._names.index(vessel)
        row = self._vessels[number]
        left = max(1.0 - max(volume_ul, 0.0) / max(float(row[Content.LIQUID]), 1e-9), 0.0)
        self.fleet.replace(0, number, row * left, TallyCause.HAND)

    # --- what is really so ------------------------------------------------------------------------------

    @property
    def commanded_ul_min(self) -> dict[str, float]:
        """Return the command of each pump (µL/min by the manufacturer's chart, signed)."""
        return {pump: float(self._lines["command_ul_min"][lines[0]]) for pump, lines in self.fleet.pumps.items()}

    @property
    def losses_ul(self) -> dict[str, float]:
        """Return the volume that has left the rig without a command, by cause (µL)."""
        tally = self.fleet.tally[0]
        return {name: 0.0 - float(tally[cause, Content.LIQUID]) for name, cause in FLOW_LOSSES.items()}

    @property
    def health(self) -> float:
        """Return the viability of the tissue that is worst off, 0 to 1."""
        return float(self._tissues["viability"].min())

    @property
    def conditions(self) -> TissueConditions:
        """Return what the neurons on the electrode array live in: the mean of all chambers with tissue."""
        self._advance(exact=False)
        each = [self._conditions(number) for number in range(len(self._tissues))]
        return TissueConditions(**{name: sum(getattr(one, name) for one in each) / len(each) for name in MEANS})

    def advance(self) -> None:
        """Bring the plant to the present."""
        self._advance(exact=True)

    def truth(self) -> PlantTruth:
        """Return the exact present state."""
        self._advance(exact=True)
        concentrations, acidity = self._concentrations()
        lines = self._lines
        names = self.fleet.line_names
        held = self.fleet.held[0].sum(axis=1)
        self._refresh()
        return PlantTruth(
            at_s=self._at_s,
            volumes_ul=dict(zip(self._names, self._vessels[:, Content.LIQUID].tolist(), strict=False)),
            concentrations=concentrations,
            ph=acidity,
            tissue={name: self._tissue(number) for number, name in enumerate(self.fleet.chambers)},
            filter_resistance=self._filter_resistances(),
            losses_ul=self.losses_ul,
            moved_ul=dict(zip(names, lines["moved_ul"].tolist(), strict=True)),
            arrived_ul=dict(zip(names, lines["arrived_ul"].tolist(), strict=True)),
            backwards_ul=dict(zip(names, lines["backwards_ul"].tolist(), strict=True)),
            held_ul=dict(zip(names, held[:, Content.LIQUID].tolist(), strict=True)),
            held={name: dict(zip(SPECIES, held[number].tolist(), strict=False)) for number, name in enumerate(names)},
            flows_ul_min={name: float(lines["flow_ul_s"][number]) * 60.0 for number, name in enumerate(names)},
            pressures_kpa=dict(zip(names, lines["pressure_kpa"].tolist(), strict=True)),
            tally={
                cause: dict(zip((*SPECIES, "liquid"), self.fleet.tally[0, number].tolist(), strict=True))
                for number, cause in enumerate(CAUSES)
            },
        )

    # --- inside -----------------------------------------------------------------------------------------

    def _filter_resistances(self) -> dict[str, float]:
        """Return the resistance of the filter on each filtered line over that of a new one, with its fault."""
        fouling = self._lines["fouling"].tolist()
        lines = enumerate(self.fleet.layout.lines.items())
        return {name: fouling[number] * self.faults.clog for number, (name, line) in lines if line.filter is not None}

    def _concentrations(self) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
        """Return the concentrations and the pH of every vessel."""
        concentrations, acidity = {}, {}
        for number, name in enumerate(self._names):
            amounts = self._vessels[number].tolist()
            volume = max(amounts[Content.LIQUID], 1e-9)
            found = {species: amounts[column] / volume for column, species in enumerate(SPECIES)}
            ph = acidity[name] = self._ph_of(number)
            found["co2"] = found["carbon"] / (1.0 + 10.0 ** (ph - chemistry.PK))
            found["bicarbonate"] = found["carbon"] - found["co2"]
            concentrations[name] = found
        return concentrations, acidity

    def _ph_of(self, vessel: int) -> float:
        return float(ph_in(self._vessels, self._ph, vessel)) if self._vessels[vessel, Content.LIQUID] > MIN_UL else 7.4

    def _truth_of(self, quantity: str, point: str, at: str | None) -> Callable[[], float]:
        """Return a function that gives the true value of what a probe at `at` (a vessel or a line) measures."""
        names = self.fleet.line_names
        vessel = self._vessel_at(at)
        if quantity in ("liquid", "pressure"):
            return self._truth_in_line(quantity, names.index(at)) if at in names else lambda: 0.0
        weighed = self.fleet.spent if at not in self._names and self.fleet.spent is not None else vessel
        space = self._spaces[self.fleet.nodes["space"][vessel]]
        truths: dict[str, Callable[[], float]] = {
            "flow": lambda: self._gases.get(point, 0.0),
            "temperature": lambda: float(space["temperature_c"]),
            "mass": lambda: float(self._vessels[weighed, Content.LIQUID]) * DENSITY_G_PER_UL,
            "ph": lambda: self._ph_of(vessel),
            "co2": lambda: 1e6 * float(space["co2_fraction"]),
            "conductivity": lambda: CONDUCTIVITY_US_CM_PER_MOSM * self._per_volume(vessel, Content.OSMOLES),
            "orp": lambda: AERATED_MEDIUM_MV,
            "lactate": lambda: self._per_volume(vessel, Content.LACTATE),
            "glucose": lambda: self._per_volume(vessel, Content.GLUCOSE),
            "ammonia": lambda: self._per_volume(vessel, Content.AMMONIA),
        }
        return truths.get(quantity, lambda: self._saturation_pct(vessel))

    def _vessel_at(self, at: str | None) -> int:
        """Return the vessel whose medium is at a place: of a line, the vessel from which it comes."""
        lines = self.rig.lines
        seen: set[str] = set()
        while at is not None and at not in self._names and at not in seen:
            seen.add(at)
            at = (
                lines[at].from_ if at in lines else next((line.from_ for line in lines.values() if line.to == at), None)
            )
        return self._names.index(at) if at in self._names else self._main

    def _truth_in_line(self, quantity: str, line: int) -> Callable[[], float]:
        if quantity == "liquid":
            return lambda: 0.0 if self._lines["bubble_ul"][line] > 0.0 else 60.0 * float(self._lines["flow_ul_s"][line])
        return lambda: self._pressure_kpa(line)

    def _per_volume(self, vessel: int, species: int) -> float:
        return float(self._vessels[vessel, species]) / max(float(self._vessels[vessel, Content.LIQUID]), 1.0)

    def _saturation_pct(self, vessel: int) -> float:
        return 100.0 * self._per_volume(vessel, Content.OXYGEN) / chemistry.AIR_SATURATION_MM

    def _refresh(self) -> None:
        """Update flows and pressures to the present pumps, valves and faults."""
        self._apply_faults()
        fleet = self.fleet
        renew = command_now_branched if fleet.sizes.branches else command_now
        renew(fleet.size_row, fleet.plumbing, fleet.line_rows[0], fleet.state[0], fleet.network)

    def _pressure_kpa(self, line: int) -> float:
        if line >= self.fleet.sizes.pumped:
            return float(self._lines["pressure_kpa"][line])
        command = float(self._lines["command_ul_min"][line])
        if command == 0.0:
            return 0.0
        kpa = float(self._lines["pressure_kpa"][line])
        hz = hydraulics.ripple_hz(command, float(self._lines["revolution_ul"][line]))
        return kpa * (1.0 + hydraulics.PULSATION * sin(2 * pi * hz * self._now()))

    def _tissue(self, number: int) -> TissueTruth:
        tissue = self._tissues[number]
        return TissueTruth(
            viability=float(tissue["viability"]),
            diameter_mm=float((6 * tissue["volume_mm3"] / pi) ** (1 / 3)),
            core_mm=float(tissue["core_m"]) * 1000.0,
            dead_fraction=float(tissue["dead_fraction"]),
            oxygen_uptake_nmol_s=float(tissue["uptake_nmol_s"]),
            oxygen_surface_mm=float(tissue["surface_oxygen_mm"]),
            temperature_c=self._temperature_c(number),
        )

    def _temperature_c(self, tissue: int) -> float:
        return float(self._spaces["temperature_c"][self.fleet.nodes["space"][self._host(tissue)]])

    def _host(self, tissue: int) -> int:
        """Return the vessel of a tissue."""
        return self.fleet.layout.hosts[tissue]

    def _conditions(self, tissue: int) -> TissueConditions:
        host = self._host(tissue)
        return TissueConditions(
            alive=float(self._tissues["viability"][tissue]),
            temperature_c=self._temperature_c(tissue),
            oxygen_mm=self._per_volume(host, Content.OXYGEN),
            ph=self._ph_of(host),
            ammonia_mm=self._per_volume(host, Content.AMMONIA),
        )

    def _advance(self, *, exact: bool) -> None:
        due_s, grid_s = self._now() - self._at_s, self._grid_s
        if due_s < grid_s and not (exact and due_s > 0.0):
            return
        self._apply_faults()
        steps = int(due_s / grid_s)
        if steps:
            self._step(grid_s, steps)
        if exact:
            rest = self._now() - self._at_s
            if rest > 0.0:
                self._step(rest, 1)

    def _step(self, dt_s: float, steps: int) -> None:
        self.fleet.advance(dt_s, steps)
        self._at_s += dt_s * steps
        if self._faulty:
            self._count_bubbles()
        events = float(self._body["events"])
        if events != self._told:
            self._told = events
            self._tell()

    def _tell(self) -> None:
        """Say which vessels ran dry or over since the last time."""
        lines = self._lines
        for number, before in enumerate(self._dried):
            count = float(lines["times_dry"][number])
            if count != before:
                self._dried[number] = count
                links = self.fleet.links[number]
                pumped = number < self.fleet.sizes.pumped
                moving = lines["command_ul_min"][number] * lines["flow_scale"][number]
                forwards = (moving if pumped else lines["flow_ul_s"][number]) > 0
                empty = self._nodes[links["source" if forwards else "target"]]
                self.events.append((self._at_s, f"{self.fleet.line_names[number]} pumped air: {empty} was empty"))
        spilled = self.fleet.spilled[0]
        for number, name in enumerate(self._names):
            if spilled[number] > 0.0:
                self.events.append((self._at_s, f"{name} overflowed by {spilled[number]:.1f} µL"))
        spilled[:] = 0.0

    # --- faults -----------------------------------------------------------------------------------------

    def _apply_faults(self) -> None:
        """Carry the faults of this moment into the arrays; costs next to nothing while there are none."""
        faults = self.faults
        self._body["clog"], self._body["torn"] = faults.clog, float(faults.filter_torn)
        self._apply_to_media(faults)
        faulty = bool(faults.flow_scale or faults.leak_ul_min or faults.bubble_ul or faults.wear)
        if not faulty and not self._faulty:
            return
        self._faulty = faulty
        for number, name in enumerate(self.fleet.line_names):
            line = self._lines[number]
            line["flow_scale"] = faults.flow_scale.get(name, 1.0)
            line["leak_ul_min"] = faults.leak_ul_min.get(name, 0.0)
            line["bubble_ul"] = faults.bubble_ul.get(name, 0.0)
            line["worn"] = faults.wear.get(name, 0.0)

    def _apply_to_media(self, faults: Faults) -> None:
        """Put microbes and wrong media into vessels, once each."""
        if faults.contamination != self._contaminated:
            for vessel, per_ml in faults.contamination.items():
                if per_ml > (before := self._contaminated.get(vessel, 0.0)):
                    number = self._names.index(vessel)
                    row = self._vessels[number].copy()
                    row[Content.MICROBES] += (per_ml - before) * row[Content.LIQUID]
                    self.fleet.replace(0, number, row)
            self._contaminated = dict(faults.contamination)
        if faults.wrong_medium != self._filled_wrong:
            for vessel, medium in faults.wrong_medium.items():
                if self._filled_wrong.get(vessel) != medium:
                    number = self._names.index(vessel)
                    volume = float(self._vessels[number, Content.LIQUID])
                    self.fleet.replace(0, number, self.fleet.composition(medium) * volume)
            self._filled_wrong = dict(faults.wrong_medium)

    def _count_bubbles(self) -> None:
        for number, name in enumerate(self.fleet.line_names):
            if name in self.faults.bubble_ul:
                left = float(self._lines["bubble_ul"][number])
                if left > 0.0:
                    self.faults.bubble_ul[name] = left
                else:
                    del self.faults.bubble_ul[name]
