"""The plant's arrays: what each column and each field means.

Contents are rows of floats with one column for each :class:`Content`. Amounts are mmol/L × µL = nmol for solutes, and in the
same way "unit of concentration × µL" for the rest: mOsm/kg × µL, U/L × µL (LDH), CFU/mL × µL (microbes), days × µL (age),
passes × µL (reuse), mmol/L per pH × µL (buffer). The last column is the liquid itself (µL). So everything that flows is one
row of numbers that are all scaled by the same factor, and mass balances close to rounding.

Lines, vessels and rigs are records (numpy structured arrays) with the fields of the classes below. The compiled step reads
them as attributes (`line.flow_ul_s`), Python as fields (`lines["flow_ul_s"]`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np


class Content(IntEnum):
    """The columns of a row of contents."""

    GLUCOSE = 0
    LACTATE = 1
    AMMONIA = 2
    ALKALINITY = 3
    """The charge that bicarbonate and buffers balance."""
    GLUTAMINE = 4
    """Free; that of stable medium is in `DIPEPTIDE`."""
    OXYGEN = 5
    CARBON = 6
    """All inorganic carbon: dissolved CO2 and bicarbonate."""
    OSMOLES = 7
    """Inert; they follow the water."""
    TROPHIC = 8
    """Labile growth factors: those of the supplements (1 in fresh medium) and those that tissue secretes."""
    INSULIN = 9
    ALBUMIN = 10
    LDH = 11
    PARTICLES = 12
    MICROBES = 13
    AGE = 14
    REUSE = 15
    BUFFER = 16
    """Capacity of the other buffers (mmol/L per pH), such as HEPES, phosphate and protein."""
    DIPEPTIDE = 17
    """L-alanyl-L-glutamine, the stable glutamine."""
    LIQUID = 18


class TallyCause(IntEnum):
    """Why an amount appeared or vanished: the rows of the tally."""

    GAS = 0
    METABOLISM = 1
    TURNOVER = 2
    EVAPORATION = 3
    OVERFLOW = 4
    LEAK = 5
    FILTER = 6
    PUMP = 7
    RETURN = 8
    """Counts the uses of medium."""
    FAULT = 9
    """Added or removed by an injected fault."""
    HAND = 10
    """Added or removed by a person."""


SPECIES = tuple(each.name.lower() for each in Content if each != Content.LIQUID)
"""What medium carries, by column."""
COLUMNS = len(Content)
CAUSES = tuple(each.name.lower() for each in TallyCause)


class Link:
    """How a line is connected (whole numbers). A node is a vessel or, numbered after them, a junction."""

    source: int
    """Number of a node."""
    target: int
    """Number of a node."""
    filtered: int
    """1 when the line passes the sterile filter."""
    breathes: int
    """1 when gas and water pass the wall of the tube."""
    returns: int
    """1 when the line returns medium to the loop."""
    dialyses: int
    """Number of the vessel whose dialyser the line passes; -1 for none."""
    space: int
    """Number of the space whose gas is around the tube."""
    group: int
    """When it exchanges gas: see :class:`Node`."""


class Node:
    """A vessel or a junction (whole numbers)."""

    space: int
    """Number of the space in which it stands."""
    gas: int
    """Number of the space whose gas is above its medium: another one only where the lung's gas enters."""
    group: int
    """-1: gas and turnover advance in each step; else only in the steps of this group, by all the time since the last."""
    first_outlet: int
    outlets: int
    """Its passive outlets: how many, and the number of the first."""
    draining: int
    """The number of the node at this place of the order in which overflows are followed: upstream first; -1 at the end."""
    place: int
    """Its own place in that order."""
    holds: int
    """1 for a vessel, 0 for a junction."""


class Outlet:
    """A passive outlet of a node (whole numbers)."""

    line: int
    target: int
    """Number of a node."""


class LineRecord:
    """The state of a line (floats)."""

    command_ul_min: float
    """By the manufacturer's chart, signed; 0 for a passive line."""
    gain: float
    """The share of it that the pump moves with a new tube."""
    open: float
    """1: the valve is open or there is none; 0: closed."""
    draws_above_ul: float
    """Volume of the source below which the line draws air."""
    one_way: float
    """1: a check valve keeps medium from flowing backwards."""
    shut: float
    """1: the check valve of a branch is shut."""
    passes: float
    """Of a passive outlet: 1 while nothing between it and a vessel is closed."""
    free_ul_min: float
    """What the pump of a line at a junction would move against no pressure."""
    kpa_in_series: float
    """Resistance of such a line with its filter (kPa per µL/min)."""
    flow_scale: float
    """Fault: factor on the flow."""
    leak_ul_min: float
    """Fault."""
    bubble_ul: float
    """Fault: air still to pass."""
    worn: float
    """Fault: 0 to 1."""
    revolutions: float
    revolution_ul: float
    """Volume of a revolution, by the chart."""
    kpa_per_ul_min: float
    """Resistance of the tube."""
    cell_ul: float
    """A quarter of the dead volume."""
    wall_kla_per_s: float
    """Gas transfer through the wall."""
    water_loss_ul_s: float
    """Through the wall."""
    moved_ul: float
    """Volume that entered since the start."""
    arrived_ul: float
    """Volume that left at the other end since the start."""
    backwards_ul: float
    """The part of `moved_ul` that moved against the direction of the line."""
    dry: float
    """1 while the pump moves air because the vessel is empty."""
    times_dry: float
    """How often that began."""
    flow_ul_s: float
    """Present flow, signed."""
    pressure_kpa: float
    """Behind the pump."""
    koa_ul_s: float
    """Mass transfer of the dialyser on the line, for small solutes."""
    koa_at_ul_s: float
    """The dialysate flow at which `koa_ul_s` holds; 0: at any."""
    fouling: float
    """Resistance of the filter on the line over that of a new one."""
    retained: float
    """Part of the microbes that its pores hold back."""
    filter_kpa_per_ul_min: float
    """Resistance of a new filter."""
    fouling_per_ul: float
    kept_c: float
    """Temperature of what it holds; not a number where it has that of its space."""


