"""Broken drivers that the conformance kit must detect.

Each is a sound driver with one defect, made by a thin layer around it or by a few lines of a small driver written
for this. A broken driver names the property that must catch it. `choroid verify conformance` tries them.
"""

from verification.conformance.broken.making import Broken
from verification.conformance.broken.manners import MANNERS
from verification.conformance.broken.modbus import MODBUS
from verification.conformance.broken.outputs import OUTPUTS
from verification.conformance.broken.pumps import PUMPS
from verification.conformance.broken.sensors import SENSORS
from verification.conformance.broken.stops import STOPS
from verification.conformance.broken.text import TEXT
from verification.conformance.broken.trust import TRUST

GENERIC: tuple[Broken, ...] = (*SENSORS, *OUTPUTS, *STOPS, *PUMPS, *TRUST, *MANNERS)
"""Made from any driver with a bench."""
WRITTEN: tuple[Broken, ...] = (*TEXT, *MODBUS)
"""Written on the small text device and the small Modbus device."""
ALL: tuple[Broken, ...] = (*GENERIC, *WRITTEN)
