"""sensirion-uart-scc1: a liquid flow sensor's identity, scale and measurements, over a pseudo-terminal."""

import json
import sys
import time

from sensirion_shdlc_driver import ShdlcConnection, ShdlcSerialPort
from sensirion_uart_scc1.drivers.scc1_slf3x import Scc1Slf3x
from sensirion_uart_scc1.drivers.slf_common import SlfProductName
from sensirion_uart_scc1.scc1_shdlc_device import Scc1ShdlcDevice

with ShdlcSerialPort(port=sys.argv[1], baudrate=115200) as port:
    cable = Scc1ShdlcDevice(ShdlcConnection(port), target_address=0)
    sensor = Scc1Slf3x(cable)
    scale, unit = sensor.get_flow_unit_and_scale()
    before = sensor.get_continuous_measurement_status()
    sensor.start_continuous_measurement(interval_ms=50)
    time.sleep(0.3)
    flow, temperature, flags = sensor.get_last_measurement()
    during = sensor.get_continuous_measurement_status()
    sensor.stop_continuous_measurement()
    print(
        json.dumps(
            {
                "product": SlfProductName.from_product_id(sensor.product_id),
                "serial": sensor.serial_number,
                "unit": unit,
                "interval_ms": [before, during, sensor.get_continuous_measurement_status()],
                "flow": flow / scale,
                "temperature": temperature / 200.0,
                "flags": flags,
            }
        )
    )
