"""vicivalve, by the Hein group: a VICI multi-position actuator, over a pseudo-terminal."""

import json
import sys

from serial import Serial
from vicivalve import VICI


class Impatient(VICI):
    """Waits a second for what is not answered, such as its own first command; as it comes, it waits five."""

    def _send_and_receive(self, command, *more, timeout=1.0, **named):
        return super()._send_and_receive(command, *more, timeout=timeout, **named)


valve = Impatient(Serial(sys.argv[1], 9600), positions=10)
before = valve.current_position()
moved = valve.switch_valve(int(sys.argv[2]))
print(json.dumps({"before": before, "moved": moved, "after": valve.current_position()}))
