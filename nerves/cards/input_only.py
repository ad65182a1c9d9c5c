"""What cards that only record have in common: they drop every pulse with the reason, and know no impedances."""

from __future__ import annotations

import threading

import numpy as np

from nerves.cards.contract import (
    ArrayInfo,
    CardFault,
    CardState,
    Delivery,
    FrameBlock,
    Frames,
    Impedance,
    Pulse,
    SelfCheck,
    unfit,
    worst,
)
from nerves.cards.geometry import ArrayGeometry


class InputOnlyCard:
    """Does for a card that only records what does not concern frames: it drops every pulse, and knows no impedances."""

    def __init__(self, info: ArrayInfo) -> None:
        self.info = info
        self._dropping = threading.Lock()
        self._dropped: list[Delivery] = []
        self._faults: tuple[CardFault, ...] = ()

    @property
    def state(self) -> CardState:
        """The worst present fault."""
        return worst(self._faults)

    def stimulate(self, pulse: Pulse) -> None:
        """Drop a pulse: this card cannot stimulate. The next block reports it.

        Args:
            pulse: The pulse.
        """
        with self._dropping:
            self._dropped.append(Delivery(pulse, None, unfit(pulse, self.info)))

    def cancel(self) -> None:
        """Do nothing: no pulse waits."""

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return that none is known."""
        return (None,) * self.info.electrodes

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Return that none is known."""
        return self.impedances()

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Report the present faults."""
        if not self._faults:
            return (SelfCheck("input", True, f"{self.info.electrodes} electrodes give frames; it only records"),)
        return tuple(SelfCheck(fault.state.value, False, fault.text) for fault in self._faults)

    def _everywhere(self, state: CardState, text: str) -> None:
        """Set a fault of all electrodes."""
        self._faults = (CardFault(state, tuple(range(self.info.electrodes)), text),)

    def _block(self, first_frame: int, samples: Frames | None = None) -> FrameBlock:
        """Return a block with the dropped pulses and the present faults; without samples one without frames."""
        with self._dropping:
            dropped, self._dropped = self._dropped, []
        if samples is None:
            samples = np.empty((0, self.info.electrodes), np.int16)
        return FrameBlock(first_frame, samples, tuple(dropped), self._faults)


def input_info(
    name: str,
    electrodes: int,
    sample_rate_hz: float,
    uv_per_unit: float,
    *,
    block_frames: int,
    material: str = "Pt",
    diameter_um: float = 30.0,
    simulated: bool = False,
    replay: bool = False,
    geometry: ArrayGeometry | None = None,
) -> ArrayInfo:
    """Return the data sheet of a card that only records; the figures of its stimulator mean nothing.

    Args:
        name: What the card is, for people.
        electrodes: Electrodes of the array.
        sample_rate_hz: Frames in a second.
        uv_per_unit: Microvolts of one unit of a sample.
        block_frames: Largest number of frames in a block.
        material: Metal of the electrodes: Pt, PtIr or TiN.
        diameter_um: Diameter of an electrode (µm).
        simulated: Whether the far end is a simulation.
        replay: Whether the frames are those of a recording.
        geometry: Where the electrodes are; None where it is not known.

    Returns:
        The data sheet.
    """
    return ArrayInfo(
        name=name, electrodes=electrodes, sample_rate_hz=sample_rate_hz, uv_per_unit=uv_per_unit,
        material=material, diameter_um=diameter_um, block_frames=block_frames, lead_frames=block_frames,  # type: ignore[arg-type]
        time_step_us=1e6 / sample_rate_hz, current_step_ua=1.0, compliance_v=1.0, simulated=simulated, stimulates=False,
        measures_impedance=False, replay=replay, geometry=geometry,
    )  # fmt: skip
