"""Estimates of how fast a hazard does harm, from the rig file. Pessimistic where the file is silent."""

from __future__ import annotations

from math import inf, log, pi

from controller.hazards import bounds
from controller.rig.description import Line, Rig, TissueSpec, Vessel
from controller.rig.open_surfaces import chamber_ul, evaporation_ul_d
from controller.rig.surroundings import CO2_MM_PER_MMHG, DRY_MMHG, PK

KLA_PER_S = 0.02
"""Gas exchange of an oxygenator [P], as in the simulated lab."""
REFERENCE_CHAMBER = (2000.0, 5e-6)
"""A chamber of 2 mL has a cross-section of 5 mm² at the tissue [P]; others are scaled."""


def oxygen_demand_pmol_s(organoid: TissueSpec) -> float:
    """Return the oxygen use of the tissue (pmol/s): of each sphere the rim that oxygen reaches."""
    radius_m = organoid.diameter_mm / 2000.0
    core_m = max(0.0, radius_m - bounds.LIVING_RIM_UM * 1e-6)
    rim_m3 = 4.0 / 3.0 * pi * (radius_m**3 - core_m**3)
    return organoid.count * rim_m3 * bounds.V_MAX_OXYGEN_MOL_M3_S * 1e12


def oxygen_supply_pmol_s(flow_ul_min: float) -> float:
    """Return the oxygen that a flow of saturated medium delivers (pmol/s)."""
    return flow_ul_min / 60.0 * bounds.OXYGEN_MM * 1000.0


def surface_supply_pmol_s(vessel: Vessel, area_cm2: float) -> float:
    """Return the oxygen that diffuses from the surface to tissue at the bottom (pmol/s): D·c·A/h, without convection."""
    area_m2 = area_cm2 * 1e-4
    depth_m = chamber_ul(vessel) * 1e-9 / area_m2
    return bounds.OXYGEN_DIFFUSION_M2_S * bounds.OXYGEN_MM * area_m2 / depth_m * 1e12


def open_supply_pmol_s(vessel: Vessel) -> float:
    """Return the oxygen from the surface that the rig file names (pmol/s); 0 without one: the chamber counts as closed."""
    return 0.0 if vessel.surface_cm2 is None else surface_supply_pmol_s(vessel, vessel.surface_cm2)


def oxygen_lasts_s(rig: Rig, chamber: str, supply_pmol_s: float = 0.0) -> float:
    """Return how long the oxygen in a chamber lasts without flow (s), while a surface brings `supply_pmol_s`."""
    store_pmol = chamber_ul(rig.vessels[chamber]) * bounds.OXYGEN_MM * 1000.0
    use_pmol_s = (oxygen_demand_pmol_s(rig.tissue[chamber]) if chamber in rig.tissue else 0.0) - supply_pmol_s
    return store_pmol / use_pmol_s if use_pmol_s > 0.0 else inf


def shear_pa(rig: Rig, chamber: str, flow_ul_min: float) -> float:
    """Return the shear at an organoid's surface (Pa): 3·µ·v/(2·R), a sphere in slow flow."""
    reference_ul, reference_m2 = REFERENCE_CHAMBER
    section_m2 = reference_m2 * (chamber_ul(rig.vessels[chamber]) / reference_ul) ** (2.0 / 3.0)
    speed_m_s = flow_ul_min * 1e-9 / 60.0 / section_m2
    return float(1.5 * bounds.VISCOSITY_PA_S * speed_m_s / (rig.tissue[chamber].diameter_mm / 2000.0))


def glucose_use_nmol_s(tissue: TissueSpec) -> float:
    """Return the glucose use of the tissue (nmol/s)."""
    volume_m3 = tissue.count * pi / 6.0 * (tissue.diameter_mm / 1000.0) ** 3
    return volume_m3 * bounds.V_GLUCOSE_MOL_M3_S * 1e9


def spent_within_s(vessel: Vessel, use_nmol_s: float, glucose_mm: float) -> float:
    """Return how soon tissue has used up the medium of a vessel (s): glucose runs out, or lactate acidifies it."""
    usable_mm = min(max(glucose_mm - bounds.MIN_GLUCOSE_MM, 0.0), bounds.MAX_LACTATE_MM / bounds.LACTATE_PER_GLUCOSE)
    return chamber_ul(vessel) * usable_mm / use_nmol_s


def concentrated_within_s(rig: Rig, chamber: str) -> float:
    """Return how soon evaporation concentrates the medium of a chamber at rest by the bearable share (s)."""
    loss_ul_s = evaporation_ul_d(rig, chamber) / 86_400.0
    return chamber_ul(rig.vessels[chamber]) * bounds.CONCENTRATED_SHARE / loss_ul_s


def line_kpa(line: Line, flow_ul_min: float) -> float:
    """Return the pressure that a tube needs for a flow (kPa): 128·µ·L·Q/(π·d⁴)."""
    flow_m3_s = flow_ul_min * 1e-9 / 60.0
    return 128 * bounds.VISCOSITY_PA_S * line.length_m * flow_m3_s / (pi * (line.bore_mm * 1e-3) ** 4) / 1000.0


def filter_kpa(area_cm2: float, flow_ul_min: float) -> float:
    """Return the pressure that a clean sterile filter needs for a flow (kPa): R·µ·Q/A."""
    flux_m_s = flow_ul_min * 1e-9 / 60.0 / (area_cm2 * 1e-4)
    return bounds.MEMBRANE_PER_M * bounds.VISCOSITY_PA_S * flux_m_s / 1000.0


def rise_kpa_per_s(line: Line, flow_ul_min: float) -> float:
    """Return the rise of pressure in a blocked line (kPa/s): flow over the swelling of the tube."""
    volume_ul = pi / 4.0 * line.bore_mm**2 * line.length_m * 1000.0
    return flow_ul_min / 60.0 / (volume_ul * bounds.STIFFNESS_PER_KPA)


def tubing_kpa(line: Line) -> float:
    """Return the rated pressure of tubing of this bore (kPa)."""
    return next(kpa for bore_mm, kpa in bounds.TUBING_KPA if line.bore_mm <= bore_mm)


def acid_within_s(bicarbonate_mm: float, ph: float) -> float:
    """Return how soon CO2 alone brings the medium from `ph` to the harmful pH (s): C* − (C* − C)·e^(−kLa·t)."""
    full_mm = CO2_MM_PER_MMHG * DRY_MMHG
    at_mm, harm_mm = (bicarbonate_mm / 10 ** (value - PK) for value in (ph, bounds.HARM_PH))
    if harm_mm >= full_mm:
        return inf
    return max(0.0, log((full_mm - at_mm) / (full_mm - harm_mm)) / KLA_PER_S)


def fills_within_s(vessel: Vessel, flow_ul_min: float) -> float:
    """Return how soon a flow fills a vessel from its ceiling to its brim (s)."""
    return (vessel.capacity_ul - vessel.limit_ul) / flow_ul_min * 60.0


def empties_within_s(vessel: Vessel, flow_ul_min: float) -> float:
    """Return how soon a flow empties a vessel from its floor (s)."""
    return vessel.floor_ul / flow_ul_min * 60.0
