"""The simulated camera: looks at one chamber of a plant through a lens that is not always in focus.

What is in the field differs from image to image: place, focus, debris, bubbles, lamp. All follows from the seed and the
number of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

from sim.camera.scene import BITS, Bubble, CameraField, Scene, TissueInView, render

USUAL_EXPOSURE_S = 0.02
LAMP_DRIFT, LAMP_PERIOD = 0.1, 20_000
"""The lamp drifts by this share, up and down over so many images [P]."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How often something spoils an image [P]."""

    bubble: float = 0.03
    out_of_focus: float = 0.03


@dataclass(frozen=True, slots=True)
class SimulatedIdentity:
    """What it says it is."""

    model: str = "simulated camera"
    serial: str = ""


class SimulatedCamera:
    """A camera over a chamber."""

    bits = BITS

    def __init__(
        self, look: Callable[[], TissueInView | None], field: CameraField, *, seed: int, chances: Chances | None = None
    ) -> None:
        """Begin.

        Args:
            look: Returns the tissue in the chamber now.
            field: Pixels of the camera.
            seed: Of everything that happens by chance.
            chances: Of spoilt images.
        """
        self.identity = SimulatedIdentity(serial=f"{seed:04d}")
        self.images = 0
        """Number of images so far; set it to go on where another camera ended."""
        self._look = look
        self._field = field
        self._seed = seed
        self._chances = chances or Chances()
        self._closed = False

    @classmethod
    def with_settings(
        cls, settings: Mapping[str, float | bool | str], pixel_um: float, look: Callable[[], TissueInView | None]
    ) -> SimulatedCamera:
        """Return a camera with the settings of a rig file: width, height, seed, bubble, out_of_focus."""
        field = CameraField(int(settings.get("width", 640)), int(settings.get("height", 640)), pixel_um)
        chances = Chances(
            *(float(settings.get(key, usual)) for key, usual in (("bubble", 0.03), ("out_of_focus", 0.03)))
        )
        return cls(look, field, seed=int(settings.get("seed", 1)), chances=chances)

    def capture(self, exposure_s: float) -> NDArray[np.uint16]:
        """Expose once; return grey levels, shape (rows, columns). Raises ValueError when closed or for no exposure."""
        if self._closed or not 0.0 < exposure_s <= 60.0:
            raise ValueError("the simulated camera is closed, or the exposure is impossible")
        self.images += 1
        seed = self._seed * 1_000_003 + self.images
        return render(self._scene(np.random.default_rng(seed)), self._field, seed, exposure_s / USUAL_EXPOSURE_S)

    def close(self) -> None:
        """Switch it off."""
        self._closed = True

    def _scene(self, random: np.random.Generator) -> Scene:
        tissue = self._look()
        half = self._field.width * self._field.pixel_um / 2e3
        size = 1.0 if tissue is None else tissue.diameter_mm
        room = max(0.0, min(0.3, half - 0.75 * size))
        blurred = random.uniform() < self._chances.out_of_focus
        bubbles: tuple[Bubble, ...] = ()
        if random.uniform() < self._chances.bubble:
            angle = random.uniform(0, 2 * pi)
            bubbles = (Bubble(size / 2 * np.cos(angle), size / 2 * np.sin(angle), random.uniform(0.1, 0.25) * half),)
        return Scene(
            tissue,
            x_mm=random.uniform(-room, room),
            y_mm=random.uniform(-room, room),
            blur_um=random.uniform(50, 100) if blurred else random.uniform(2, 10),
            bubbles=bubbles,
            debris=int(random.poisson(4 if tissue is None else 4 + 60 * (1 - tissue.viability))),
            lamp=(1 + LAMP_DRIFT * np.sin(2 * pi * self.images / LAMP_PERIOD)) * random.normal(1.0, 0.01),
            tilt=(0.03, -0.02),
        )
