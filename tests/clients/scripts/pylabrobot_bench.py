"""pylabrobot: a Mettler-Toledo balance, or a Masterflex L/S drive that makes some revolutions, over a pseudo-terminal."""

import asyncio
import json
import sys
import time
import warnings

warnings.simplefilter("ignore", RuntimeWarning)  # this version never awaits what the drive answers


async def balance(port):
    from pylabrobot.scales.mettler_toledo_backend import MettlerToledoWXS205SDUBackend

    scale = MettlerToledoWXS205SDUBackend(port=port)
    await scale.setup()
    told = {"serial": scale.serial_number, "weight": await scale.read_stable_weight()}
    await scale.tare_stable()
    told |= {"tare": await scale.request_tare_weight(), "net": await scale.read_weight_value_immediately()}
    await scale.stop()
    return told


async def drive(port):
    from pylabrobot.pumps.cole_parmer.masterflex_backend import MasterflexBackend

    pump = MasterflexBackend(port)
    await pump.setup()
    time.sleep(0.2)
    await pump.send_command("S+120")
    time.sleep(0.2)
    await pump.run_revolutions(4)
    time.sleep(2.6)
    await pump.run_continuously(-60)
    time.sleep(1.0)
    await pump.halt()
    time.sleep(0.2)
    await pump.stop()
    return {}


print(json.dumps(asyncio.run({"balance": balance, "drive": drive}[sys.argv[2]](sys.argv[1]))))
