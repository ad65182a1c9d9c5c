"""The alicat package: read a mass flow controller on a shared line, and set its flow."""

import asyncio
import json
import os
import sys

from alicat import FlowController


async def main() -> None:
    # The package takes a path for a serial port only when it begins with /dev; the lab names its terminals by links.
    async with FlowController(os.path.realpath(sys.argv[1]), unit=sys.argv[2]) as controller:
        before = await controller.get()
        await controller.set_flow_rate(float(sys.argv[3]))
        await asyncio.sleep(3.0)
        after = await controller.get()
    print(json.dumps({"before": before, "after": after}))


asyncio.run(main())
