"""Dialysers: what a membrane of a given KoA clears in counter-current flow, and sieving with it.

Z = exp[KoA·(Qd − Qb)/(Qb·Qd)]; K = Qb·(Z − 1)/(Z − Qb/Qd); with Qb = Qd: K = Qb·KoA/(Qb + KoA) [V, S41].
"""

from __future__ import annotations

from math import exp, log

from sim.plant.columns import Content
from sim.plant.compiled import compiled

SMALL = (
    Content.GLUCOSE, Content.LACTATE, Content.AMMONIA, Content.ALKALINITY, Content.GLUTAMINE, Content.OXYGEN,
    Content.CARBON, Content.OSMOLES, Content.BUFFER, Content.DIPEPTIDE,
)  # fmt: skip
"""What passes a membrane of 3 to 10 kDa freely. Albumin (66 kDa), LDH (140), growth factors (BDNF 27), particles and
microbes stay."""
INSULIN_KOA = 0.1
"""KoA of insulin (5.8 kDa) over that of small solutes, through 10 kDa [P]: it leaks."""
RISE = log(1.14) / log(800 / 500)
"""Exponent with which KoA rises with dialysate flow: 14 % from 500 to 800 mL/min for urea, in conventional bundles
(Leypoldt 1997, Kidney Int 51:2013 [R]; S73 shows the same in a figure)."""


def clearance(koa: float, qb: float, qd: float) -> float:
    """Return the clearance (in the unit of the flows) of a solute without ultrafiltration."""
    if abs(qd - qb) < 1e-9 * qb:
        return qb * koa / (qb + koa)
    z = exp(koa * (qd - qb) / (qb * qd))
    return qb * (z - 1.0) / (z - qb / qd)


@compiled
def risen(koa: float, measured_at: float, qd: float) -> float:
    """Return KoA at a dialysate flow `qd`, measured at another (same unit; 0: KoA is the same at any flow)."""
    if measured_at <= 0.0 or qd <= 0.0:
        return koa
    return koa * float((qd / measured_at) ** RISE)


@compiled
def exchange_share(koa: float, q: float, passed: float, volume: float) -> float:
    """Return the share of the difference between a stirred `volume` and the dialysate that `passed` volume removes.

    The limit of :func:`clearance` for a batch side that is stirred: K = Qd·(1 − e^(−KoA/Qd)), dC/dt = −K·(C − Cd)/V.
    """
    if volume <= 0.0 or q <= 0.0:
        return 0.0
    return 1.0 - exp(-(1.0 - exp(-koa / q)) * passed / volume)
