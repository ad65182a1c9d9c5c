"""The alicat package: read a mass flow controller on a shared line, and set its flow."""

import asyncio
import json
import sys

from alicat import FlowController


async def main() -> None:
    async with FlowController(sys.argv[1], unit=sys.argv[2]) as controller:
        before = await controller.get()
        await controller.set_flow_rate(float(sys.argv[3]))
        await asyncio.sleep(3.0)
        after = await controller.get()
    print(json.dumps({"before": before, "after": after}))


asyncio.run(main())
