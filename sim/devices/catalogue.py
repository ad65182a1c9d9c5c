"""All simulated devices, by the model's id in the rig file: each class of this package that says which model it is."""

from __future__ import annotations

import sim.devices
from drivers.discovery import Catalogue, discover
from sim.devices.wire import WireDevice


def _model_of(value: object) -> str | None:
    if isinstance(value, type) and issubclass(value, WireDevice) and "model_id" in vars(value):
        return value.model_id
    return None


DEVICES: Catalogue[type[WireDevice]] = discover(sim.devices, _model_of, without=("catalogue",))
