"""The Hein group's ismatec package: a dose at a rate on one channel of a Reglo ICC."""

import json
import sys
import time

from ismatec.peristaltic_pump import RegloICC

pump = RegloICC(sys.argv[1], 1)
channel, flow_ml_min, volume_ml = int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
pump.set_mode_pump_volume_at_rate(channel, flow_rate=flow_ml_min, volume=volume_ml)
asked = {"flow_ml_min": pump.get_flow_rate_ml_min(channel), "volume_ml": pump.get_volume(channel)}
mode = str(pump.get_pump_mode(channel))
pump.start(channel)
time.sleep(60.0 * volume_ml / flow_ml_min + 1.0)
print(json.dumps({"asked": asked, "mode": mode, "max_ml_min": pump.get_max_flow_rate(channel)}))
pump.disconnect()
