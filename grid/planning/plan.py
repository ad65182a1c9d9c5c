"""The plan of a training job: which members train together, by which engine, and why not otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grid.errors import GridError
from grid.planning.candidates import LinkTable, TrainingCandidate
from grid.planning.options import SITE_BIT_S, TrainingOption, is_one_site, options
from grid.planning.pace import MAX_PROVEN_LOCAL_STEPS, MAX_SHARE, local_steps, sync_share
from grid.policy.standing import cohorts

MAX_SPREAD = 0.15
"""Of the step time in a cohort: the slowest sets the pace of all."""
MEMORY_SHARE = 0.9
"""Of the free memory that a plan may use."""
PLAINER_SHARE = 0.95
"""A way that is plainer is taken when it reaches this share of the fastest."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is to be trained.

    Attributes:
        batch: Samples of one step of one member.
        samples: Samples that the job takes in all; 0: not known.
        ranks: Least and highest number of members.
        core_hours: Most processor time of all members together; None: no bound.
        max_bytes: Most bytes that all members send together; None: no bound.
        checkpoint_every: Outer steps between two checkpoints.
    """

    batch: int
    samples: int = 0
    ranks: tuple[int, int] = (1, 64)
    core_hours: float | None = None
    max_bytes: float | None = None
    checkpoint_every: int = 1


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A plan, or the reasons why there is none.

    Attributes:
        chosen: The way to train; None when nothing fits.
        left_out: Members that do not take part, with the reason.
        against: The best of each other engine and codec, with what speaks against it.
        warnings: What the plan cannot promise.
        would_fit: When nothing fits: what would make it fit.
        totals: Outer steps that give the samples of the job with the plan's members and local steps; its hours, bytes and
            core-hours. Empty if the samples are not known.
    """

    chosen: TrainingOption | None
    left_out: dict[str, str]
    against: list[tuple[TrainingOption, str]]
    warnings: list[str]
    would_fit: list[str]
    totals: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "chosen": None if self.chosen is None else asdict(self.chosen),
            "left_out": self.left_out,
            "against": [{**asdict(option), "reason": reason} for option, reason in self.against],
            "warnings": self.warnings,
            "would_fit": self.would_fit,
            "totals": self.totals,
        }


def plan(
    request: PlanRequest, candidates: Sequence[TrainingCandidate], links: LinkTable, *, every_engine: bool = False
) -> TrainingPlan:
    """Return the plan of a job.

    Args:
        request: What is to be trained.
        candidates: The members that might take part, each with the probe of the same preset.
        links: Between them.
        every_engine: Choose also what the release does not run.

    Raises:
        GridError: There are no candidates, or their probes are of different models.
    """
    _same_model(candidates)
    speeds = {each.name: 1.0 / _reference_s(each, candidates) for each in candidates}
    groups = cohorts(speeds, MAX_SPREAD)
    named = {each.name: each for each in candidates}
    found = [
        option
        for names in _groups(groups, links, request.ranks)
        for option in options([named[name] for name in names], links, request.batch, request.checkpoint_every)
    ]
    reasons = {id(option): _refused(option, request, named, every_engine=every_engine) for option in found}
    possible = [option for option in found if not reasons[id(option)]]
    if not possible:
        why = [(option, reasons[id(option)]) for option in _best_each(found, found)]
        return TrainingPlan(None, {}, why, [], _would_fit(request, found, candidates, groups, links), {})
    fastest = max(option.samples_s for option in possible)
    near = [option for option in possible if option.samples_s >= PLAINER_SHARE * fastest]
    chosen = min(near, key=lambda each: (each.departure, -each.samples_s, max(each.peak_bytes.values())))
    against = [
        (option, reasons[id(option)] or _slower(option, chosen))
        for option in _best_each(found, [each for each in found if each.members == chosen.members])
        if (option.engine, option.codec) != (chosen.engine, chosen.codec)
    ]
    return TrainingPlan(
        chosen,
        _left_out(chosen, candidates, speeds, groups, links),
        against,
        _warnings(chosen),
        [],
        _totals(chosen, request, named),
    )


def _same_model(candidates: Sequence[TrainingCandidate]) -> None:
    if not candidates:
        raise GridError("there are no members to plan with. Next: measure some with --here, or give files with --probe")
    models = {(each.preset, each.parameters) for each in candidates}
    if len(models) > 1:
        seen = " and ".join(f"{preset} with {count:,} parameters" for preset, count in sorted(models))
        raise GridError(f"the probes are of different models: {seen}. Next: measure each member with the job's preset")


