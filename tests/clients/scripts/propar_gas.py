"""Bronkhorst's own bronkhorst-propar: set a mass flow controller and read it back, in its binary mode."""

import json
import sys
import time

import propar

controller = propar.instrument(sys.argv[1])
found = {"serial": controller.readParameter(92), "tag": controller.readParameter(115)}
controller.setpoint = int(sys.argv[2])
time.sleep(1.0)
found |= {
    "setpoint": controller.setpoint,
    "measure": controller.measure,
    "flow": controller.readParameter(205),
    "capacity": controller.readParameter(21),
}
controller.master.stop()
print(json.dumps(found))
