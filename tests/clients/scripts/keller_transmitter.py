"""keller-protocol, by the maker of the transmitters: identity and values on Keller's own bus, over a pseudo-terminal."""

import json
import sys

from keller_protocol.keller_protocol import KellerProtocol

bus = KellerProtocol(port=sys.argv[1], baud_rate=9600, timeout=1.0, echo=False)
print(
    json.dumps(
        {
            "firmware": bus.f48(1),
            "serial": bus.f69(1),
            "pressure_bar": bus.f73(1, 1),
            "tob1": bus.f73(1, 4),
            "tob1_integer": bus.f74(1, 4),
        }
    )
)