def _reference_s(candidate: TrainingCandidate, candidates: Sequence[TrainingCandidate]) -> float:
    """Return the step time by which members are compared: of the smallest micro-batch that all have measured (s)."""
    common = set.intersection(*({case.micro_batch for case in each.cases} for each in candidates))
    own = [case for case in candidate.cases if not common or case.micro_batch == min(common)]
    return min(case.step_s / case.micro_batch for case in own)


def _groups(cohorts_: Sequence[Sequence[str]], links: LinkTable, ranks: tuple[int, int]) -> Iterable[tuple[str, ...]]:
    """Yield groups of members to try: each cohort, and without its worst-linked member, down to the least number."""
    least, most = ranks
    seen = set()
    for cohort in cohorts_:
        group = list(cohort)
        while len(group) >= max(least, 1):
            if len(group) <= most and tuple(group) not in seen and (len(group) == 1 or links.ring(group) is not None):
                seen.add(tuple(group))
                yield tuple(group)
            if len(group) == 1:
                break
            group.remove(_worst_linked(group, links))


def _worst_linked(group: Sequence[str], links: LinkTable) -> str:
    """Return the member whose best link is the slowest; one without measured links before all."""

    def quality(name: str) -> tuple[float, float]:
        own = [links.between(name, other) for other in group if other != name]
        known = [each for each in own if each is not None]
        if len(known) < len(own):
            return (0.0, -float(len(own) - len(known)))
        return (max(each.bit_s for each in known), -min(each.round_trip_s for each in known))

    return min(reversed(group), key=quality)


def _refused(
    option: TrainingOption, request: PlanRequest, named: dict[str, TrainingCandidate], *, every_engine: bool
) -> str:
    """Return why an option is not possible; empty when it is."""
    for name, peak in option.peak_bytes.items():
        free = MEMORY_SHARE * named[name].memory_bytes
        if peak > free:
            return f"needs {peak / 1e9:.2f} GB at {name}, which has {free / 1e9:.2f} GB to give"
    totals = _totals(option, request, named)
    if request.core_hours is not None and totals.get("core_hours", 0.0) > request.core_hours:
        return f"takes {totals['core_hours']:.3g} core-hours, the budget has {request.core_hours:.3g}"
    if request.max_bytes is not None and totals.get("bytes", 0.0) > request.max_bytes:
        return f"sends {totals['bytes'] / 1e9:.3g} GB, the budget has {request.max_bytes / 1e9:.3g}"
    if not every_engine and not option.is_run:
        return f"would give {option.samples_s:.3g} samples/s, but this release does not run it"
    return ""


def _best_each(found: Sequence[TrainingOption], among: Sequence[TrainingOption]) -> list[TrainingOption]:
    """Return the fastest option of each engine and codec; from all of `found` where `among` has none."""
    kinds = dict.fromkeys((each.engine, each.codec) for each in found)
    return [
        max(own, key=lambda each: each.samples_s)
        for kind in kinds
        if (own := [each for each in among if (each.engine, each.codec) == kind])
    ]


def _slower(option: TrainingOption, chosen: TrainingOption) -> str:
    ratio = option.samples_s / chosen.samples_s
    wait = f"{option.sync_s:.3g} s of each {'outer step' if option.engine == 'diloco' else 'step'} for synchronisation"
    if ratio < 1.0:
        return f"{ratio:.0%} of the speed: {wait}"
    return f"{ratio:.0%} of the speed, which is not worth its departure from plain training"


def _left_out(
    chosen: TrainingOption,
    candidates: Sequence[TrainingCandidate],
    speeds: dict[str, float],
    groups: Sequence[Sequence[str]],
    links: LinkTable,
) -> dict[str, str]:
    fastest = max(speeds[name] for name in chosen.members)
    cohort = next(set(group) for group in groups if chosen.members[0] in group)
    reasons = {}
    for each in candidates:
        if each.name in chosen.members:
            continue
        if each.name not in cohort:
            ratio = fastest / speeds[each.name]
            what = f"{ratio:.2f} times the step time of the others" if ratio > 1 else f"{1 / ratio:.2f} times as fast"
            reasons[each.name] = f"{what}; at most {MAX_SPREAD:.0%} apart train together"
            continue
        known = [link for name in chosen.members if (link := links.between(each.name, name))]
        if not known:
            reasons[each.name] = "its links were not measured"
        else:
            rate, trip = max(link.bit_s for link in known), min(link.round_trip_s for link in known)
            reasons[each.name] = f"its link ({rate / 1e6:,.3g} Mbit/s, {1e3 * trip:.3g} ms) costs more than it brings"
    return reasons


