"""huber, by NuMat: a thermostat's temperatures and set-point, over TCP as its Com.G@te serves them."""

import asyncio
import json
import sys

from huber import Bath


async def _switched(bath, on):
    await bath.toggle(on)
    return (await bath.get_status())["controlling"]


async def main():
    Bath.port = int(sys.argv[1])
    async with Bath("127.0.0.1", comm_timeout=1.0) as bath:
        await bath.set_setpoint(float(sys.argv[2]))
        told = {
            "setpoint": await bath.get_setpoint(),
            "bath": await bath.get_bath_temperature(),
            "pressure": await bath.get_pump_pressure(),
            "speed": await bath.get_pump_speed(),
            "status": await bath.get_status(),
            "on": [await _switched(bath, on) for on in (False, True)],
        }
    print(json.dumps(told))


asyncio.run(main())
