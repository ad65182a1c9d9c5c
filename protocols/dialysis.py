"""Dialysis of a batch against basal medium: the exchanged share of its small solutes. Pure.

Hollow fibres hang in the batch; dialysate passes through them once. The batch is stirred, so it is uniform along
the fibres: clearance K = Qd·(1 − e^(−KoA/Qd)), the limit of the counter-current formula (biology.md §2) for a fast
batch side, and the batch approaches the dialysate by e^(−K·t/V). Molecules above the cut-off stay: albumin,
transferrin, growth factors. Insulin (5.8 kDa) leaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

INSULIN_KOA = 0.1
"""KoA of insulin (5.8 kDa) over that of small solutes, through a cut-off of 10 kDa [P]; no figure was found."""
KOA_RISE = 0.28
"""Exponent of the flow: urea's KoA rises by 14 % from 500 to 800 mL/min (Leypoldt 1997, Kidney Int 51:2013 [R]); the law of
Lévêque for a laminar stream in a fibre gives 1/3. In bundles that spread the flow well it hardly rises (Bhimani 2010)."""


@dataclass(frozen=True, slots=True)
class DialyserModel:
    """A dialyser's KoA for small solutes, and the flow of dialysate (both µL/min)."""

    koa_ul_min: float
    flow_ul_min: float
    min_ul: float
    """Minimum volume of dialysate of its pump (µL)."""

    def exchanged(self, dialysate_ul: float, batch_ul: float) -> float:
        """Return the share (0..1) of a small solute's difference to the dialysate that is exchanged after
        `dialysate_ul`.
        """
        return exchanged(self.koa_ul_min, self.flow_ul_min, dialysate_ul, batch_ul)

    def leaked(self, dialysate_ul: float, batch_ul: float) -> float:
        """Return the share (0..1) of the batch's insulin that is lost to `dialysate_ul`."""
        return exchanged(INSULIN_KOA * self.koa_ul_min, self.flow_ul_min, dialysate_ul, batch_ul)


def koa_at(flow_ul_min: float, koa_ul_min: float, measured_at_ul_min: float | None) -> float:
    """Return the KoA (µL/min) at a dialysate flow from one measured at another flow; None: KoA is taken as
    constant.
    """
    return koa_ul_min if measured_at_ul_min is None else koa_ul_min * (flow_ul_min / measured_at_ul_min) ** KOA_RISE


def exchanged(koa_ul_min: float, flow_ul_min: float, dialysate_ul: float, batch_ul: float) -> float:
    """Return the exchanged share (0..1); see :meth:`DialyserModel.exchanged`."""
    if batch_ul <= 0.0 or dialysate_ul <= 0.0:
        return 0.0
    extraction = 1.0 - exp(-koa_ul_min / flow_ul_min)
    return 1.0 - exp(-extraction * dialysate_ul / batch_ul)
