"""minimalmodbus: a Keller transmitter's pressure and a relay's coil, over a pseudo-terminal."""

import json
import sys
import time

import minimalmodbus

port = sys.argv[1]
keller = minimalmodbus.Instrument(port, 1)
relay = minimalmodbus.Instrument(port, 3)
for instrument in (keller, relay):
    instrument.serial.baudrate = 9600
    instrument.serial.timeout = 1.0
pressure_bar = keller.read_float(2)
before = relay.read_bits(0, 2, functioncode=1)
relay.write_bit(0, 1, functioncode=5)
time.sleep(0.1)
during = relay.read_bits(0, 2, functioncode=1)
relay.write_bit(0, 0, functioncode=5)
after = relay.read_bits(0, 2, functioncode=1)
print(json.dumps({"pressure_bar": pressure_bar, "coils": [before, during, after]}))
