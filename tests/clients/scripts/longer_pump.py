"""matterlab-pumps: a Longer peristaltic pump runs for a while, over a pseudo-terminal."""

import json
import sys
import time

from matterlab_pumps.longer_peri import LongerPeristalticPump

pump = LongerPeristalticPump(sys.argv[1], int(sys.argv[2]), parity="none")  # a pseudo-terminal has none
pump.set_pump(rpm=float(sys.argv[3]), on=True, direction=True)
during = pump.query_pump()
time.sleep(float(sys.argv[4]))
pump.set_pump(on=False)
print(json.dumps({"during": during, "after": pump.query_pump()}))
