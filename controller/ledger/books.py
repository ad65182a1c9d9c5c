"""Evaluation of the ledger's rows: volumes, their uncertainty, and the history of the medium.

Volumes follow from conservation: what leaves one vessel enters another (F1). The books know neither the journal nor the
clock nor alarms: the same rows in the same order give the same books, whether they are written or read back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from controller.core.state import Volume
from controller.ledger.batches import AT_THE_START, Batch, Whereabouts
from controller.ledger.drift import LEARNED_REL_SD, WANDER_REL_SD, Drift, PumpWatch
from controller.ledger.flow_paths import FlowPath, FlowPaths
from controller.ledger.line_contents import LineContents
from controller.ledger.losses import losses_of
from controller.ledger.medium_ageing import MediumAgeing
from controller.ledger.mixing import Mixing, VesselState
from controller.ledger.reconcile import K, Residual, Unknowns, surplus
from controller.ledger.samples import AssaySample
from controller.ledger.tares import Tares
from controller.ledger.terms import FILL_REL_SD, PUSHED_REL_SD, STRAW_REL_SD, Movement, Nominal, Parcel, Tests, Totals
from controller.ledger.witnesses import DENSITY_REL_SD
from controller.rig.description import Line, Rig, required
from controller.rig.organ_lines import organ_lines
from controller.rig.perfusion import circulating

DENSITY = "density"
OFFSET = "offset of the balance"
"""Unknown: what the balance under the spent vessel may tell too much (µL), after weighings that nothing explains."""
"""Unknown: the density of the medium (relative)."""
BOOKED = "all as booked"
"""Unknown: the sum of all vessels by bookings alone, which no weighing corrects. It shares the vessels' uncertainty of
filling and evaporation, so that the difference of both contains only what was moved and weighed."""

Listener = Callable[[Movement], None]


class Books:
    """Volumes, totals and medium history of one rig as of the last row."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._listeners: list[Listener] = []
        self._kidney = rig.organs.kidney
        self._paths = FlowPaths(rig)
        self._tares = Tares()
        self._loop = rig.loop
        self._used = {*circulating(rig), *rig.tissue}
        self._ageing = MediumAgeing(rig)
        self._vessels = {name: self._filled(name) for name in rig.vessels}
        self._purposes = {each.line: each.key for each in organ_lines(rig)}
        if self._kidney is not None and self._kidney.dialyse is not None:
            self._purposes[self._kidney.dialyse] = "dialyse"
        self._unknowns = Unknowns()
        for name, held in self._vessels.items():
            self._unknowns.add(name, held.ul, held.variance)
        self._losses = losses_of(rig)
        for unknown in dict.fromkeys(loss.unknown for loss in self._losses.values()):
            self._unknowns.add(unknown, 0.0, 1.0)
        self._unknowns.add(DENSITY, 0.0, DENSITY_REL_SD**2)
        self._unknowns.add(OFFSET, 0.0, 0.0)
        self._apart_ul = 0.0
        """Sum of what gross weighings of the spent vessel found, less what a level that was read has explained since."""
        self._unknowns.add(BOOKED, 0.0, 0.0, kept=True)
        self._begin_booked()
        self.pumps: dict[str, PumpWatch] = {}
        """What the doses of each pump have shown since its calibration or tubing last changed."""
        self.whereabouts = Whereabouts()
        self.contents = LineContents(rig)
        self._pushed_ul: dict[str, float] = {}
        """By line: what air that followed the medium of a straw has pushed out of it so far."""
        self._mixing = Mixing(rig, self._vessels, self.whereabouts, self.contents)
        self.totals = Totals()
        self.tests = Tests()

    def _filled(self, name: str) -> VesselState:
        """Return a vessel as it is filled at the start."""
        spec = self._rig.vessels[name]
        unused = 0.0 if name in self._used else 1.0
        parcel = replace(self._ageing.of_medium(spec.contains), unused=unused)
        return VesselState(spec.volume_ul, (FILL_REL_SD * spec.volume_ul) ** 2, parcel)

    # --- what is known ----------------------------------------------------------------------------------

    def volumes(self, since_s: float) -> dict[str, Volume]:
        """Return every vessel's volume `since_s` after the last booking, with its standard deviation (µL)."""
        volumes = {name: vessel.volume() for name, vessel in self._vessels.items()}
        for name, loss in self._losses.items():
            lost, sd = loss.in_time(since_s)
            vessel, (rate, rate_variance, shared) = self._vessels[name], self._rates[name]
            variance = vessel.variance - 2.0 * sd * shared + sd * sd * rate_variance
            volumes[name] = Volume(vessel.ul - lost - sd * rate, math.sqrt(max(variance, 0.0)))
        return volumes

    def with_flow(self, volumes: dict[str, Volume], flows: Mapping[str, tuple[float, float]]) -> dict[str, Volume]:
        """Return `volumes` after what has flowed since the last row: by line, volume and standard deviation (µL)."""
        for line, (ul, flow_sd) in flows.items():
            path = self._paths.of(line, ul, lambda vessel: volumes[vessel].ul)
            for vessel, share in path.changes.items():
                before = volumes[vessel]
                volumes[vessel] = Volume(before.ul + share * ul, math.hypot(before.sd_ul, share * flow_sd))
        return volumes

    def parcels(self, since_s: float) -> dict[str, Parcel]:
        """Return the history of each vessel's medium, `since_s` after the last booking."""
        since_s = max(since_s, 0.0)
        return {name: self._ageing.older(name, vessel.parcel, since_s) for name, vessel in self._vessels.items()}

    def glutamine_left(self, line: str, since_s: float) -> float:
        """Return the share of its label's glutamine that the bottle of a line still has (0..1); 1 for any other source."""
        name = self._rig.lines[line].from_
        source = self._rig.vessels.get(name)
        medium = None if source is None or source.kind != "source" else self._rig.media.get(source.contains or "")
        if medium is None or medium.glutamine_mm <= 0.0:
            return 1.0
        return round(self._ageing.older(name, self._vessels[name].parcel, max(since_s, 0.0)).glutamine, 6)

    def booked_ul(self) -> dict[str, float]:
        """Return every vessel's volume as of the last booking (µL)."""
        return {name: vessel.ul for name, vessel in self._vessels.items()}

    def gain(self, pump: str) -> tuple[float, float] | None:
        """Return the ratio of delivered to nominal volume of a pump and its standard deviation; None before any dose."""
        name = f"gain {pump}"
        if name not in self._unknowns:
            return None
        return 1.0 + self._unknowns.mean(name), math.sqrt(self._unknowns.variance(name))

    def unexplained(self) -> Volume:
        """Return the balance error: what weighings and readings found that no transfer, loss or person explains.

        It is the estimated sum of all vessels less the booked sum. The initial filling is in both and cancels; the
        uncertainty of what was moved and weighed remains.

        Returns:
            The error (µL, gain > 0), with its standard deviation if nothing leaks.
        """
        terms = {**dict.fromkeys(self._vessels, 1.0), BOOKED: -1.0}
        sd_ul = self._unknowns.residual(terms, 0.0, 0.0).sd
        return Volume(self.totals.unaccounted_ul - self.totals.reconciled_ul, sd_ul)

    def weighing(self, ul: float, noise_ul: float) -> Residual:
        """Return the residual of a weighing of the spent vessel."""
        return self._unknowns.residual(self._weighing_terms(ul), ul, noise_ul**2)

    def net_ul(self, vessel: str, gross_ul: float) -> float | None:
        """Return the volume that the weight of a vessel on a balance tells (µL); None before its tare is known."""
        return self._tares.net_ul(vessel, gross_ul)

    def balancing(self, vessel: str, net_ul: float, noise_ul: float) -> Residual:
        """Return the residual of the weight of a vessel on a balance."""
        return self._unknowns.residual(self._tares.terms(vessel), net_ul, noise_ul**2)

    def reading(self, vessel: str, ul: float, sd_ul: float) -> Residual:
        """Return the residual of a volume that was read off a vessel."""
        return self._unknowns.residual({vessel: 1.0}, ul, sd_ul**2)

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every booking from now on."""
        self._listeners.append(listener)

    # --- booking ----------------------------------------------------------------------------------------

    def book(self, kind: str, body: Mapping[str, Any], utc: str) -> Drift | None:
        """Evaluate one row. Return a pump drift that it reveals for the first time, or None."""
        match kind:
            case "moved":
                return self._moved(body, utc)
            case "ledger.opened":
                self._open(body, utc)
            case "ledger.level":
                self._level(body)
            case "ledger.loaded":
                self._load(body)
            case "ledger.sampled":
                self._sample(AssaySample.from_json(body))
            case "ledger.reconciled":
                self._reconcile(body, utc)
            case "ledger.tared":
                self._tares.set(self._unknowns, body["vessel"], body["gross_ul"], body["noise_ul"])
            case "ledger.balanced":
                self._balance(body)
            case _:
                self._weigh(body)
        return None

    def evaluate(self, kind: str, body: Mapping[str, Any], utc: str) -> Drift | None:
        """Evaluate a row that is in the journal. If that fails, the volumes that it may have changed become unknown."""
        before = self._unknowns.copy()
        try:
            return self.book(kind, body, utc)
        except Exception:
            self._unknowns = before
            self._doubt(body)
            raise

    def advance(self, seconds: float) -> None:
        """Book the evaporation since the last booking, and age all medium."""
        for name, loss in self._losses.items():
            lost, sd = loss.in_time(seconds)
            lost += sd * self._unknowns.mean(loss.unknown)
            for each in (name, BOOKED):
                self._unknowns.add_to(each, {loss.unknown: -sd}, -lost)
            self.totals.evaporated_ul += lost
        self._refresh()
        for name, vessel in self._vessels.items():
            vessel.parcel = self._ageing.older(name, vessel.parcel, max(seconds, 0.0))
        self.contents.age(max(seconds, 0.0), self._ageing.in_lines)

    # --- inside -----------------------------------------------------------------------------------------

    def _doubt(self, body: Mapping[str, Any]) -> None:
        """Make the volumes unknown that a row may have changed: of its vessel, of its line's ends, else of all vessels."""
        line, vessel = body.get("line"), body.get("vessel")
        concerned = self._paths.reach(str(line)) if line in self._rig.lines else {str(vessel)}
        for name in concerned if concerned <= self._vessels.keys() else self._vessels:
            with self._booking(name):
                self._unknowns.wander(name, self._rig.vessels[name].capacity_ul ** 2)
        self._refresh()

    def _moved(self, body: Mapping[str, Any], utc: str) -> Drift | None:
        name = body["line"]
        ul = body.get("liquid_ul", body["ul"])
        line = self._rig.lines[name]
        path, ends = self._path(name, body.get("ports"), ul)
        nominal = Nominal.of(body)
        drift = None
        if "liquid_ul" in body:
            self._to_straw(path, self._rig.lines[path.legs[0].line], ul, body["ul"] - ul)
        elif nominal is None or line.pump is None:
            self._pour(path, ul, body["sd_ul"] ** 2)
            if "spent_ul" in body:
                self._by_balance(body["spent_ul"], body["spent_sd_ul"])
        elif "spent_ul" in body:
            drift = self._dose(path, line.pump, nominal, body)
        else:
            self._by_gain(self._unknowns, path, self._gain_of(line.pump, nominal), nominal)
        self._refresh()
        self._mix(path, ul, utc)
        movement = Movement(name, *ends, ul, body.get("glutamine", 1.0))
        for listener in self._listeners:
            listener(movement)
        return drift

    def straw_of(self, name: str, ports: Mapping[str, int] | None) -> Line:
        """Return the line whose inlet hangs in the vessel that a pumped line draws from."""
        selected = self._paths.selected(name, ports)
        return self._rig.lines[name if selected is None else selected.lines[0]]

    def _path(self, name: str, ports: Mapping[str, int] | None, ul: float) -> tuple[FlowPath, tuple[str, str]]:
        """Return the path of a volume along a line, and its ends; `ports` are the positions of the selectors on it."""
        selected, paths = self._paths.selected(name, ports), self._paths
        ends = paths.ends(name, ports)
        if selected is None:
            return paths.of(name, ul, lambda vessel: self._vessels[vessel].ul), ends
        return paths.along(selected, ul, lambda vessel: self._vessels[vessel].ul), ends

    def _dose(self, path: FlowPath, pump: str, nominal: Nominal, body: Mapping[str, Any]) -> Drift | None:
        """Book a dose that the pump ended itself and that was weighed."""
        gain, watch = self._gain_of(pump, nominal), self.pumps[pump]
        shift, doubt = watch.under_pressure(body.get("peak_kpa"))
        self._unknowns.wander(gain, WANDER_REL_SD**2 + doubt, by=shift)
        weighed, noise = body["spent_ul"], body["spent_sd_ul"] ** 2
        terms = self._weighing_terms(weighed)
        trial = self._unknowns.copy()
        self._by_gain(trial, path, gain, nominal)
        residual = trial.residual(terms, weighed, noise)
        self.tests.note(residual)
        before = self._unknowns.mean(gain)
        if not residual.gross:
            trial.measured(terms, weighed, noise)
            self._unknowns = trial
            self._account()
            now, variance = trial.mean(gain), trial.variance(gain)
            found = watch.fits(now, variance)
            if found is None:
                return None
            return Drift(pump, now, math.sqrt(variance), *found, nominal.ul, body["ul"])
        # A misfit: the balance gives the moved volume, and one such dose does not change the pump's gain. Which of the two
        # is wrong is unknown, so the uncertainty covers both.
        apart_ul = body["ul"] - nominal.ul * (1.0 + before)
        self._pour(path, body["ul"], max(body["sd_ul"], abs(apart_ul) / K) ** 2)
        self._by_balance(weighed, body["spent_sd_ul"])
        gain_now = body["ul"] / nominal.ul - 1.0
        if not watch.misfit(residual, gain_now, before):
            return None
        self._unknowns.known(gain, gain_now, LEARNED_REL_SD**2)
        against: Literal["before", "calibration"] = "before" if watch.doses else "calibration"
        return Drift(pump, gain_now, residual.sd / nominal.ul, against, before, nominal.ul, body["ul"])

    def _gain_of(self, pump: str, nominal: Nominal) -> str:
        """Return the name of the unknown of a pump's gain; it starts again with a new calibration or tubing."""
        name = f"gain {pump}"
        watch = self.pumps.get(pump)
        if watch is None:
            self._unknowns.add(name, 0.0, nominal.rel_sd**2)
        elif watch.calibration != nominal.calibration:
            self._unknowns.known(name, 0.0, nominal.rel_sd**2)
        else:
            return name
        self.pumps[pump] = PumpWatch(pump, nominal.calibration, nominal.rel_sd)
        return name

    @staticmethod
    def _by_gain(unknowns: Unknowns, path: FlowPath, gain: str, nominal: Nominal) -> None:
        """Move a volume by the pump's gain, whose uncertainty all its doses share, and all vessels on their path."""
        ul = nominal.ul * (1.0 + unknowns.mean(gain))
        for vessel, share in path.changes.items():
            unknowns.add_to(vessel, {gain: share * nominal.ul}, share * ul)
        unknowns.exchanged(path.changes, nominal.dose_sd_ul**2)

    def _pour(self, path: FlowPath, ul: float, variance: float) -> None:
        """Move a measured volume, whose uncertainty is this dose's own."""
        for vessel, share in path.changes.items():
            self._unknowns.add_to(vessel, {}, share * ul)
        self._unknowns.exchanged(path.changes, variance)
        self._refresh()

    def _to_straw(self, path: FlowPath, line: Line, ul: float, air_ul: float) -> None:
        """Move what stood above a straw, whose height is now the level of its vessel."""
        for vessel, share in path.changes.items():
            if vessel != line.from_:
                self._unknowns.add_to(vessel, {line.from_: share}, share * ul)
        self._unknowns.known(line.from_, line.draws_above_ul, 0.0)
        self._unknowns.exchanged(path.changes, (STRAW_REL_SD * line.draws_above_ul) ** 2)
        self._air_follows(path, air_ul)

    def _air_follows(self, path: FlowPath, air_ul: float) -> None:
        """Book what air pushes out of tubes that held medium so far: it comes to the last vessel."""
        end = path.legs[-1].target
        for name in dict.fromkeys(leg.line for leg in path.legs):
            line, before_ul = self._rig.lines[name], self._pushed_ul.get(name, 0.0)
            held_ul = math.pi / 4.0 * line.bore_mm**2 * line.length_m * 1000.0
            ul = min(held_ul - before_ul, air_ul)
            if ul > 0.0:
                self._pushed_ul[name] = before_ul + ul
                self._unknowns.add_to(end, {}, ul)
                self._unknowns.exchanged({end: 1.0}, (PUSHED_REL_SD * ul) ** 2)
                air_ul -= ul

    def _refresh(self) -> None:
        """Copy the values that are needed once a second out of the unknowns."""
        unknowns = self._unknowns
        for name, vessel in self._vessels.items():
            vessel.ul, vessel.variance = unknowns.mean(name), unknowns.variance(name)
        self._rates = {
            name: (
                unknowns.mean(loss.unknown),
                unknowns.variance(loss.unknown),
                unknowns.covariance(name, loss.unknown),
            )
            for name, loss in self._losses.items()
        }

    def _account(self) -> None:
        """Take over the present estimates; a change of their sum is not explained by a transfer."""
        before = sum(vessel.ul for vessel in self._vessels.values())
        self._refresh()
        self.totals.unaccounted_ul += sum(vessel.ul for vessel in self._vessels.values()) - before

    def _mix(self, path: FlowPath, ul: float, utc: str) -> None:
        """Update totals and medium history."""
        first = path.legs[0]
        source = self._vessels.get(first.source)
        self.totals.poured(self._purposes.get(first.line), ul, Parcel() if source is None else source.parcel)
        self._mixing.mix(path, ul, utc)

    def _balance(self, body: Mapping[str, Any]) -> None:
        """Correct a vessel on a balance, and what it depends on; a gross residual corrects and blurs the vessel alone."""
        vessel, change_ul = body["vessel"], body["change_ul"]
        if not body["gross"]:
            self.tests.note(self._unknowns.measured(self._tares.terms(vessel), body["ul"], body["noise_ul"] ** 2))
            self._account()
            return
        self._unknowns.wander(vessel, 0.0, by=change_ul)
        self._account()
        with self._booking(vessel):
            self._tares.doubt(self._unknowns, vessel, change_ul / K)
        self._refresh()

    def _correct(self, name: str, ul: float, sd_ul: float) -> None:
        """Set a volume that a person knows; earlier estimates are dropped."""
        self._tares.drop(name)
        if self._kidney is not None and name == self._spent:
            self._doubt_balance(0.0, 0.0)
        self._unknowns.known(name, ul, sd_ul**2)
        self._account()

    @property
    def _spent(self) -> str:
        return required(self._kidney, "a kidney").vessel

    def _by_balance(self, ul: float, sd_ul: float) -> None:
        """Set the spent vessel by the balance, its offset and the density; `ul` is by the nominal density."""
        believed_ul = ul * (1.0 + self._unknowns.mean(DENSITY)) - self._unknowns.mean(OFFSET)
        self._unknowns.known(self._spent, believed_ul, sd_ul**2, by={DENSITY: ul, OFFSET: -1.0})
        self._account()

    def _weighing_terms(self, ul: float) -> Mapping[str, float]:
        """Return the terms of the equation of a weighing of the spent vessel; `ul` is by the nominal density."""
        return {self._spent: 1.0, DENSITY: -ul, OFFSET: 1.0}

    def _doubt_balance(self, offset_ul: float, apart_ul: float) -> None:
        """Set the offset of the balance under the spent vessel; `apart_ul` is its uncertainty (k = 3).

        Later weighings have the same offset: the volume stays uncertain until a person states it, or the weight is back.
        """
        self._apart_ul = apart_ul
        self._unknowns.known(OFFSET, offset_ul, (apart_ul / K) ** 2)

    def _begin_booked(self) -> None:
        """Start the booked sum with the initial volumes and their uncertainty."""
        self._unknowns.known(BOOKED, 0.0, 0.0)
        for name in self._vessels:
            self._unknowns.add_to(BOOKED, {name: 1.0}, self._unknowns.mean(name))

    @contextmanager
    def _booking(self, name: str) -> Iterator[None]:
        """Count changes of a vessel within the block as booked, so that they need no explanation."""
        self._unknowns.add_to(BOOKED, {name: -1.0}, -self._unknowns.mean(name))
        try:
            yield
        finally:
            self._unknowns.add_to(BOOKED, {name: 1.0}, self._unknowns.mean(name))

    def _weigh(self, body: Mapping[str, Any]) -> None:
        vessel, ul = body["vessel"], body["ul"]
        noise = body["noise_ul"]
        expected = self.weighing(ul, noise).sd
        self._by_balance(ul, noise)
        if body["sd_ul"] > noise:
            # Beyond k·σ the volume is less certain, but the unexplained amount is no smaller for it.
            with self._booking(vessel):
                self._doubt_balance(self._unknowns.mean(OFFSET), self._apart_ul + body["change_ul"])
                self._by_balance(ul, noise)
            self._refresh()
        else:
            # Small differences are not booked, so the booked ones scatter more than weighings do.
            self._unknowns.wander(BOOKED, surplus(expected, min_change_ul(ul, noise)))

    def _reconcile(self, body: Mapping[str, Any], utc: str) -> None:
        name, spec = body["vessel"], self._rig.vessels[body["vessel"]]
        before = self.totals.unaccounted_ul
        with self._booking(name):
            self._correct(name, body["ul"], body["sd_ul"])
        self.totals.reconciled_ul += self.totals.unaccounted_ul - before
        if "medium" in body:
            self._vessels[name].parcel = Parcel(**body["medium"]["parcel"])
            self.whereabouts.take(name, body["medium"])
        elif spec.kind == "source" and spec.contains is not None and body["change_ul"] > K * body["sd_ul"]:
            filled = Batch(f"{name} filled by hand on {utc[:10]}", spec.contains, utc, name, by=body.get("user", ""))
            before_ul = max(body["ul"] - body["change_ul"], 0.0)
            self._put_in(filled, body["change_ul"] / (before_ul + body["change_ul"]))

    def _level(self, body: Mapping[str, Any]) -> None:
        vessel, ul, sd_ul = body["vessel"], body["ul"], body["sd_ul"]
        if body["gross"]:
            self._correct(vessel, ul, sd_ul)
        else:
            self.tests.note(self._unknowns.measured({vessel: 1.0}, ul, sd_ul**2))
            self._apart_ul = math.copysign(K * math.sqrt(self._unknowns.variance(OFFSET)), self._apart_ul)
            self._account()

    def _load(self, body: Mapping[str, Any]) -> None:
        batch = Batch(**{name: body[name] for name in Batch.__dataclass_fields__})
        vessel, ul, sd_ul = self._vessels[batch.vessel], body["ul"], body["sd_ul"]
        before = max(vessel.ul, 0.0)
        with self._booking(batch.vessel):
            if body["replaces"]:
                self._tares.drop(batch.vessel)
                self._unknowns.known(batch.vessel, ul, sd_ul**2)
            else:
                self._unknowns.wander(batch.vessel, sd_ul**2, by=ul)
        share = 1.0 if body["replaces"] else ul / (before + ul)
        self._refresh()
        self.totals.loaded_ul += ul
        self._put_in(batch, share)

    def _put_in(self, batch: Batch, share: float) -> None:
        """Mix a lot into its vessel, where it makes up `share` of the contents."""
        vessel = self._vessels[batch.vessel]
        vessel.parcel = vessel.parcel.mixed(self._ageing.of_batch(batch), share)
        self.whereabouts.loaded(batch, share=share)

    def _sample(self, sample: AssaySample) -> None:
        """Take a sample out; a vessel that was measured since lacks it already, and only gets the explanation."""
        self.totals.sampled_ul += sample.ul
        for vessel, share in sample.missing.items():
            ul, variance = share * sample.ul, (share * sample.sd_ul) ** 2
            if vessel in sample.contained:
                self._unknowns.wander(BOOKED, variance, by=-ul)
                self.totals.unaccounted_ul += ul
            else:
                with self._booking(vessel):
                    self._unknowns.wander(vessel, variance, by=-ul)
        self._refresh()

    def _open(self, volumes: Mapping[str, float], utc: str) -> None:
        """Book the initial volumes, of no lot that a person has entered."""
        for name, ul in volumes.items():
            if name in self._vessels:
                self._unknowns.known(name, ul, (FILL_REL_SD * ul) ** 2)
                medium = self._rig.vessels[name].contains
                if medium is not None:
                    uses = int(name in self._used)
                    self.whereabouts.loaded(Batch(f"{name}{AT_THE_START}", medium, utc, name), uses=uses)
        self.contents.prime(self.whereabouts.mixtures)
        self._begin_booked()
        self._refresh()


def min_change_ul(ul: float, noise_ul: float) -> float:
    """Return the minimum difference of a weighing of `ul` (µL) that is booked."""
    return math.hypot(noise_ul, DENSITY_REL_SD * ul)
