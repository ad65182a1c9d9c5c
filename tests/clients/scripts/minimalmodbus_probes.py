"""minimalmodbus: a Hamilton pH Arc's blocks, or a Vaisala probe's carbon dioxide and status, over a pseudo-terminal."""

import json
import struct
import sys

import minimalmodbus

port, kind = sys.argv[1:3]
probe = minimalmodbus.Instrument(port, 240 if kind == "vaisala" else 1)
probe.serial.baudrate = 19200
probe.serial.stopbits = 2
probe.serial.timeout = 1.0


def number(low, high):
    return struct.unpack(">f", struct.pack(">HH", high, low))[0]


if kind == "vaisala":
    swapped = minimalmodbus.BYTEORDER_LITTLE_SWAP
    before = probe.read_float(520, byteorder=swapped)
    probe.write_float(520, 950.0, byteorder=swapped)
    told = {
        "co2": probe.read_float(0, byteorder=swapped),
        "status": probe.read_registers(2048, 2),
        "pressure": [before, probe.read_float(520, byteorder=swapped)],
    }
else:
    blocks = [probe.read_registers(register - 1, 10) for register in (2090, 2410)]
    probe.write_registers(4287, [0x0C, 0, 0x5DEA, 0x0114])
    told = {
        "units": [block[0] | block[1] << 16 for block in blocks],
        "values": [number(*block[2:4]) for block in blocks],
        "level": probe.read_registers(4287, 4),
    }
    try:
        probe.read_registers(2090 - 1, 2)
    except minimalmodbus.ModbusException as error:
        told["a part of a block"] = type(error).__name__
print(json.dumps(told))
