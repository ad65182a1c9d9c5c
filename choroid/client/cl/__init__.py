"""The electrode engine under the names and shapes of the CL API: `import choroid.client.cl as cl` instead of `import cl`.

    with cl.open() as neurons:
        for tick in neurons.loop(ticks_per_second=100, stop_after_seconds=10):
            if tick.analysis.spikes:
                neurons.stim(cl.ChannelSet(8, 9), cl.StimDesign(160, -1.0, 160, 1.0))

Written from the documented names and behaviour, without code of cl-sdk. docs/cl.md lists what differs: every stimulation
passes lease, governor and ledger, and may be refused.
"""

from __future__ import annotations

import choroid.client.cl.analysis as analysis
import choroid.client.cl.util as util
from choroid.client.cl.data_streams import DataStream
from choroid.client.cl.designs import BurstDesign, ChannelSet, StimDesign
from choroid.client.cl.errors import (
    ChannelQueueFull,
    ControlRequestError,
    ControlRequiredError,
    DeferredInterruptLimitExceeded,
    RecordingFailedError,
    RunTimestampOrderError,
    StimulationRefused,
    SyncLimitExceeded,
    TransactionRejected,
    UnsafeOperationError,
    WsApiError,
)
from choroid.client.cl.loops import NeuronsLoop as Loop
from choroid.client.cl.neurons import CulturedNeurons, get_system_attributes, is_simulator, open_neurons
from choroid.client.cl.neurons_async import AsyncCulturedNeurons, open_async
from choroid.client.cl.plans import StimPlan
from choroid.client.cl.readings import DetectionResult, LoopTick, Spike, Stim
from choroid.client.cl.recording_view import RecordingView
from choroid.client.cl.records import NeuronsRecording as Recording

Neurons = CulturedNeurons

open = open_neurons
"""Connect to an engine; see :func:`open_neurons`."""

__all__ = [
    "AsyncCulturedNeurons",
    "BurstDesign",
    "ChannelQueueFull",
    "ChannelSet",
    "ControlRequestError",
    "ControlRequiredError",
    "CulturedNeurons",
    "DataStream",
    "DeferredInterruptLimitExceeded",
    "DetectionResult",
    "Loop",
    "LoopTick",
    "Neurons",
    "Recording",
    "RecordingFailedError",
    "RecordingView",
    "RunTimestampOrderError",
    "Spike",
    "Stim",
    "StimDesign",
    "StimPlan",
    "StimulationRefused",
    "SyncLimitExceeded",
    "TransactionRejected",
    "UnsafeOperationError",
    "WsApiError",
    "analysis",
    "get_system_attributes",
    "is_simulator",
    "open",
    "open_async",
    "open_neurons",
    "util",
]
