"""Errors with the names of the CL API."""

from __future__ import annotations

from choroid.client.errors import NervesError


class ControlRequestError(NervesError):
    """The electrodes cannot be leased: another agent has them, or stimulation is not permitted."""


class ControlRequiredError(NervesError):
    """Only a program that has taken control may do this."""


class TransactionRejected(NervesError):
    """A stimulation was not queued."""


class ChannelQueueFull(TransactionRejected):
    """Too much waits on a channel."""


class RunTimestampOrderError(TransactionRejected):
    """A plan was to run at a time that has passed."""


class RecordingFailedError(NervesError):
    """A recording could not be written, or frames of it are lost."""


class UnsafeOperationError(NervesError):
    """The operation would lose data or bypass a check."""


class StimulationRefused(UserWarning):
    """The governor refused a stimulation, or it was not delivered; the text has the reasons."""
