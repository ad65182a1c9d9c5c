"""Parameters as people write them: `batch="18 mL"` becomes a checked number in the protocol's own unit."""

from __future__ import annotations

from collections.abc import Mapping

from controller.rig.quantities import QuantityError, parse_quantity
from protocols.parameters import ParamError, complete
from protocols.registry import Recipe


def parse_params(recipe: Recipe, given: Mapping[str, str | float]) -> dict[str, float]:
    """Return every parameter by its key, in internal units.

    Args:
        recipe: The protocol.
        given: Values by name. Text needs its unit (a count needs none); numbers are in internal units.

    Raises:
        ParamError: A name is unknown, or a value is out of range.
        QuantityError: A text is no quantity of the parameter's unit (F6).
    """
    units = {param.name: param.unit for param in recipe.params}
    numbers: dict[str, float] = {}
    for name, value in given.items():
        if not isinstance(value, str):
            numbers[name] = float(value)
        elif name not in units:
            raise ParamError(f"{recipe.name} has no parameter “{name}”. Next: choose among {', '.join(units)}")
        elif units[name]:
            numbers[name] = parse_quantity(value, units[name])
        else:
            try:
                numbers[name] = float(value)
            except ValueError:
                raise QuantityError(f"{name} = “{value}” is not a number; write for example {name}=3") from None
    return complete(recipe.params, numbers)
