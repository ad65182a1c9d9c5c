"""The messages of nerves.proto that the service makes of the core's data."""

from __future__ import annotations

import math
from dataclasses import asdict, fields

from choroid.client.wire import nerves_pb2 as pb
from nerves import ledger
from nerves.cards.geometry import ArrayGeometry
from nerves.commands import StimulationOutcome
from nerves.core import Core
from nerves.detector import ElectrodeState
from nerves.events import EngineEvent
from nerves.leases import Lease
from nerves.metrics.following import FollowedMetrics
from nerves.ring import Gap


def gap_message(gap: Gap) -> pb.Gap:
    """Return a gap record."""
    cause = pb.Gap.ARRAY if gap.cause == "array" else pb.Gap.READER
    return pb.Gap(first_frame=gap.first_frame, end_frame=gap.end_frame, cause=cause)


ELECTRODE_STATES = {
    ElectrodeState.OK: pb.ELECTRODE_OK,
    ElectrodeState.DEAD: pb.ELECTRODE_DEAD,
    ElectrodeState.NOISY: pb.ELECTRODE_NOISY,
    ElectrodeState.SATURATED: pb.ELECTRODE_SATURATED,
    ElectrodeState.BLANKED: pb.ELECTRODE_BLANKED,
}
_STATES: dict[str, pb.PulseFate.State.ValueType] = {
    "planned": pb.PulseFate.PLANNED,
    "handed": pb.PulseFate.HANDED,
    "delivered": pb.PulseFate.DELIVERED,
    "dropped": pb.PulseFate.DROPPED,
    "cancelled": pb.PulseFate.CANCELLED,
    "unknown": pb.PulseFate.UNKNOWN,
}

TIERS: dict[str, pb.LoopTier.ValueType] = {
    "engine": pb.LOOP_ENGINE,
    "uploaded": pb.LOOP_UPLOADED,
    "remote": pb.LOOP_REMOTE,
}


def welfare_message(core: Core) -> pb.Welfare:
    """Return how the organoid is treated."""
    load, permit = core.load, core.permit
    return pb.Welfare(
        load=load.share,
        rest_h=load.rest_h,
        evoked_ratio=load.evoked_ratio,
        response_lost=load.response_lost,
        tier=permit.tier,
        level=permit.level.name,
        reason=permit.reason,
        evoked_spikes=load.evoked_spikes,
    )


def array_metrics(found: FollowedMetrics) -> pb.ArrayMetrics:
    """Return the figures of the array; one that is not known is absent."""
    array = found.array
    sent = pb.ArrayMetrics(
        end_frame=found.end_frame,
        seconds=array.seconds,
        spikes=array.spikes,
        active=array.active,
        pulses=array.pulses,
    )
    for name, value in array.figures.items():
        if not math.isfinite(value):
            continue
        if name in sent.DESCRIPTOR.fields_by_name:
            setattr(sent, name, value)
        else:
            sent.more[name] = value
    return sent


def metrics_reply(found: FollowedMetrics) -> pb.MetricsReply:
    """Return the figures of the array and of each electrode."""
    each = found.electrodes
    return pb.MetricsReply(
        array=array_metrics(found), **{field.name: getattr(each, field.name).tolist() for field in fields(each)}
    )


def stimulate_reply(outcome: StimulationOutcome, repeated: bool) -> pb.StimulateReply:
    """Return the answer to a request; `repeated` says that it was given before."""
    decision = outcome.decision
    fates = dict(outcome.fates)  # the real-time thread may still be adding to it
    pulses = []
    for pulse in outcome.pulses:
        state, frame, why = fates.get(pulse.id, ("planned", None, ""))
        pulses.append(
            pb.PulseFate(
                electrode=pulse.electrode,
                at_frame=pulse.at_frame,
                state=_STATES[state],
                delivered_frame=frame,
                detail=why,
            )
        )
    return pb.StimulateReply(
        accepted=decision.accepted,
        reasons=[pb.Reason(limit=reason.limit, text=reason.text) for reason in decision.reasons],
        limiting=decision.limiting or "",
        decision=outcome.number,
        decided_frame=outcome.frame,
        pulses=pulses,
        repeated=repeated,
    )


def living_lease(lease: Lease) -> pb.LivingLease:
    """Return a lease."""
    return pb.LivingLease(
        lease=lease.id,
        requester=lease.requester,
        electrodes=sorted(lease.electrodes),
        until_frame=lease.until_frame,
        alive_frame=lease.alive_frame,
        held=lease.held,
    )


def ledger_record(record: ledger.StimulationRecord) -> pb.LedgerRecord:
    """Return a record of the ledger."""
    return pb.LedgerRecord(
        decision=record.id,
        session=record.session,
        session_utc=record.utc,
        sample_rate_hz=record.sample_rate_hz,
        frame=record.frame,
        requester=record.requester,
        lease=record.lease,
        purpose=record.purpose,
        electrodes=record.electrodes,
        phases=[pb.Phase(duration_us=us, current_ua=ua) for us, ua in record.phases],
        at_frame=record.at_frame,
        not_after=record.not_after,
        accepted=record.accepted,
        reasons=record.reasons,
        limiting=record.limiting or "",
        charge_nc=record.charge_nc,
        tier=TIERS[record.tier],
        pulses=[
            pb.PulseFate(
                electrode=pulse.electrode,
                at_frame=pulse.at_frame,
                state=_STATES[pulse.state],
                delivered_frame=pulse.delivered_frame,
                detail=pulse.detail,
            )
            for pulse in record.pulses
        ],
    )


def event_message(event: EngineEvent, lost_before: bool) -> pb.Event:
    """Return an event; `lost_before` says that earlier ones are not kept any more."""
    return pb.Event(
        number=event.number,
        kind=pb.Event.Kind.Value(event.kind.value),
        frame=event.frame,
        end_frame=event.end_frame,
        lease=event.lease,
        electrodes=event.electrodes,
        text=event.text,
        lost_before=lost_before,
    )


def geometry_message(geometry: ArrayGeometry) -> pb.Geometry:
    """Return a geometry as a message."""
    return pb.Geometry(**asdict(geometry))
