"""plateflo, of a rig that perfuses tissue: a Reglo Digital, over a pseudo-terminal."""

import json
import sys
import time

from plateflo import serial_io
from plateflo.ismatec.ismatec_dig import RegloDigital


class Patient(serial_io.SerialDevice):
    """Its own patience of a fifth of a second is too little on a busy computer."""

    def __init__(self, port, timeout=0.0):
        super().__init__(port, timeout=5.0)


serial_io.SerialDevice = Patient

port, flow_ml_min, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
pump = RegloDigital(port, 1)
told = {
    "direction": pump.set_dir(-1),
    "set": pump.set_flow(flow_ml_min),
    "flow": pump.get_flow(),
    "start": pump.start(),
}
time.sleep(seconds)
told |= {"running": pump.get_run_state(), "stop": pump.stop(), "stands": pump.get_run_state()}
pump.kill()
print(json.dumps(told))
