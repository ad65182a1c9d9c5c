"""Two clients of Sartorius balances: `SartoriUSB` reads lines of 16 or 22 characters, NuMat's `sartorius` of 22."""

import asyncio
import json
import sys

from sartorius import Scale
from sartoriusb import CMD_EXPCLICIT_TARA, SartoriusUsb


async def weighed(port):
    scale = Scale(address=port, baudrate=1200, timeout=2.0)
    told = {"reading": await scale.get(), "info": await scale.get_info()}
    scale.hw.close()
    return told


port, lines = sys.argv[1:3]
with SartoriusUsb(port, baudrate=1200) as scale:
    first = scale.measure()._asdict()
    if lines == "16":
        scale.send(CMD_EXPCLICIT_TARA)
        print(json.dumps({"before": first, "after": scale.measure()._asdict()}))
if lines == "22":
    print(json.dumps({"before": first, **asyncio.run(weighed(port))}))
