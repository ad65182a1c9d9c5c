"""matterlab-valves: a VICI multi-position actuator goes home and to a port, over a pseudo-terminal."""

import json
import sys

from matterlab_valves import ValcoSelectionValve

# Its own connect() sends a Python tuple as the number of ports (“NP(10, False)”), which no actuator takes: this is the rest.
valve = ValcoSelectionValve(com_port=sys.argv[1], num_port=10, connect_hardware=False)
valve._set_response_mode()
valve._set_device_mode()
valve._home_valve()
told = {"ports": valve.num_port, "home": valve.get_current_port()}
valve.set_current_port(int(sys.argv[2]))
print(json.dumps(told | {"port": valve.get_current_port()}))
