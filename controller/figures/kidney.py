"""Figures of the kidney: volumes drawn, returned and discarded, their accuracy, and clearance."""

from __future__ import annotations

import math

from controller.figures.dialysis import dialysis
from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.figures.sources import Booked, Sources
from controller.figures.transfers import ML, BookedTransfer, accuracy, volume
from controller.ledger.bound import bound_of_period
from controller.ledger.saving import saved_fraction, scheduled_ul
from controller.rig.description import Rig

UNEXPLAINED_ML_D = FigureLimits(1.0, 5.0)
"""The loop holds some 40 mL; a person must look before an eighth of it is unexplained (mL/d)."""


def kidney(sources: Sources) -> list[Figure]:
    """Return every figure of the kidney; none on a rig without one."""
    organ = sources.rig.organs.kidney
    if organ is None:
        return []
    drawn, returned, discarded = (sources.moved(line) for line in (organ.draw, organ.return_, organ.discard))
    return [
        volume("drawn", "medium drawn from the loop", drawn, sources.days),
        volume("returned", "medium given back", returned, sources.days),
        volume("discarded", "medium discarded", discarded, sources.days),
        _net(drawn, returned, sources.days),
        accuracy("draw_error", "drawn against balance", drawn),
        accuracy("return_error", "given back against balance", returned),
        accuracy("discard_error", "discarded against balance", discarded),
        _unexplained(sources.ledger_begin, sources.ledger_end, sources.days),
        _saved(sources.rig, sources.ledger_begin, sources.ledger_end, sources.days),
        _bound_ratio(sources),
        _clearance(discarded, sources.days),
        *dialysis(sources, organ),
    ]


def _net(drawn: list[BookedTransfer], returned: list[BookedTransfer], days: float) -> Figure:
    """Return the net fluid taken from the loop, the exchange's counterpart of ultrafiltration."""
    if not drawn and not returned:
        return missing("net_removed", "net fluid taken from the loop", "mL/d", "nothing was drawn or given back")
    net = (sum(each.ul for each in drawn) - sum(each.ul for each in returned)) / ML / days
    sd = math.sqrt(sum(each.sd_ul**2 for each in (*drawn, *returned))) / ML / days
    return figure(
        "net_removed",
        "net fluid taken from the loop",
        "mL/d",
        net,
        sd=sd,
        basis="drawn less given back, by the balance",
    )


def _unexplained(begin: Booked | None, end: Booked | None, days: float) -> Figure:
    """Return the corrections by balance and people that no transfer explains."""
    key, label, unit = "unexplained", "volume that no transfer explains", "mL/d"
    if begin is None or end is None:
        return missing(key, label, unit, "the journal holds no ledger of this period")
    ml = (end.totals.unaccounted_ul - begin.totals.unaccounted_ul) / ML / days
    return figure(
        key,
        label,
        unit,
        ml,
        limits=UNEXPLAINED_ML_D,
        judged=abs(ml),
        basis="the ledger's corrections by balance and people (gain > 0)",
    )


def _saved(rig: Rig, begin: Booked | None, end: Booked | None, days: float) -> Figure:
    """Return the fresh medium saved against the scheduled exchange."""
    key, label, unit = "fresh_saved", "fresh medium saved against the scheduled exchange", "%"
    if begin is None or end is None:
        return missing(key, label, unit, "the journal holds no ledger of this period")
    fresh_ul = end.totals.fresh_ul - begin.totals.fresh_ul
    saved = saved_fraction(rig, fresh_ul, days)
    if saved is None:
        return missing(key, label, unit, "a saving is stated for a day or more")
    wanted, used = scheduled_ul(rig, days) / ML, fresh_ul / ML
    return figure(key, label, unit, 100.0 * saved, basis=f"{used:.4g} mL fresh, {wanted:.4g} mL scheduled")


def _bound_ratio(sources: Sources) -> Figure:
    """Return the ratio of the fresh medium to the mass-balance bound."""
    key, label, unit = "bound_ratio", "fresh medium, ratio to the mass-balance bound", "1"
    begin, end = sources.ledger_begin, sources.ledger_end
    if begin is None or end is None:
        return missing(key, label, unit, "the journal holds no ledger of this period")
    bound_ul = bound_of_period(
        sources.rig, ((each.at, each.body) for each in sources.estimates), sources.begin, sources.end
    )
    if bound_ul is None:
        return missing(key, label, unit, "needs a day or more, estimates of the medium, and a limit of lactate")
    if bound_ul == 0.0:
        return missing(
            key, label, unit, "the loop could hold all lactate that was made: mass balance demands no fresh medium"
        )
    fresh_ul = end.totals.fresh_ul - begin.totals.fresh_ul
    basis = f"{fresh_ul / ML:.4g} mL fresh, bound {bound_ul / ML:.4g} mL by the estimates of lactate"
    return figure(key, label, unit, fresh_ul / bound_ul, basis=basis)


def _clearance(discarded: list[BookedTransfer], days: float) -> Figure:
    """Return the clearance of the exchange: its flow, because discarded medium takes every small solute with it."""
    key, label, unit = "clearance", "clearance of small solutes by exchange", "uL/min"
    if not discarded:
        return missing(key, label, unit, "nothing was discarded in the period")
    minutes = days * 1440.0
    ul = sum(each.ul for each in discarded)
    sd = math.sqrt(sum(each.sd_ul**2 for each in discarded))
    return figure(
        key,
        label,
        unit,
        ul / minutes,
        sd=sd / minutes,
        basis="volume discarded over time; unbound solutes leave with it whole (sieving 1 by construction)",
    )
