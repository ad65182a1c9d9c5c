"""mettler_toledo_device: who the balance is and what it weighs."""

import json
import sys

from mettler_toledo_device import MettlerToledoDevice

balance = MettlerToledoDevice(port=sys.argv[1], timeout=2.0)
print(
    json.dumps(
        {"serial": balance.get_serial_number(), "weight": balance.get_weight(), "stable": balance.get_weight_stable()}
    )
)
