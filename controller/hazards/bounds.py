"""Biological and hardware bounds for the limits of a rig, each with its source.

Tags as in docs/sources: V read in a source, R recalled, D derived, P a design choice.
"""

from __future__ import annotations

MAX_LIMIT_C = 39.0
"""Viability counts as lost above it [P; the campaign judges 39.5 °C as too hot]: the interlock has to act before."""
MIN_LIMIT_C = 33.0
"""Viability counts as lost below it [P]."""
HARM_C = 42.0
"""Cerebral oxygen use falls again above 42 °C [V, openanesthesia.org]: proteins fail within minutes."""
MARGIN_C = 0.3
"""A regulator swings by ±0.2 °C [P]; a limit nearer to the set-point would trip all the time."""
COLDER_BY_C = 5.0
"""Maximum distance of a low limit below the set-point: metabolism falls by 6 to 7 % per °C [V]."""

MIN_PH, MAX_PH = 7.0, 7.9
"""pH of the medium at the ends of the CO2 range; outside lies grade D for hours [P]."""
SETPOINT_PH = (7.1, 7.6)
"""Grades A and B [P]."""
HARM_PH = 6.8
"""Growth arrest of stem cells at pH 6.6 [V, S43]; some margin before it."""
ACID_BORNE_S = 300.0
"""Time that tissue survives pH 6.8, as in a short ischaemia [R]."""
MIN_OXYGEN_PCT = 40.0
"""A set-point of grade B or better, % of air saturation [P]."""

MAX_SHEAR_PA = 0.1
"""At an organoid's surface, upper end of "amber" [P]."""
OXYGEN_MM = 0.19
"""In medium at 37 °C under air with 5 % CO2 [D]."""
V_MAX_OXYGEN_MOL_M3_S = 0.012
"""Oxygen use of organoid tissue, default [P]."""
OXYGEN_DIFFUSION_M2_S = 3.0e-9
"""In medium at 37 °C [R]."""
V_GLUCOSE_MOL_M3_S = 5.4e-3
"""Glucose use of adult human brain [D, biology.md §1.1]; organoids use less."""
LACTATE_PER_GLUCOSE = 2.0
"""Upper limit, without oxygen [R]."""
MIN_GLUCOSE_MM = 1.0
"""Glucose at which uptake slows down [V, Km of its transporters 1.6 to 3 mM]."""
MAX_LACTATE_MM = 15.0
"""Lactate that acidifies medium of 26 mM bicarbonate to pH 7.1 [D]."""
CONCENTRATED_SHARE = 0.1
"""Loss that raises the osmolality by a tenth, some 29 mOsm/kg [P]."""
MIN_MOSM, MAX_MOSM = 180.0, 450.0
"""Osmolality outside which a liquid is no medium: water, ethanol, stocks of glucose and base kill tissue on contact [P]."""
LIVING_RIM_UM = 306.0
"""Depth to which oxygen feeds tissue at that use [D]."""

STALL_KPA = 200.0
"""Pressure at which the rollers of a peristaltic pump leak back [P]; it is the maximum that arises."""
REACHABLE = 0.8
"""Maximum share of the stall pressure for a limit: above it the pump slips instead of tripping it [P]."""
HEAD_KPA = 10.0
"""Minimum distance of a limit from the working pressure: a metre of height, or the zero error of a gauge [P]."""
OVERLOAD_BORNE_S = 30.0
"""Time that tubing and filters bear the stall pressure: the burst pressure is some three times the rating [P]."""
TUBING_KPA = ((1.6, 482.0), (3.2, 296.0), (6.4, 172.0), (20.0, 100.0))
"""Bore up to (mm) and rated pressure [V, S32; the last P]."""
STIFFNESS_PER_KPA = 1e-3
"""Share of its volume by which elastomer tubing swells per kPa [R]."""
DIALYSER_KPA = 66.0
"""500 mmHg, the usual maximum transmembrane pressure of hollow fibres [R], unless `max_pressure` is given."""
MEMBRANE_PER_M = 8.3e10
"""Flow resistance of a clean 0.2 µm membrane (1/m), as in docs/recycling.md."""
VISCOSITY_PA_S = 0.72e-3
"""Medium at 37 °C [R]."""

BORNE_MOSM = (220.0, 360.0)
"""Osmolality that tissue bears for days: grade C ends at 12 % around 285 [P]; some margin beyond it."""
GLUCOSE_SHIFTS_PH = 0.25
"""Maximum shift of pH by a dose of glucose: from the middle of grade A to the end of grade B [P]; nothing doses acid."""
LIQUID_HARMS_S = 1800.0
"""Time to harm in a liquid that is no medium: viability falls by half within three hours at 900 mOsm/kg [D, the plant]."""
STERILE_UM = 0.22
"""Pores that hold bacteria back [R]: 0.2 or 0.22 um by maker."""
STILL_AIR_W_M2_K = 5.0
"""Heat transfer to still air, lower end [R]."""
BORE_FACTOR = 2.0
"""Ratio of a pump's tubing to the bore of its line that connectors still bridge [P]."""
BRIM_SHARE = 0.02
"""Part of a vessel's capacity that an overflow needs above it: waves, menisci, a slanting bench [P]."""

PERSON_S = 3600.0
"""A hazard that harms later than this can be accepted: a person who is called has time to act (docs/alarms.md)."""
