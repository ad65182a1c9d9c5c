"""What can go wrong with a device. Every one says what happened, where, the likely cause and the next action."""

from __future__ import annotations


class DeviceError(Exception):
    """Something went wrong with a device: what happened, where, the likely cause and the next action."""

    def __init__(self, what: str, *, where: str, cause: str, action: str) -> None:
        super().__init__(f"{where}: {what}. Likely cause: {cause}. Next: {action}.")
        self.what = what
        self.where = where
        self.cause = cause
        self.action = action


class LinkDown(DeviceError):
    """The line itself is not open."""


class NoReply(DeviceError):
    """The line is open; the device did not answer in time."""


class BadReply(DeviceError):
    """Bytes came that are not a valid answer to what was asked; nothing was taken from them."""


class Refused(DeviceError):
    """The device answered that it will not do this."""


class WouldCommand(DeviceError):
    """What was to be sent would command or set something, on a link that only asks; it was not sent."""


class WrongDevice(DeviceError):
    """Something else than the configured model answers on this address."""


class DeviceFault(DeviceError):
    """The device reports a fault of its own (motor overload, probe missing, low supply)."""
