"""Connect the devices of a rig, and make what needs them: the gate, the probes' calibration, the runs."""

from __future__ import annotations

import asyncio
import logging

from controller.gate.gate import Gate
from controller.gate.probes import GatedProbe, Probes
from controller.links.connected_rig import ConnectedRig
from controller.memory.calibrations import Calibration, keep
from controller.process.core import Assembly, ControllerCore
from controller.runs.catalogue import ProtocolCatalogue
from controller.runs.runner import Runner
from controller.upkeep.probe_health import ProbeHealthWatch
from controller.vitals.scoring import Scoring
from drivers.transport.opener import Opener
from protocols.tissue_loss import TissueLoss

logger = logging.getLogger(__name__)


async def connect(core: ControllerCore, opener: Opener) -> Assembly:
    """Connect the devices.

    Raises:
        ConnectError: Nothing at all answers.
    """
    devices = await ConnectedRig.connect(core.rig, opener, core.store)
    for failure in devices.failures:
        logger.warning("%s did not come up: %s", failure.device, failure.error)
    try:
        gate = Gate(
            core.context,
            actuators=devices.hand_over_actuators(),
            limits=core.limits,
            volumes=core.ledger.volumes,
            calibrated=lambda: core.upkeep.pumps,
            probes=_probes(core, devices),
        )
        return Assembly(devices, gate, _runs(core, gate))
    except BaseException:
        await devices.close()
        raise


def _probes(core: ControllerCore, devices: ConnectedRig) -> Probes:
    """Make the access to the probes' own calibrations; each one that is set is kept among the rig's records."""

    def kept(record: Calibration) -> None:
        folder = core.storage.folder
        if core.storage.threaded:  # it waits for the disk
            core.tasks.start(f"calibration {record.point}", asyncio.to_thread(keep, folder, record))
        else:
            keep(folder, record)

    async def examine(device: str) -> tuple[str, ...]:
        watch = core.find(ProbeHealthWatch)
        return () if watch is None else await watch.examine(device)

    probes = {
        point: GatedProbe(calibrator, core.rig.devices[point.partition(".")[0]].every_s)
        for point, calibrator in devices.hand_over_calibrators().items()
    }
    return Probes(core.context, probes, limits=core.limits, keep=kept, examine=examine)


def _runs(core: ControllerCore, gate: Gate) -> Runner:
    recipes = core.storage.folder / "recipes"

    def tissue_loss() -> TissueLoss | None:
        scoring = core.find(Scoring)
        return None if scoring is None else scoring.tissue_loss

    return Runner(
        core.context,
        gate=gate,
        ledger=core.ledger,
        catalogue=ProtocolCatalogue(core.rig, core.journal, recipes=recipes, library=core.library),
        calibrations=core.upkeep,
        tissue=core.tissue.record,
        tissue_loss=tissue_loss,
    )
