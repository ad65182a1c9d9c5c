"""Offline assays in the estimate of the medium: their use, and what they contradict.

Label and method are doubted if the first assays contradict the estimate, or any assay does so grossly: they become as
uncertain as wrong ones are, and later assays tell which of the two it was. Samples of loop and spent medium may have been
exchanged. The filter itself is :mod:`protocols.media_filter`; all functions are pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from protocols import unscented
from protocols.media_filter import corrected
from protocols.media_state import (
    BOTTLE,
    FIRST_ASSAYS,
    GAIN,
    INDEX,
    LABORATORY,
    SAME_SHARE,
    SPECIES,
    STATES,
    Array,
    MediaState,
    number_of,
)
from protocols.soft_sensor import Where

MIN_ASSAY_SD = 1e-4
"""Standard deviation (mM, mOsm/kg) below which no assay is: one that is stated as less counts as this."""
ASSAY_GATE = 5.0
"""An assay further off contradicts the estimate: a mistake is more probable than such an error."""
SUSPICIOUS, LATER_SUSPICIOUS = 2.0, 4.0
"""An assay further off makes the label of the medium and the method of the assay doubtful: one of the first, a later one."""
DOUBTED, EXPLAINED = 0.8, 3.0
"""Distance at which an assay that is not used is put by doubt, and the one up to which doubt explains it."""
LARGEST_SIZE = 1.25
"""What a method reads as 1 is at most this: beyond, its error would feign knowledge of the value."""


class GrossErrors(NamedTuple):
    """How far what people believe is off if it is wrong (1 sd), by species."""

    label: Array
    """Of the complete medium, in its usual deviations."""
    method: Array
    """Of the assays, as a share."""


NO_DOUBT = GrossErrors(np.zeros(len(SPECIES)), np.zeros(len(SPECIES)))
"""Label and method are no further off than usual."""
EXCHANGED = 4.0
"""Evidence (natural logarithm) from which two samples of one time count as exchanged."""
WRONG_LABEL, WRONG_METHOD, CERTAIN = 3.0, 0.08, 2.0
"""From which error a label (in its deviations) and a method (share) are called wrong, and from how many deviations of it."""
Cause = Literal["label", "method", "slip"]
"""What is wrong if an assay contradicts the estimate."""


def surprise(state: MediaState, where: Where, species: str, value: float, sd: float) -> float:
    """Return the distance of an assay from the estimate, in standard deviations of both together."""
    look, off, own_sd = _observed(state, where, species, value, sd)
    return abs(off) / math.hypot(math.sqrt(float(look @ state.covariance @ look)), own_sd)


def assayed(
    state: MediaState, where: Where, species: str, value: float, sd: float, *, doubt: GrossErrors = NO_DOUBT
) -> MediaState:
    """Return the state corrected by an assay of one of :data:`SPECIES` with standard deviation `sd`.

    An assay beyond :data:`SUSPICIOUS` casts doubt on the label of the medium and on the method (:func:`_doubting`), if they
    explain it. One beyond :data:`ASSAY_GATE` that they do not explain was confirmed by a person: then something has happened
    outside the balances, and the uncertainty of this one value grows until it can be the assay's.

    Args:
        state: the state when the sample was taken.
        where: where it was taken.
        species: what was measured.
        value: the result.
        sd: its standard deviation.
        doubt: how far label and method are off if they are wrong; by default both are right.
    """
    distance = surprise(state, where, species, value, sd)
    number = INDEX[species]
    if distance > (SUSPICIOUS if state.assayed[number] < FIRST_ASSAYS else LATER_SUSPICIOUS):
        wide = _doubting(state, where, species, value, sd, doubt, within=DOUBTED)
        if surprise(wide, where, species, value, sd) <= EXPLAINED:
            state = wide
        elif distance > ASSAY_GATE:
            state = _jumped(state, where, species, value, sd, within=DOUBTED)
    look, _, own_sd = _observed(state, where, species, value, sd)
    state = corrected(state, unscented.measured((state.mean, state.covariance), look, value, own_sd), distance)
    return replace(state, assayed=tuple(count + (each == number) for each, count in enumerate(state.assayed)))


def doubted(
    state: MediaState,
    where: Where,
    species: str,
    value: float,
    sd: float,
    *,
    doubt: GrossErrors = NO_DOUBT,
    again: bool = False,
) -> MediaState:
    """Return the state after an assay that contradicts the estimate, so that it is not used: it makes the estimate doubtful.

    If a wrong label or method explains it, both become uncertain, so that the interval reaches the assay and the next one
    decides. Else it is a slip; but if the assay before was refused too (`again`), the model is wrong: the value itself
    becomes uncertain.
    """
    if surprise(state, where, species, value, sd) <= ASSAY_GATE:
        return state
    wide = _doubting(state, where, species, value, sd, doubt, within=DOUBTED)
    if surprise(wide, where, species, value, sd) <= EXPLAINED:
        return wide
    return _jumped(state, where, species, value, sd, within=DOUBTED) if again else state


def exchange_evidence(
    state: MediaState, pairs: Sequence[tuple[str, tuple[float, float], tuple[float, float]]]
) -> float:
    """Return by how much (natural logarithm) assays of one time are more probable with loop and spent medium exchanged.

    Args:
        state: the state when the samples were taken, without them.
        pairs: for each species, value and standard deviation of what is said to be the loop's and the spent medium's.
    """
    evidence = 0.0
    for species, (loop, loop_sd), (spent, spent_sd) in pairs:
        of_loop, off_loop, own_loop = _observed(state, "loop", species, loop, loop_sd)
        of_spent, off_spent, own_spent = _observed(state, "spent", species, spent, spent_sd)
        both = np.stack((of_loop, of_spent))
        spread = np.linalg.inv(both @ state.covariance @ both.T + np.diag((own_loop**2, own_spent**2)))
        as_told = np.array((off_loop, off_spent))
        exchanged = as_told + np.array((spent - loop, loop - spent))
        evidence += 0.5 * float(as_told @ spread @ as_told - exchanged @ spread @ exchanged)
    return evidence


def likeliest_cause(
    state: MediaState, where: Where, species: str, value: float, sd: float, doubt: GrossErrors
) -> Cause:
    """Return what explains best an assay that contradicts the estimate; `doubt` as in :func:`assayed`."""
    look, off, own_sd = _observed(state, where, species, value, sd)
    number = INDEX[species]
    usual = float(look @ state.covariance @ look) + own_sd**2
    found: dict[Cause, float] = {"slip": -0.5 * EXPLAINED**2 - math.log(abs(off))}
    errors: tuple[tuple[Cause, int, float], ...] = (
        ("label", BOTTLE + number, float(doubt.label[number])),
        ("method", GAIN + number, float(doubt.method[number])),
    )
    for cause, error, gross in errors:
        variance = float(state.covariance[error, error])
        reach = float(look @ state.covariance[:, error]) / variance
        total = usual + max(gross**2 - variance, 0.0) * reach**2
        found[cause] = -0.5 * (off * off / total + math.log(total))
    return max(found, key=lambda cause: found[cause])


def known_errors(state: MediaState) -> list[tuple[Cause, str, float]]:
    """Return what assays have shown to be wrong, with the species: a label, in its deviations, or a method, as a share."""
    found: list[tuple[Cause, str, float]] = []
    kinds: tuple[tuple[Cause, int, float], ...] = (("label", BOTTLE, WRONG_LABEL), ("method", GAIN, WRONG_METHOD))
    for cause, first, least in kinds:
        for number, species in enumerate(SPECIES):
            error = float(state.mean[first + number])
            if abs(error) > max(least, CERTAIN * state.sd(first + number)):
                found.append((cause, species, error))
    return found


def _doubting(
    state: MediaState, where: Where, species: str, value: float, sd: float, doubt: GrossErrors, *, within: float
) -> MediaState:
    """Return the state in which the label and the method of a species are so uncertain that an assay is `within` deviations.

    They are never more uncertain than a wrong label and a wrong method are. What follows from a label (what was poured, what
    came of it) becomes uncertain with it, as far as earlier observations permit.
    """
    look, off, own_sd = _observed(state, where, species, value, sd)
    number = INDEX[species]
    missing = (off / within) ** 2 - (float(look @ state.covariance @ look) + own_sd**2)
    wide = np.zeros((STATES, STATES))
    for error, gross in ((BOTTLE + number, float(doubt.label[number])), (GAIN + number, float(doubt.method[number]))):
        variance = float(state.covariance[error, error])
        along = state.covariance[:, error] / variance
        wide += max(gross**2 - variance, 0.0) * np.outer(along, along)
    most = float(look @ wide @ look)
    if missing <= 0.0 or most <= 0.0:
        return state
    return replace(state, covariance=state.covariance + min(missing / most, 1.0) * wide)


def _jumped(state: MediaState, where: Where, species: str, value: float, sd: float, *, within: float) -> MediaState:
    """Return the state in which one value is so uncertain that an assay is `within` deviations."""
    look, off, own_sd = _observed(state, where, species, value, sd)
    number, covariance = number_of(where, species), state.covariance.copy()
    missing = (off / within) ** 2 - (float(look @ covariance @ look) + own_sd**2)
    covariance[number, number] += max(missing, 0.0)
    return replace(state, covariance=covariance)


def _observed(state: MediaState, where: Where, species: str, value: float, sd: float) -> tuple[Array, float, float]:
    """Return the observation of an assay, (STATES,), how far it is off its expected value, and its own deviation.

    The method's error is a share of the result: so the observation is linear, and repeated assays do not feign knowledge.
    """
    look = np.zeros(STATES)
    sd = max(sd, MIN_ASSAY_SD)
    number = number_of(where, species)
    size = min(max(float(state.mean[number]), value), LARGEST_SIZE * value)
    look[number], look[GAIN + INDEX[species]], look[LABORATORY + INDEX[species]] = 1.0, size, sd
    return look, value - float(look @ state.mean), sd * math.sqrt(1.0 - SAME_SHARE**2)
