"""All simulated devices, by the model's id in the rig file: each class of this package that says which model it is."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import sim.devices
from sim.devices.wire import WireDevice


def _found() -> dict[str, type[WireDevice]]:
    classes = [
        each
        for module in iter_modules(sim.devices.__path__, "sim.devices.")
        for each in vars(import_module(module.name)).values()
        if isinstance(each, type) and issubclass(each, WireDevice) and "model_id" in vars(each)
    ]
    return {each.model_id: each for each in sorted(classes, key=lambda each: each.model_id)}


DEVICES = _found()
