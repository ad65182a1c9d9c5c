"""Errors of devices. Each one says what happened, where, the likely cause and the next action."""

from __future__ import annotations


class DeviceError(Exception):
    """Base class of device errors: what happened, where, likely cause, next action."""

    def __init__(self, what: str, *, where: str, cause: str, action: str) -> None:
        super().__init__(f"{where}: {what}. Likely cause: {cause}. Next: {action}.")
        self.what = what
        self.where = where
        self.cause = cause
        self.action = action


class LinkDown(DeviceError):
    """The line is not open."""


class NoReply(DeviceError):
    """The line is open, but the device did not answer in time."""


class BadReply(DeviceError):
    """The received bytes are not a valid answer to the request; no value was taken from them."""


class Refused(DeviceError):
    """The device rejected the command, or the driver rejected it for the device."""


class WouldCommand(DeviceError):
    """The request would command or set something on a read-only link; it was not sent."""


class WrongDevice(DeviceError):
    """Another model than the configured one answers at this address."""


class DeviceFault(DeviceError):
    """The device reports a fault of its own (motor overload, probe missing, low supply)."""
