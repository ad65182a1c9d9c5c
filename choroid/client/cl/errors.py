"""Errors with the names of the CL API. Like those they are of the class RuntimeError, but for that of unsafe files."""

from __future__ import annotations

from choroid.client.errors import NervesError


class ControlRequestError(NervesError, RuntimeError):
    """The electrodes cannot be leased: another agent has them, or stimulation is not permitted."""


class ControlRequiredError(NervesError, RuntimeError):
    """Only a program that has taken control may do this."""


class TransactionRejected(NervesError, RuntimeError):
    """A stimulation was not queued."""


class ChannelQueueFull(TransactionRejected):
    """Too much waits on a channel."""


class SyncLimitExceeded(TransactionRejected):
    """Is not raised here: synchronisations have no limit. A program may name it in an `except`."""


class DeferredInterruptLimitExceeded(TransactionRejected):
    """Is not raised here: interruptions have no limit. A program may name it in an `except`."""


class WsApiError(NervesError, RuntimeError):
    """Is not raised here: there is no WebSocket. A program may name it in an `except`."""


class RunTimestampOrderError(TransactionRejected):
    """A plan was to run at a time that has passed."""


class RecordingFailedError(NervesError, RuntimeError):
    """A recording could not be written, or frames of it are lost."""


class UnsafeOperationError(NervesError):
    """The operation would lose data, bypass a check, or end what others use."""


class StimulationRefused(UserWarning):
    """The governor refused a stimulation, or it was not delivered; the text has the reasons."""
