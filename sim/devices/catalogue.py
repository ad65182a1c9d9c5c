"""All simulated devices, by the model's id in the rig file."""

from __future__ import annotations

from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.alicat_mfc import AlicatMfc
from sim.devices.atlas_ezo import EzoDo, EzoEc, EzoOrp, EzoPh, EzoRtd
from sim.devices.atlas_ezo_pmp import AtlasEzoPmp
from sim.devices.bronkhorst_propar import BronkhorstPropar
from sim.devices.eurotherm_3200 import Eurotherm3200
from sim.devices.hamilton_arc import HamiltonPhArc, HamiltonVisifermDo
from sim.devices.huber_pb import HuberPb
from sim.devices.ismatec_reglo_digital import IsmatecRegloDigital
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc
from sim.devices.jobst_six import JobstSix
from sim.devices.julabo import Julabo
from sim.devices.keller_bus import KellerBus
from sim.devices.keller_x_line import KellerXLine
from sim.devices.longer import Longer
from sim.devices.masterflex_ls import MasterflexLs
from sim.devices.masterflex_usb import MasterflexUsb
from sim.devices.mettler_sics import MettlerSics
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.modbus_generic import ModbusGeneric
from sim.devices.port import PlantPort
from sim.devices.roche_cedex import RocheCedex
from sim.devices.sartorius_sbi import SartoriusSbi
from sim.devices.sensirion_slf3x import SensirionSlf3x
from sim.devices.tecan_cavro import TecanCavro
from sim.devices.vaisala_gmp25x import VaisalaGmp25x
from sim.devices.vici_actuator import ViciActuator
from sim.devices.watson_marlow import WatsonMarlow
from sim.devices.wire import WireDevice

DEVICES: dict[str, Callable[[str, DeviceSpec, PlantPort], WireDevice]] = {
    "alicat-mfc": AlicatMfc,
    "atlas-ezo-do": EzoDo,
    "atlas-ezo-ec": EzoEc,
    "atlas-ezo-orp": EzoOrp,
    "atlas-ezo-ph": EzoPh,
    "atlas-ezo-pmp": AtlasEzoPmp,
    "atlas-ezo-rtd": EzoRtd,
    "bronkhorst-propar": BronkhorstPropar,
    "eurotherm-3200": Eurotherm3200,
    "hamilton-ph-arc": HamiltonPhArc,
    "hamilton-visiferm-do": HamiltonVisifermDo,
    "huber-pb": HuberPb,
    "ismatec-reglo-digital": IsmatecRegloDigital,
    "ismatec-reglo-icc": IsmatecRegloIcc,
    "jobst-six": JobstSix,
    "julabo": Julabo,
    "keller-bus": KellerBus,
    "keller-x-line": KellerXLine,
    "longer-0xe9": Longer,
    "masterflex-ls": MasterflexLs,
    "masterflex-usb": MasterflexUsb,
    "mettler-sics": MettlerSics,
    "modbus-coil-relay": ModbusCoilRelay,
    "modbus-generic": ModbusGeneric,
    "roche-cedex-bio-ht": RocheCedex,
    "sartorius-sbi": SartoriusSbi,
    "sensirion-slf3x": SensirionSlf3x,
    "tecan-cavro": TecanCavro,
    "vaisala-gmp25x": VaisalaGmp25x,
    "vici-actuator": ViciActuator,
    "watson-marlow-ascii": WatsonMarlow,
}
