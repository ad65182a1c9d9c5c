"""Broken drivers that the conformance kit must detect.

Each is a sound driver with one defect, made by a thin layer around it or by a few lines of a small driver written
for this. A broken driver names the property that must catch it. `choroid conformance --score` tries them.
"""

from drivers.conformance.broken.making import Broken
from drivers.conformance.broken.manners import MANNERS
from drivers.conformance.broken.modbus import MODBUS
from drivers.conformance.broken.outputs import OUTPUTS
from drivers.conformance.broken.pumps import PUMPS
from drivers.conformance.broken.sensors import SENSORS
from drivers.conformance.broken.stops import STOPS
from drivers.conformance.broken.text import TEXT
from drivers.conformance.broken.trust import TRUST

GENERIC: tuple[Broken, ...] = (*SENSORS, *OUTPUTS, *STOPS, *PUMPS, *TRUST, *MANNERS)
"""Made from any driver with a bench."""
WRITTEN: tuple[Broken, ...] = (*TEXT, *MODBUS)
"""Written on the small text device and the small Modbus device."""
ALL: tuple[Broken, ...] = (*GENERIC, *WRITTEN)
