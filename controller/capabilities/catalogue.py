"""Every function that a rig may lack, with its needs."""

from __future__ import annotations

from controller.capabilities import needs
from controller.capabilities.terms import Capability, Function
from controller.rig.description import Rig
from controller.rig.graph import fed_by_hearts
from controller.rig.probes import ph_target
from controller.rig.problems import named
from controller.rig.surroundings import culture_vessel, zone_of


def capabilities_of(rig: Rig) -> tuple[Capability, ...]:
    """Return each function with what `rig` lacks for it."""
    return tuple(
        Capability(
            function.id,
            function.title,
            tuple(lack for need in function.needs if (lack := need(rig)) is not None),
            function.without(rig),
        )
        for function in FUNCTIONS
    )


def _place(rig: Rig, vessel: str) -> str:
    """Return the name of a vessel's surroundings."""
    zone = rig.vessels[vessel].zone
    return "the room" if zone is None else f"the zone “{zone}”"


def _temperature_of_zone(rig: Rig) -> str:
    zones = {_place(rig, chamber): zone_of(rig, chamber).temperature_c for chamber in rig.tissue}
    return "the temperature is that of " + " and ".join(f"{place}, {kept_c:g} °C" for place, kept_c in zones.items())


def _calibrated_flow(rig: Rig) -> str:
    if not rig.organs.hearts:
        return "nothing circulates"
    if rig.junctions:
        return (
            "a heart's flow is that of its calibration, and that of a branch follows from its tubing; none is measured"
        )
    return "the heart's flow is that of its calibration, not a measured one"


def _at_rest(rig: Rig) -> str:
    fed = fed_by_hearts(rig)
    away = named([chamber for chamber in rig.tissue if chamber not in fed])
    return f"oxygen reaches the tissue in {away} from the surface only, and no flow is watched there"


def _gas_of_zone(rig: Rig) -> str:
    vessel = culture_vessel(rig)
    zone = zone_of(rig, vessel)
    return f"pCO2 and oxygen are set by {_place(rig, vessel)}: {zone.co2_pct:g} % CO2, {zone.oxygen_pct:g} % oxygen"


def _ph_of_zone(rig: Rig) -> str:
    place = _place(rig, culture_vessel(rig))
    return f"pH is not regulated; fresh medium takes about pH {ph_target(rig):.2f} in the gas of {place}"


_SKIN = needs.organ("skin", "a heater or thermostat with a temperature probe")
_LUNG = needs.organ("lung", "flow controllers of air, CO2 and oxygen")

FUNCTIONS: tuple[Function, ...] = (
    Function("perfusion", "perfusion of each chamber", (needs.heart, needs.perfusion), _at_rest),
    Function(
        "spent_medium", "exchange of weighed medium", (needs.organ("kidney", "pumps and a vessel on a balance"),),
        lambda rig: "a person takes spent medium away; recipes that draw, return or discard it are not available",
    ),
    Function(
        "chamber_doses", "doses into each chamber by itself", (needs.dosing,),
        lambda rig: "recipes that dispense into single chambers are not available",
    ),
    Function(
        "chamber_extraction", "extraction from each chamber by itself", (needs.emptying,),
        lambda rig: "recipes that aspirate from single chambers are not available",
    ),
    Function(
        "medium_estimates", "estimates and grades of the medium", (needs.loop,),
        lambda rig: "the composition of the medium is neither estimated nor graded",
    ),
    Function("temperature_control", "temperature control", (_SKIN,), _temperature_of_zone),
    Function(
        "temperature_alarm", "alarm and interlock of temperature", (needs.temperature_probe, needs.temperature_limit),
        lambda rig: "the controller does not see a chamber that is too warm or too cold",
    ),
    Function("gas_control", "gas control", (_LUNG,), _gas_of_zone),
    Function("ph_regulation", "regulation of pH", (_LUNG, needs.ph_probe), _ph_of_zone),
    Function(
        "ph_alarm", "alarm of pH", (needs.ph_probe,),
        lambda rig: "the controller does not see a loop that is too acid or too alkaline; media are estimated without pH",
    ),
    Function(
        "oxygen_readings", "readings of oxygen", (needs.oxygen_probe,),
        lambda rig: "lack of oxygen is not seen; viability is scored without it",
    ),
    Function(
        "oxygen_uptake", "oxygen uptake of the tissue", (needs.oxygen_probe, needs.outlet_oxygen_probe),
        lambda rig: "viability estimates the metabolism from lactate only",
    ),
    Function(
        "measured_flow", "measured circulation", (needs.heart_flow_sensors,),
        _calibrated_flow,
    ),
    Function(
        "fresh_medium", "dosing of fresh medium", (needs.organ("gut", "a pump from a bottle of fresh medium"),),
        lambda rig: "fresh medium is brought by hand; recipes that feed are not available",
    ),
    Function(
        "conditioning", "conditioning with glucose and bicarbonate", (needs.organ("liver", "dosing pumps and a pH probe"),),
        lambda rig: "recycle is not available"
        if rig.organs.kidney is None
        else "a batch is returned as it is or discarded; recycle is not available",
    ),
    Function(
        "sterile_barrier", "sterile barrier", (needs.organ("immune", "a filter and its gauge on the return line"),),
        lambda rig: "nothing filters the medium that a person brings"
        if rig.organs.kidney is None
        else "contamination that is drawn comes back to the tissue",
    ),
    Function(
        "osmolality_readings", "osmolality of spent medium", (needs.conductivity_probe,),
        lambda rig: "osmolality is estimated from evaporation and doses",
    ),
    Function(
        "dialysis", "dialysis of spent medium", (needs.dialyser,),
        lambda rig: "lactate and ammonia are removed by fresh medium only",
    ),
    Function(
        "electrophysiology", "electrode input and output", (needs.electrodes,),
        lambda rig: "viability is scored without electrical activity; agents have no access",
    ),
)  # fmt: skip
