"""The certificate of the page, read again and again, so that a renewed one needs no restart.

A certificate that cannot be used keeps browsers out, and nothing else: commands on this machine go on through the local
socket.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from controller.process.edges import Pauses, Up
from nerves.summary import life_s

READ_EVERY_S = 3600.0
SOON = timedelta(days=7)
"""Time before its end at which a certificate is an alarm."""
PAUSES = Pauses(first_s=10.0, longest_s=600.0)
"""Pauses before files that cannot be used, or a certificate that ends, are read again."""
ALARM = ("certificate_failed", "page")
ACTION = (
    "Next: name a PEM certificate with its chain, and its key in plain, both readable by the user of the controller; they are"
    " read again by themselves"
)


class Certificate:
    """The files of a certificate and its key, and the TLS settings for new connections made of them."""

    def __init__(self, file: Path, key: Path) -> None:
        self._file = file
        self._key = key
        self.context: ssl.SSLContext | None = None
        """None until the files could be used once."""

    async def keep(self, up: Up, utc: Callable[[], datetime]) -> None:
        """Read the files every hour; the settings before stay in use while new ones cannot be.

        Raises:
            OSError: the files cannot be used, or the certificate has ended or ends soon; it is in use all the same.
        """
        while True:
            # A new context: one that is in use would keep the certificate before, or lose its key.
            self.context, begin, end = await asyncio.to_thread(self._read)
            if not begin <= (now := utc()) < end - SOON:
                when = f"is valid from {begin:%Y-%m-%d}" if now < begin else f"ends on {end:%Y-%m-%d %H:%M} UTC"
                raise OSError(
                    f"{self._file} {when}; browsers refuse the page outside that time. Likely cause: it was not renewed, or"
                    f" the clock of this machine is wrong. {ACTION}"
                )
            up()
            await asyncio.sleep(life_s(READ_EVERY_S))

    def _read(self) -> tuple[ssl.SSLContext, datetime, datetime]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self._file, self._key, password=lambda: "")  # or a terminal would be asked
            first = x509.load_pem_x509_certificates(self._file.read_bytes())[0]
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise OSError(
                f"the page has no new TLS: {self._file} and {self._key} cannot be used ({why}). Likely cause: a file is"
                f" missing or belongs to another user, the key does not fit the certificate, or it is encrypted. {ACTION}"
            ) from None
        return context, first.not_valid_before_utc, first.not_valid_after_utc