class Trait:
    """Constants of a node (floats)."""

    capacity_ul: float
    overflow_ul: float
    """The volume at which its passive outlets run."""
    kla_per_s: float
    """Gas transfer at the surface of a vessel that is stirred."""
    surface_mm2: float
    """Open surface of a still vessel; 0 for none."""
    evaporation_ul_s: float
    """From that surface."""
    live: float
    """1 when gas and turnover advance with each step: loop, chamber and process vessels."""
    kept_c: float
    """Temperature at which it is kept; not a number where it has that of its space."""
    kept_o2: float
    """Fraction of oxygen in the gas in which a bottle stands."""
    kept_co2: float
    cap_kla_per_s: float
    """Gas transfer through the cap of a bottle."""


class Body:
    """The state of a rig outside its vessels, lines, spaces and tissues (floats)."""

    clog: float
    """Fault: factor on the resistance of every filter."""
    torn: float
    """Fault: 0 or 1."""
    events: float
    """How often a vessel ran dry or over."""
    ticks: float
    """Steps since the start."""
    rested_s: float
    """Time since bottles, waste and the contents of lines last aged."""


class Space:
    """What surrounds vessels: an incubator, a heated housing, the room (floats)."""

    temperature_c: float
    heater_w: float
    ambient_c: float
    o2_fraction: float
    co2_fraction: float
    jacket_w_per_k: float
    """Heat transfer from the bath of a thermostat; 0 without one."""
    bath_c: float
    bath_goal_c: float
    bath_per_s: float
    """Rate at which the bath approaches its goal (1/s)."""


class TissueState:
    """The tissue in one chamber (floats)."""

    share: float
    """Its share of the rig's tissue at the start."""
    viability: float
    """Living tissue over what would live of it in the care for which the rig is designed, 0 to 1."""
    volume_mm3: float
    """Of one organoid."""
    dead_fraction: float
    """Share of it that does not live, most of it the necrotic core."""
    count: float
    """Number of organoids."""
    core_m: float
    """Radius within which less than half as much lives as at the surface."""
    uptake_nmol_s: float
    """Oxygen, all organoids."""
    surface_oxygen_mm: float
    """At the surface of the organoids."""
    aged: float
    """Share of viability that has been lost for good."""
    pending: float
    """Harm (a share of what lives) that is done and has not killed yet."""
    lactate_min_mm: float
    """This field and the next ones are those of :class:`sim.plant.tissue_models.TissueKind`."""
    lactate_harm: float
    ammonia_min_mm: float
    ammonia_harm: float
    ageing_per_h: float
    demand: float
    core_harm_per_h: float
    glucose_uptake: float
    ammonia_per_glucose: float
    growth_per_day: float
    min_oxygen_mm: float
    anoxia_harm: float
    regrowth: float
    max_harmless_c: float
    heat_harm: float
    min_harmless_c: float
    cold_harm: float
    min_ph: float
    max_ph: float
    ph_harm: float
    min_glucose_mm: float
    hunger_harm: float
    lactate_sensitive: float
    synergy_harm: float
    min_osmolality: float
    max_osmolality: float
    osmolality_harm: float
    delay_h: float
    trophic_share: float
    min_insulin: float
    insulin_harm: float


class Shell(IntEnum):
    """The rows of the shells of a tissue, shape (rows, shells)."""

    OXYGEN = 0
    """Oxygen (mM)."""
    LIVING = 1
    """Share of the cells that live."""
    CAPACITY = 2
    """Share of an organoid that lives in the care by design, at each radius of :func:`sim.plant.sphere.capacity_radius_m`."""


class Sizes(NamedTuple):
    """Numbers of things, in the order in which they are kept."""

    vessels: int
    junctions: int
    """Nodes after the vessels."""
    pumped: int
    """Lines with a pump: the first."""
    branches: int
    """Passive lines in which a pump drives the medium, at a junction: the next. The rest are passive outlets."""
    lines: int
    outlets: int
    spaces: int
    tissues: int
    stride: int
    """Groups of nodes that take turns (see :class:`Node`)."""


def width(record: np.dtype[np.void]) -> int:
    """Return the number of fields of a record."""
    return len(record.names or ())


def _records(fields: type, kind: type[np.generic]) -> np.dtype[np.void]:
    """Return the type of an array of records with the fields of a class."""
    return np.dtype([(name, kind) for name in fields.__annotations__])


LINK = _records(Link, np.int64)
LINE = _records(LineRecord, np.float64)
NODE = _records(Node, np.int64)
OUTLET = _records(Outlet, np.int64)
TRAIT = _records(Trait, np.float64)
BODY = _records(Body, np.float64)
SPACE = _records(Space, np.float64)
TISSUE = _records(TissueState, np.float64)
