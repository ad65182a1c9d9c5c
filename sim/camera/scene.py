"""What stands before a simulated camera, and the image of it: transmitted light, lens, and sensor.

Light that passes tissue is weakened by exp(−k·path) (Beer–Lambert); the path through an organoid is that through a sphere
of its outline. Refraction darkens the edge. A bubble of air reflects the light totally beyond about three quarters of its
radius and so is a dark ring with a bright centre. The lens blurs by its distance from focus. The lamp is not even and drifts.
The sensor adds shot noise and read noise and has a full well. Coefficients are [P] unless a source stands with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.camera.outline import F8, Outline

FULL_WELL = 10_000.0
"""Electrons of a pixel at saturation."""
READ_NOISE = 8.0
BITS = 12
LAMP = 0.7
"""Level of the empty field at the centre over saturation, at exposure 1."""
CLEAR_PER_MM, CORE_PER_MM, DEAD_PER_MM, HARMED_PER_MM = 0.35, 0.45, 0.9, 0.4
"""Extinction (1/mm, base e) of living tissue; in addition, of its deeper layers, of dead tissue, and of lost viability."""
HYPOXIC_SHELL_MM = 0.35
"""Depth of the clear rim: about how far oxygen reaches (V4)."""
EDGE_DEPTH, EDGE_MM = 0.18, 0.012
"""Darkening by refraction at the edge, and its width."""
SHEDDING_MM = 0.03
"""Width over which the rim of dying tissue frays."""


@dataclass(frozen=True, slots=True)
class TissueInView:
    """The tissue in view."""

    diameter_mm: float
    viability: float = 1.0
    dead_fraction: float = 0.0
    form: int = 0
    """Seed of its form."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """A bubble of air; place from the centre of the field."""

    x_mm: float
    y_mm: float
    radius_mm: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Tissue, medium and light at the moment of an exposure."""

    tissue: TissueInView | None
    x_mm: float = 0.0
    y_mm: float = 0.0
    """Centre of the tissue, from the centre of the field."""
    blur_um: float = 4.0
    """Standard deviation of the lens's blur in the plane of the tissue."""
    bubbles: tuple[Bubble, ...] = ()
    debris: int = 6
    lamp: float = 1.0
    tilt: tuple[float, float] = (0.0, 0.0)
    """Change of the illumination across the field, as a share."""
    vignette: float = 0.15
    """Loss of light in the corners."""


@dataclass(frozen=True, slots=True)
class CameraField:
    """The camera's pixels."""

    width: int = 640
    height: int = 640
    pixel_um: float = 8.0

    def grid_mm(self) -> tuple[F8, F8]:
        """Return x and y of each pixel from the centre (mm), shapes (1, width) and (height, 1)."""
        x = (np.arange(self.width) - (self.width - 1) / 2) * self.pixel_um * 1e-3
        y = (np.arange(self.height) - (self.height - 1) / 2) * self.pixel_um * 1e-3
        return np.asarray(x[None, :], np.float64), np.asarray(y[:, None], np.float64)


def render(scene: Scene, field: CameraField, seed: int, exposure: float = 1.0) -> NDArray[np.uint16]:
    """Return the image of a scene.

    Args:
        scene: What is in view.
        field: The camera's pixels.
        seed: Of debris, texture and noise; the dust on the lens stays the same.
        exposure: Exposure time over the usual one.

    Returns:
        Grey levels, 0 to 4095, shape (height, width).
    """
    random = np.random.default_rng((seed, 23))
    x, y = field.grid_mm()
    absorbed = np.zeros((field.height, field.width))
    if scene.tissue is not None:
        absorbed += _tissue(scene.tissue, x - scene.x_mm, y - scene.y_mm, field)
    absorbed += _specks(random, scene.debris, field, (0.008, 0.03), (0.2, 0.9))
    light = np.exp(-absorbed)
    for bubble in scene.bubbles:
        light *= _bubble(bubble, x, y)
    light = _blurred(light, scene.blur_um / field.pixel_um)
    light *= np.exp(-_specks(np.random.default_rng(5), 4, field, (0.05, 0.12), (0.01, 0.03)))  # dust on the lamp's lens
    return _sensed(light * _illumination(scene, x, y), random, exposure)


def _illumination(scene: Scene, x: F8, y: F8) -> F8:
    half_x, half_y = np.abs(x).max(), np.abs(y).max()
    corner = (x**2 + y**2) / (half_x**2 + half_y**2)
    shape = (1.0 - scene.vignette * corner) * (1.0 + scene.tilt[0] * x / half_x + scene.tilt[1] * y / half_y)
    return np.asarray(LAMP * scene.lamp * shape)


