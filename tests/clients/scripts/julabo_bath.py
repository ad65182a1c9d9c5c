"""julabo, by the people of a synchrotron: identity, set-point, start and stop of a circulator, over a pseudo-terminal."""

import asyncio
import json
import sys

from julabo import JulaboCF, connection_for_url


async def main():
    # Raw bytes of a TCP line: what a serial server in front of the circulator carries.
    bath = JulaboCF(connection_for_url(sys.argv[1]))
    await bath.protocol.conn.open()
    told = {"version": await bath.identification(), "before": [await bath.status(), await bath.is_started()]}
    await bath.set_point_1(float(sys.argv[2]))
    await bath.start()
    told |= {
        "setpoint": await bath.set_point_1(),
        "during": [await bath.status(), await bath.is_started()],
        "bath": await bath.bath_temperature(),
        "power": await bath.heating_power(),
    }
    await bath.stop()
    told["after"] = [await bath.status(), await bath.is_started()]
    await bath.protocol.conn.close()
    print(json.dumps(told))


asyncio.run(main())
