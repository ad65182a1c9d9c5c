"""Where the electrodes of an array are, and what they look like: one declaration for detection, recordings and readers.

Electrode *i* is column *i* of the frames. The chip has pads with names of its own; the channel map of the rig file has
brought them into the order of the card's channels. :meth:`ArrayGeometry.probegroup` is the form of probeinterface, which
SpikeInterface reads; its specification is at https://probeinterface.readthedocs.io/en/main/format_spec.html.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "0.2.21"
"""Version of the form of probeinterface that is written; every later one reads it."""
PAD = "pad"
"""The annotation that has the names of the contacts as the chip has them, where several have the same."""


@dataclass(frozen=True, slots=True)
class ArrayGeometry:
    """Holds positions and forms of electrodes, one entry for each electrode; µm, x to the right, y up.

    A circle has its diameter as width and height. Electrodes of several shanks, or chips, have other names in `shank`.
    """

    x_um: tuple[float, ...]
    y_um: tuple[float, ...]
    shape: tuple[str, ...]
    """`circle`, `square` or `rect`."""
    width_um: tuple[float, ...]
    height_um: tuple[float, ...]
    shank: tuple[str, ...]
    pad: tuple[str, ...]
    """Names of the electrodes on the chip."""
    module: str = ""
    """Name of the chip or probe."""
    reference: str = ""
    """What the reference electrode is, for people."""
    source: str = ""
    """Who says so: the rig file, the recording; a simulated array says that it is assumed."""

    @classmethod
    def grid(cls, electrodes: int, columns: int, pitch_um: float, diameter_um: float, **said: str) -> ArrayGeometry:
        """Return discs in rows of so many columns, the first electrode at the origin.

        Args:
            electrodes: Number of electrodes; the last row may be short.
            columns: Electrodes in a row.
            pitch_um: Distance of neighbours (µm).
            diameter_um: Diameter of an electrode (µm).
            said: Module, reference and source.

        Returns:
            The geometry, with the numbers of the electrodes as names.
        """
        return cls(
            x_um=tuple(number % columns * pitch_um for number in range(electrodes)),
            y_um=tuple(number // columns * pitch_um for number in range(electrodes)),
            shape=("circle",) * electrodes,
            width_um=(diameter_um,) * electrodes,
            height_um=(diameter_um,) * electrodes,
            shank=("",) * electrodes,
            pad=tuple(map(str, range(electrodes))),
            **said,
        )

    @classmethod
    def unpacked(cls, text: str) -> ArrayGeometry:
        """Return what :meth:`packed` has written.

        Args:
            text: What it returned.

        Returns:
            The geometry.
        """
        said = json.loads(zlib.decompress(base64.b85decode(text)))
        given: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in said.items()}
        return cls(**given)

    def packed(self) -> str:
        """Return the geometry as text that fits a command line, also for 4,096 electrodes."""
        return base64.b85encode(zlib.compress(json.dumps(asdict(self)).encode(), 9)).decode()

    @classmethod
    def of_probegroup(cls, said: Mapping[str, Any]) -> ArrayGeometry:
        """Return what :meth:`probegroup` has written.

        Args:
            said: What it returned.

        Returns:
            The geometry.
        """
        (probe,) = said["probes"]
        told = probe["annotations"]
        sizes = [_size(*each) for each in zip(probe["contact_shapes"], probe["contact_shape_params"], strict=True)]
        x_um, y_um = zip(*probe["contact_positions"], strict=True)
        return cls(
            x_um=tuple(x_um),
            y_um=tuple(y_um),
            shape=tuple(probe["contact_shapes"]),
            width_um=tuple(width for width, _ in sizes),
            height_um=tuple(height for _, height in sizes),
            shank=tuple(probe["shank_ids"]),
            pad=tuple(probe["contact_annotations"].get(PAD, probe["contact_ids"])),
            module=str(told.get("model_name", "")),
            reference=str(told.get("reference", "")),
            source=str(told.get("source", "")),
        )

    def probegroup(self) -> dict[str, Any]:
        """Return the array as a group of one probe, in the form of probeinterface.

        That form refuses two contacts of one name, as two probes of one model have them; each has its number before its name
        then.
        """
        same = len(set(self.pad)) < len(self.pad)
        names = [f"{number} {pad}".strip() for number, pad in enumerate(self.pad)] if same else list(self.pad)
        params = [
            {"radius": width / 2}
            if shape == "circle"
            else {"width": width}
            if shape == "square"
            else {"width": width, "height": height}
            for shape, width, height in zip(self.shape, self.width_um, self.height_um, strict=True)
        ]
        probe = {
            "ndim": 2,
            "si_units": "um",
            "annotations": {"model_name": self.module, "reference": self.reference, "source": self.source},
            "contact_annotations": {PAD: list(self.pad)} if same else {},
            "contact_positions": [list(each) for each in zip(self.x_um, self.y_um, strict=True)],
            "contact_plane_axes": [[[1.0, 0.0], [0.0, 1.0]]] * len(self.x_um),
            "contact_shapes": list(self.shape),
            "contact_shape_params": params,
            "contact_ids": names,
            "shank_ids": list(self.shank),
            "device_channel_indices": list(range(len(self.x_um))),
        }
        return {"specification": "probeinterface", "version": FORMAT, "probes": [probe]}

    def positions_um(self) -> NDArray[np.float64]:
        """Return the positions, shape (electrodes, 2)."""
        return np.stack([self.x_um, self.y_um], axis=1).astype(np.float64)

    @property
    def pitch_um(self) -> float:
        """Smallest distance of two electrodes (µm); infinite for one alone."""
        at = self.positions_um()
        nearest = [np.hypot(*(at[number + 1 :] - at[number]).T).min() for number in range(len(at) - 1)]
        return float(min(nearest, default=math.inf))

    def differs(self, other: ArrayGeometry) -> str:
        """Return how another geometry differs in its positions.

        Args:
            other: The other geometry.

        Returns:
            What differs by more than 1 µm, for people; empty when nothing does.
        """
        if len(self.x_um) != len(other.x_um):
            return f"{len(self.x_um)} electrodes against {len(other.x_um)}"
        for number, (here, there) in enumerate(zip(_points(self), _points(other), strict=True)):
            if math.dist(here, there) > 1.0:
                return f"electrode {number} is at {_text(here)} against {_text(there)}"
        return ""


def _points(geometry: ArrayGeometry) -> Sequence[tuple[float, float]]:
    return list(zip(geometry.x_um, geometry.y_um, strict=True))


def _text(at: tuple[float, float]) -> str:
    return f"{at[0]:g}, {at[1]:g} µm"


def _size(shape: str, params: Mapping[str, float]) -> tuple[float, float]:
    """Return width and height of a contact."""
    if shape == "circle":
        return 2 * params["radius"], 2 * params["radius"]
    return params["width"], params.get("height", params["width"])