def _tissue(tissue: TissueInView, x: F8, y: F8, field: CameraField) -> F8:
    """Return what an organoid at the origin absorbs."""
    harm = 1.0 - tissue.viability
    outline = Outline.made(tissue.form, raggedness=harm)
    radius = tissue.diameter_mm / 2
    rho = np.hypot(x, y) / radius / outline.radius_at(np.arctan2(y, x) % (2 * np.pi))
    path = 2 * radius * np.sqrt(np.clip(1.0 - rho**2, 0.0, None))
    core = max(0.0, 1.0 - HYPOXIC_SHELL_MM / radius)
    dead = min(0.95, tissue.dead_fraction ** (1 / 3))
    absorbed = (CLEAR_PER_MM + harm * HARMED_PER_MM) * path
    for share, strength in ((core, CORE_PER_MM), (dead, DEAD_PER_MM)):
        absorbed += strength * 2 * radius * np.sqrt(np.clip(share**2 - rho**2, 0.0, None))
    texture = np.random.default_rng((tissue.form, 31)).normal(size=absorbed.shape)
    texture = _blurred(texture, 40.0 / field.pixel_um)
    absorbed *= np.clip(1.0 + 0.08 * texture / texture.std(), 0.5, 1.5)
    edge = (1.0 - rho) * radius
    absorbed += np.where(edge >= 0.0, EDGE_DEPTH * np.exp(-((edge / EDGE_MM) ** 2)), 0.0)
    if harm > 0.02:
        absorbed = _blurred(absorbed, harm * SHEDDING_MM * 1e3 / field.pixel_um)
    return absorbed


def _specks(
    random: np.random.Generator, count: int, field: CameraField, radii: tuple[float, float], depths: tuple[float, float]
) -> F8:
    """Return what small particles absorb, anywhere in the field; radii in mm."""
    absorbed = np.zeros((field.height, field.width))
    x, y = field.grid_mm()
    for _ in range(count):
        at_x, at_y = random.uniform(x.min(), x.max()), random.uniform(y.min(), y.max())
        radius, depth, flat = random.uniform(*radii), random.uniform(*depths), random.uniform(0.5, 1.0)
        near_x, near_y = np.abs(x[0] - at_x) < 4 * radius, np.abs(y[:, 0] - at_y) < 4 * radius
        away = ((x[:, near_x] - at_x) / radius) ** 2 + ((y[near_y] - at_y) / (flat * radius)) ** 2
        absorbed[np.ix_(near_y, near_x)] += depth * np.exp(-away)
    return absorbed


def _bubble(bubble: Bubble, x: F8, y: F8) -> F8:
    """Return the share of light that a bubble lets pass."""
    rho = np.hypot(x - bubble.x_mm, y - bubble.y_mm) / bubble.radius_mm
    ring = (1.0 + np.tanh((rho - 0.72) / 0.06)) / 2 * (1.0 - np.tanh((rho - 1.0) / 0.02)) / 2
    glare = 0.25 * np.exp(-((rho / 0.25) ** 2))
    return np.asarray((1.0 - 0.92 * ring) * (1.0 + glare))


def _blurred(image: F8, sd_px: float) -> F8:
    """Return the image under a Gaussian blur; beyond its border it is mirrored."""
    if sd_px < 0.2:
        return image
    pad = min(int(4 * sd_px) + 1, min(image.shape) - 1)
    wide = np.pad(image, pad, mode="symmetric")
    rows, columns = np.fft.fftfreq(wide.shape[0])[:, None], np.fft.rfftfreq(wide.shape[1])[None, :]
    passed = np.exp(-2 * (np.pi * sd_px) ** 2 * (rows**2 + columns**2))
    made = np.fft.irfft2(np.fft.rfft2(wide) * passed, s=wide.shape)
    return np.asarray(made[pad : pad + image.shape[0], pad : pad + image.shape[1]])


def _sensed(light: F8, random: np.random.Generator, exposure: float) -> NDArray[np.uint16]:
    electrons = np.clip(light * exposure, 0.0, None) * FULL_WELL
    electrons += np.sqrt(electrons) * random.normal(size=light.shape) + READ_NOISE * random.normal(size=light.shape)
    top = 2**BITS - 1
    return np.asarray(np.clip(np.round(electrons / FULL_WELL * top), 0, top), np.uint16)
