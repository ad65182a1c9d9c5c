"""plateflo, of a rig that perfuses tissue: one channel of a Reglo ICC, over a pseudo-terminal."""

import json
import sys
import time

from plateflo import serial_io
from plateflo.ismatec.ismatec_icc import RegloICC


class Patient(serial_io.SerialDevice):
    """Its own patience of a fifth of a second is too little on a busy computer."""

    def __init__(self, port, timeout=0.0):
        super().__init__(port, timeout=5.0)


serial_io.SerialDevice = Patient

port, channel, flow_ml_min, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
pump = RegloICC(port, 1)
told = {"max": pump.max_flow, "set": pump.set_chan_flow(flow_ml_min, channel), "flow": pump.get_chan_flow(channel)}
told["directions"] = []
for direction in (-1, 1):
    pump.set_chan_dir(channel, direction)
    told["directions"].append(pump.get_chan_dir(channel))
told["start"] = pump.start_chan(channel)
time.sleep(seconds)
told["running"] = pump.get_chan_run_state(channel)
told["stop"] = pump.stop_chan(channel)
told["stands"] = pump.get_chan_run_state(channel)
pump.kill()
print(json.dumps(told))
