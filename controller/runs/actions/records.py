"""Write to the journal; return what is on record: of the sterile filter, a chamber's volume, the medium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from controller.estimator.estimator import NO_LOOP
from controller.rig.organ_lines import fresh_medium
from controller.runs.action import Action
from controller.runs.context import LiveRun
from controller.runs.paper import Paper
from controller.steps.barrier import bounds_kpa
from controller.steps.steps import StepRecord
from protocols.chambers import Doser
from protocols.host import ProtocolError
from protocols.interval import Interval
from protocols.language import Lab
from protocols.organs import Immune
from protocols.retreat import RETREAT
from protocols.soft_sensor import MediaEstimate, MediaValues


class CheckBarrier(Action, verbs=(Immune.barrier,)):
    """Returns the fields of :class:`protocols.results.Barrier`, from the recorded passes of the sterile filter."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        return live.filter_record.read()

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        min_kpa, max_kpa = bounds_kpa(paper.rig)
        return {"sterile": True, "peak_kpa": None, "min_kpa": min_kpa, "max_kpa": max_kpa, "detail": ""}


class ChamberVolume(Action, verbs=(Doser.chamber_volume,), needs=("chamber",)):
    """Returns the volume of a chamber in the ledger; `{ul, sd_ul}`."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, float]:
        volume = live.bench.ledger.volumes()[args["chamber"]]
        return {"ul": volume.ul, "sd_ul": volume.sd_ul}

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, float]:
        volume = paper.volumes.now()[args["chamber"]]
        return {"ul": volume.ul, "sd_ul": volume.sd_ul}


class Estimate(Action, verbs=(Lab.estimate,)):
    """Returns the soft sensor's estimate."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        """Estimate from settled readings, with the loss of viability that the estimate of the tissue shows."""
        bench = live.bench
        async with live.claim(live.batch):
            await live.run.checkpoint()
            if bench.estimator is None:
                raise ProtocolError(f"{NO_LOOP}. Next: use a recipe without “estimate”, or add a loop to the rig file")
            media = await bench.estimator.estimate(run=live.run.id)
            return replace(media, tissue=bench.tissue_loss()).to_json()

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the last estimate, else fresh medium everywhere."""
        if paper.estimate is not None:
            return paper.estimate.to_json()
        medium = paper.rig.media[fresh_medium(paper.rig)]
        values = MediaValues(
            **{entry.name: Interval.exact(getattr(medium, entry.name)) for entry in fields(MediaValues)}
        )
        return MediaEstimate(values, values, Interval.exact(0.0), titrated=False).to_json()


class Decide(Action, verbs=(Lab.decide,), needs=("choose",)):
    """Returns what the protocol chooses: on record, so that a run that is taken up follows it."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> Any:
        return args["choose"]()

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> Any:
        return args["choose"]()

    def text(self, args: Mapping[str, Any], result: Any) -> None:
        """Return None: it takes no time."""


class WriteNote(Action, verbs=(Lab.note,), needs=("kind", "data")):
    """Writes data as kind `note.<kind>`."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> None:
        """Write it once; a retreat is an alarm as well."""
        if not step.noted:
            kind, data = args["kind"], args["data"]
            live.bench.journal.append(f"note.{kind}", {**data, "step": step.n}, run=live.run.id)
            step.noted = True
            if kind == RETREAT:
                live.bench.alarm(kind, str(data["where"]), str(data["text"]))

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> None:
        """Do nothing: notes are for the journal, and a rehearsal has none."""