def _warnings(chosen: TrainingOption) -> list[str]:
    wanted = local_steps(chosen.sync_s, chosen.compute_s) if chosen.engine == "diloco" else 1
    if wanted > MAX_PROVEN_LOCAL_STEPS:
        share = sync_share(chosen.sync_s, chosen.compute_s, chosen.local_steps)
        return [
            f"synchronisation takes {share:.0%} of the time: {wanted:,} local steps would bring it to {MAX_SHARE:.0%}, but"
            f" above {MAX_PROVEN_LOCAL_STEPS} the quality of DiLoCo is not proven"
        ]
    return []


def _totals(option: TrainingOption, request: PlanRequest, named: dict[str, TrainingCandidate]) -> dict[str, float]:
    if not request.samples:
        return {}
    each = request.batch * len(option.members) * option.local_steps
    outer_steps = math.ceil(request.samples / each - 1e-9)
    steps = outer_steps * option.local_steps
    seconds = steps * option.step_s
    threads = sum(named[name].threads for name in option.members)
    found: dict[str, float] = {
        "outer_steps": outer_steps,
        "hours": seconds / 3600,
        "bytes": steps * option.bytes_step * len(option.members),
        "core_hours": seconds * threads / 3600,
    }
    if option.energy_j_step is not None:
        found["kwh"] = steps * option.energy_j_step / 3.6e6
    return found


def _would_fit(
    request: PlanRequest,
    found: Sequence[TrainingOption],
    candidates: Sequence[TrainingCandidate],
    groups: Sequence[Sequence[str]],
    links: LinkTable,
) -> list[str]:
    """Return what would make a job fit that does not."""
    named = {each.name: each for each in candidates}
    free = {each.name: MEMORY_SHARE * each.memory_bytes for each in candidates}
    if not found:
        sizes = [min(case.micro_batch for case in each.cases) for each in candidates]
        if min(sizes) > request.batch:
            return [f"a batch of {min(sizes)} samples or more, or probes of smaller micro-batches"]
        largest = max(len(group) for group in groups)
        if largest < request.ranks[0]:
            return [f"{request.ranks[0]} members at most {MAX_SPREAD:.0%} apart in speed (there are {largest} at most),"
                    f" or a job with ranks from {largest}"]  # fmt: skip
        return ["links that were measured: run `python -m grid.planning.links` at each member",
                "probes with a size of micro-batch that all members have measured"]  # fmt: skip
    runs = [each for each in found if each.is_run]
    advice = []
    tight = [each for each in runs if any(each.peak_bytes[name] > free[name] for name in each.members)]
    if len(tight) == len(runs):
        least = min(runs, key=lambda each: max(each.peak_bytes.values()))
        name = max(least.peak_bytes, key=lambda each: least.peak_bytes[each] - free[each])
        need, model = least.peak_bytes[name], candidates[0].parameters
        advice.append(f"members with {need / MEMORY_SHARE / 1e9:.3g} GB free ({name} has"
                      f" {named[name].memory_bytes / 1e9:.3g} GB; {least.label})")  # fmt: skip
        room = max(free[name] - named[name].program_bytes, 0.0)
        advice.append(f"a preset of at most {room / (need - named[name].program_bytes) * model:,.0f} parameters")
        split = [each for each in found if each.engine == "fsdp2"]
        if any(all(each.peak_bytes[name] <= free[name] for name in each.members) for each in split):
            ring = links.ring(split[0].members)
            where = "" if ring and is_one_site(ring) else f", on links of {SITE_BIT_S / 1e9:.1g} Gbit/s or more"
            advice.append(f"parameters split over {len(split[0].members)} members (FSDP2{where}): not in this release")
        return advice
    for total, bound, unit in (("core_hours", request.core_hours, "core-hours"), ("bytes", request.max_bytes, "bytes")):
        min_total = min(_totals(each, request, named).get(total, 0.0) for each in runs if each not in tight)
        if bound is not None and min_total > bound:
            advice.append(f"a budget of {min_total:,.3g} {unit} (it has {bound:,.3g}), or fewer samples")
    return advice
