"""Oxygen in one organoid: steady diffusion into a sphere that consumes by Michaelis–Menten.

D·(1/r²)·d/dr(r²·dc/dr) = V·c/(K + c), no flux at the centre, at the surface a film of medium in series:
D·dc/dr = h·(c_bulk − c). Finite volumes between radii R·∛(i/N): shells of equal volume, finest where the gradient is.
Newton's method (the equation is monotonic, so it converges from any start; the profile of the last call is the best start).
"""

from __future__ import annotations

from math import exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from sim.plant.compiled import compiled, kept

NODES = 40
"""Shells in the plant; checked against 640 to 0.2 % in uptake."""


def geometry(nodes: int) -> NDArray[np.float64]:
    """Return three rows for a sphere of radius 1: inner area of a shell over distance of nodes, shell volume, node radius.

    Shape (3, nodes + 1); the last column is the surface: its area over the last node's distance, 0, 1.
    """
    bounds = np.cbrt(np.arange(nodes + 1) / nodes)
    centres = ((bounds[:-1] ** 3 + bounds[1:] ** 3) / 2) ** (1 / 3)
    made = np.zeros((3, nodes + 1))
    made[0, 1:nodes] = 4 * pi * bounds[1:-1] ** 2 / np.diff(centres)
    made[0, nodes] = 4 * pi / (1.0 - centres[-1])
    made[1, :nodes] = 4 / 3 * pi * np.diff(bounds**3)
    made[2, :nodes] = centres
    made[2, nodes] = 1.0
    return made


SHELLS = geometry(NODES)
UNIT_VOLUME = 4.0 / 3.0 * pi
"""Volume of a sphere of radius 1: the sum of its shells."""
MIN_RADIUS_M, MAX_RADIUS_M = 0.05e-3, 3e-3
"""Minimum and maximum radius for which the share that can live is tabulated, at :data:`NODES` radii in a geometric series."""


def capacity_radius_m() -> NDArray[np.float64]:
    """Return the radii (m) of the table of :func:`capacity`, shape (NODES,)."""
    return np.geomspace(MIN_RADIUS_M, MAX_RADIUS_M, NODES)


@kept
def capacity(table: NDArray[np.float64], radius_m: float) -> float:
    """Return the share of an organoid of this radius that can live, from its table (see :func:`capacity_radius_m`)."""
    last = table.shape[0] - 1
    place = log(max(radius_m, MIN_RADIUS_M) / MIN_RADIUS_M) / log(MAX_RADIUS_M / MIN_RADIUS_M) * last
    low = min(int(place), last - 1)
    return float(table[low] + min(place - low, 1.0) * (table[low + 1] - table[low]))


@kept
def living_share(shells: NDArray[np.float64], living: NDArray[np.float64]) -> float:
    """Return the share of the volume of a sphere that lives, from that of its shells."""
    total = 0.0
    for shell in range(living.shape[0]):
        total += living[shell] * shells[1, shell]
    return float(total / (4.0 / 3.0 * pi))


@compiled
def consumption(c: float, v_max: float, km_mm: float) -> tuple[float, float]:
    """Return the Michaelis–Menten rate and its slope; below 0 they go on linearly."""
    if c >= 0.0:
        return v_max * c / (km_mm + c), v_max * km_mm / ((km_mm + c) * (km_mm + c))
    return v_max * c / km_mm, v_max / km_mm


@compiled
def solve(
    shells: NDArray[np.float64],
    profile: NDArray[np.float64],
    living: NDArray[np.float64],
    radius_m: float,
    bulk_mm: float,
    film_m_s: float,
    v_max: float,
    km_mm: float,
    diffusivity: float,
) -> float:
    """Return the uptake of the sphere (mol/s); `profile` (mmol/L, shape (nodes,)) is the start and becomes the solution.

    `living` is the share of the cells of each shell that live and consume (nodes,), `v_max` the rate where all do.
    `film_m_s` is the mass-transfer coefficient of the medium around it. mmol/L equals mol/m³.
    """
    nodes = profile.shape[0]
    scale = diffusivity * radius_m
    inner = scale * shells[0, nodes]
    outer = 4.0 * pi * radius_m * radius_m * film_m_s
    surface = inner * outer / (inner + outer)
    volume_m3 = radius_m * radius_m * radius_m
    upper = np.empty(nodes)
    right = np.empty(nodes)
    for _ in range(60):
        for i in range(nodes):
            c = profile[i]
            rate, slope = consumption(c, v_max * living[i], km_mm)
            volume = volume_m3 * shells[1, i]
            below = scale * shells[0, i] if i > 0 else 0.0
            above = scale * shells[0, i + 1] if i < nodes - 1 else 0.0
            diagonal = below + above + volume * slope
            wanted = volume * (slope * c - rate)
            if i == nodes - 1:
                diagonal += surface
                wanted += surface * bulk_mm
            if i > 0:
                diagonal -= below * upper[i - 1]
                wanted += below * right[i - 1]
            upper[i] = above / diagonal
            right[i] = wanted / diagonal
        change = 0.0
        following = 0.0
        for j in range(nodes):
            i = nodes - 1 - j
            value = right[i] + (upper[i] * following if i < nodes - 1 else 0.0)
            change = max(change, abs(value - profile[i]))
            profile[i] = value
            following = value
        if change < 1e-9:
            break
    return float(surface * (bulk_mm - profile[nodes - 1]))


@kept
def core_radius(shells: NDArray[np.float64], profile: NDArray[np.float64], radius_m: float, threshold: float) -> float:
    """Return the radius (m) below which a profile is under the threshold, interpolated between nodes; 0 if there is none."""
    nodes = profile.shape[0]
    if profile[0] >= threshold:
        return 0.0
    for i in range(1, nodes):
        if profile[i] >= threshold:
            part = (threshold - profile[i - 1]) / (profile[i] - profile[i - 1])
            return float(radius_m * (shells[2, i - 1] + part * (shells[2, i] - shells[2, i - 1])))
    return radius_m


@kept
def one(
    shells: NDArray[np.float64],
    profile: NDArray[np.float64],
    radius_m: float,
    bulk_mm: float,
    film_m_s: float,
    v_max: float,
    km_mm: float,
    diffusivity: float,
) -> float:
    """Call :func:`solve` for a sphere all of whose cells live, compiled for callers in Python."""
    return solve(shells, profile, np.ones(profile.shape[0]), radius_m, bulk_mm, film_m_s, v_max, km_mm, diffusivity)


@kept
def film_coefficient(diameter_m: float, velocity_m_s: float, viscosity_m2_s: float = 0.72e-6) -> float:
    """Return the mass transfer to a sphere in a stream (m/s): Sh = 2 + 0.6·Re^½·Sc^⅓ [R Ranz–Marshall], D 3e-9 m²/s.

    [V, S3] for the diffusivity.
    """
    diffusivity = 3e-9
    reynolds, schmidt = velocity_m_s * diameter_m / viscosity_m2_s, viscosity_m2_s / diffusivity
    return (2.0 + 0.6 * sqrt(reynolds) * exp(log(schmidt) / 3.0)) * diffusivity / diameter_m
