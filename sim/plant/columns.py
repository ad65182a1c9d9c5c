"""The names of the columns in the plant's arrays.

Amounts are mmol/L × µL = nmol for solutes, and in the same way "unit of concentration × µL" for the rest: mOsm/kg × µL,
U/L × µL (LDH), CFU/mL × µL (microbes), days × µL (age), passes × µL (reuse). The last column is the liquid itself, in µL.
So everything that flows is one row of numbers that are all moved by the same factor, and closes to rounding.
"""

from __future__ import annotations

SPECIES = (
    "glucose", "lactate", "ammonia", "alkalinity", "glutamine", "oxygen", "carbon", "osmoles", "trophic", "insulin",
    "albumin", "ldh", "particles", "microbes", "age", "reuse",
)  # fmt: skip
"""What medium carries. `carbon` is all inorganic carbon (dissolved CO2 and bicarbonate), `alkalinity` the charge that
bicarbonate and buffers balance; `osmoles` is inert and follows the water."""

GLC, LAC, AMM, ALK, GLN, OXY, CAR, OSM, TRO, INS, ALB, LDH, PAR, MIC, AGE, USE = range(len(SPECIES))
LIQ = len(SPECIES)
COLUMNS = LIQ + 1

CAUSES = (
    "gas", "metabolism", "turnover", "evaporation", "overflow", "leak", "filter", "pump", "return", "fault",
    "hand",
)  # fmt: skip
"""Why an amount appeared or vanished; `return` counts the uses of medium, `fault` is what a fault put in or took, `hand`
what a person did."""
GAS, METABOLISM, TURNOVER, EVAPORATION, OVERFLOW, LEAK, FILTER, PUMP, RETURN, FAULT, HAND = range(len(CAUSES))

# Of a line, one row of numbers each.
(
    COMMAND,  # µL/min by the maker's chart, signed
    GAIN,  # what the pump really moves of it, new
    OPEN,  # 1 the valve is open or there is none, 0 closed
    SCALE,  # fault: factor on the flow
    LEAKING,  # fault: µL/min
    BUBBLE,  # fault: µL of air still to pass
    WORN,  # fault: 0..1
    REVOLUTIONS,
    REVOLUTION_UL,  # µL a revolution, by the chart
    RESISTANCE,  # kPa per µL/min of the tube
    CELL_UL,  # a quarter of the dead volume
    TUBE_KLA,  # 1/s through the wall
    WATER_UL_S,  # water lost through the wall
    MOVED,  # µL taken in since the beginning
    ARRIVED,  # µL that came out at the other end since then
    DRY,  # 1 while it pumps air because the vessel is empty
    DRIED,  # how often that began
    FLOW_UL_S,  # what flows, signed
    PRESSURE,  # kPa behind the pump
    KOA_UL_S,  # of the dialyser on it, small solutes
    KOA_AT_UL_S,  # the dialysate flow at which that is so; 0: at any
) = range(21)
LINE_COLUMNS = 21

# How lines are plumbed, whole numbers.
SOURCE, TARGET, FILTERED, BREATHES, RETURNS, DIALYSES = range(6)
"""`DIALYSES` is the number of the vessel whose dialyser the line passes through, -1 for none."""
LINK_COLUMNS = 6

# Of a vessel, fixed numbers.
CAPACITY, KLA, LIVE = range(3)
VESSEL_COLUMNS = 3

# Of a rig, one row of numbers.
(
    TEMPERATURE,  # °C
    HEATER_W,
    AMBIENT,  # °C
    O2_FRACTION,
    CO2_FRACTION,
    VIABILITY,  # 0..1
    VOLUME_MM3,  # of one organoid
    DEAD,  # fraction of it that is necrotic core
    COUNT,
    FOULING,  # resistance of the filter over that of a new one
    CLOG,  # fault: factor on it
    TORN,  # fault: 0 or 1
    FILTER_KPA,  # kPa per µL/min of a new filter
    FOULING_PER_UL,
    CORE_M,  # radius where oxygen falls below the death threshold
    UPTAKE,  # nmol oxygen a second, all organoids
    CHAMBER_FULL_UL,
    OXYGEN_SURFACE,  # mmol/L at the organoids' surface
    EVENTS,  # how often a vessel ran dry or over
    JACKET_W_PER_K,  # through which a thermostat's bath warms the body; 0 without one
    BATH,  # °C
    BATH_GOAL,  # °C
    BATH_PER_S,  # 1/s, how fast it goes there
) = range(23)
BODY_COLUMNS = 23

LOOP, CHAMBER, SPENT, SPILLS_TO = range(4)
"""Places of a rig: numbers of vessels."""
