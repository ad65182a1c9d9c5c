"""Whether each point that the rig file names is what its role needs, in the unit of that role, as its driver says (Q1).

The rig description knows the points of the families that it lists. Those of a described Modbus device, and of a driver of a
third party, are known to the driver only. Nothing converts a value later: a wrong unit is refused here, with the factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.rig.description import Rig
from controller.rig.families import PointKind
from controller.rig.problems import Finding, Place, nearest
from controller.rig.quantities import QuantityError, parse_quantity
from controller.rig.roles import PointRole, point_roles
from drivers.device import Device
from drivers.modbus_generic import ModbusGeneric


def points_fit_their_roles(rig: Rig, built: Mapping[str, Device]) -> Iterator[Finding]:
    """Yield a finding for each point that its device lacks, or that is of another kind or in another unit than its role.

    Args:
        rig: The rig.
        built: Its devices with an installed driver, by name.
    """
    seen: set[Place] = set()
    for role in point_roles(rig):
        device = built.get(role.point.partition(".")[0])
        if device is not None and role.place not in seen:
            seen.add(role.place)
            yield from _fits(role, device)


def _fits(role: PointRole, device: Device) -> Iterator[Finding]:
    name = role.point.partition(".")[2]
    has: dict[str, str] = {}  # a gas flow is measured and set under one name
    if (sensor := device.sensors.get(name)) is not None:
        has["sensor"] = sensor.unit
    if (output := device.actuators.get(name)) is not None:
        has[output.kind] = output.unit
    of_kind = [wanted for wanted in role.kinds if wanted.kind in has]
    if not of_kind:
        yield _of_no_kind(role, device, " or ".join(has))
    elif not any(wanted.kind == "switch" or wanted.unit == has[wanted.kind] for wanted in of_kind):
        wanted = of_kind[0]
        unit = has[wanted.kind]
        here = f"“{role.point}” is {f'in {unit}' if unit else 'without a unit'}"
        what = f"{here}, and a {wanted} {f'in {wanted.unit}' if wanted.unit else 'without a unit'} belongs here"
        yield Finding(role.place, what, _fix(device, name, unit, wanted))


def _of_no_kind(role: PointRole, device: Device, has: str) -> Finding:
    wanted = " or ".join(map(str, role.kinds))
    here = device.config.name
    kinds = {wanted.kind for wanted in role.kinds}
    fitting = [f"{here}.{point}" for point, output in device.actuators.items() if output.kind in kinds]
    fitting += [f"{here}.{point}" for point in device.sensors] if "sensor" in kinds else []
    if not has:
        fix = nearest(role.point, fitting, "points of this device that fit")
        return Finding(role.place, f"“{here}” has no point “{role.point.partition('.')[2]}”", fix)
    return Finding(role.place, f"“{role.point}” is a {has}, and a {wanted} belongs here", f"Name a {wanted}")


def _fix(device: Device, point: str, unit: str, wanted: PointKind) -> str:
    """Return what to write so that a point is in the unit that is wanted."""
    if not isinstance(device, ModbusGeneric):
        return f"Name another point; the driver of {device.model.id} must report {wanted.unit or 'no unit'} here"
    spec, where = device.description.points[point], f"points.{point} of its description"
    if not unit:
        return f"Write “unit: {wanted.unit}” at {where} if that is what it reports"
    try:
        shift = parse_quantity(f"0 {unit}", wanted.unit)
        gain = parse_quantity(f"1 {unit}", wanted.unit) - shift
    except QuantityError:
        return f"Name a point in {wanted.unit or 'no unit'}; {unit} cannot be converted"
    scale, offset = spec.scale * gain, spec.offset * gain + shift
    bounds = ", and convert its limits" if spec.limits is not None or spec.level is not None else ""
    return f"Write “unit: {wanted.unit}, scale: {scale:.9g}, offset: {offset:.9g}” at {where}{bounds}"
