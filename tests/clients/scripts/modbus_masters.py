"""Other Modbus masters than minimalmodbus (uModbus, modbus-tk, pymodbus): a temperature controller, a relay board.

Each reads the controller's first five registers, writes its remote set-point (26), reads what it answers to a register
that it does not have, and switches the board's coil 1.
"""

import json
import sys

import serial

port, master = sys.argv[1:3]
CONTROLLER, BOARD = 1, 3
NO_SUCH_REGISTER = 5000


def by_umodbus():
    from umodbus.client.serial import rtu
    from umodbus.exceptions import IllegalDataAddressError

    with serial.Serial(port, 9600, timeout=1.0) as line:

        def ask(message):
            return rtu.send_message(message, line)

        told = {"written": ask(rtu.write_single_register(CONTROLLER, 26, 372))}
        told["values"] = ask(rtu.read_holding_registers(CONTROLLER, 1, 5))
        told["coils"] = [ask(rtu.write_single_coil(BOARD, 1, 1)), ask(rtu.read_coils(BOARD, 0, 2))]
        told["all"] = [ask(rtu.write_multiple_coils(BOARD, 0, [1, 0])), ask(rtu.read_coils(BOARD, 0, 2))]
        try:
            ask(rtu.read_holding_registers(CONTROLLER, NO_SUCH_REGISTER, 1))
        except IllegalDataAddressError as refused:
            told["refused"] = refused.error_code
        return told


def by_modbus_tk():
    from modbus_tk import defines, modbus, modbus_rtu

    line = modbus_rtu.RtuMaster(serial.Serial(port, 9600))
    line.set_timeout(1.0)
    ask = line.execute
    told = {"written": ask(CONTROLLER, defines.WRITE_SINGLE_REGISTER, 26, output_value=372)[1]}
    told["values"] = ask(CONTROLLER, defines.READ_HOLDING_REGISTERS, 1, 5)
    one = ask(BOARD, defines.WRITE_SINGLE_COIL, 1, output_value=1)
    told["coils"] = [int(one[1] == 0xFF00), ask(BOARD, defines.READ_COILS, 0, 2)]
    many = ask(BOARD, defines.WRITE_MULTIPLE_COILS, 0, output_value=[1, 0])
    told["all"] = [many[1], ask(BOARD, defines.READ_COILS, 0, 2)]
    try:
        ask(CONTROLLER, defines.READ_HOLDING_REGISTERS, NO_SUCH_REGISTER, 1)
    except modbus.ModbusError as refused:
        told["refused"] = refused.get_exception_code()
    line.close()
    return told


def by_pymodbus():
    from pymodbus.client import ModbusSerialClient

    with ModbusSerialClient(port, baudrate=9600, timeout=1.0) as line:
        told = {"written": line.write_register(26, 372, device_id=CONTROLLER).registers[0]}
        told["values"] = line.read_holding_registers(1, count=5, device_id=CONTROLLER).registers
        one = line.write_coil(1, True, device_id=BOARD)
        told["coils"] = [int(one.bits[0]), [int(on) for on in line.read_coils(0, count=2, device_id=BOARD).bits[:2]]]
        many = line.write_coils(0, [True, False], device_id=BOARD)
        told["all"] = [many.count, [int(on) for on in line.read_coils(0, count=2, device_id=BOARD).bits[:2]]]
        told["refused"] = line.read_holding_registers(NO_SUCH_REGISTER, device_id=CONTROLLER).exception_code
        return told


print(json.dumps({"umodbus": by_umodbus, "modbus-tk": by_modbus_tk, "pymodbus": by_pymodbus}[master]()))
