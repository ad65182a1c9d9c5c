"""Time stamps of an authority (RFC 3161): a checkpoint existed at a time that the rig's clock does not tell."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from choroid.common.failure import UserError

ANSWER_S = 30.0
MAX_ANSWER = 65_536


@dataclass(frozen=True, slots=True)
class TimeAuthority:
    """An authority of time stamps: the certificates that are trusted (PEM), and its URL where it is asked."""

    certificates: Path
    url: str = ""

    def stamp(self, note: str) -> bytes:
        """Return the authority's answer (DER) for a note, which is verified.

        Raises:
            UserError: It does not answer, or its answer is not valid.
        """
        self._trusted()
        request = TimestampRequestBuilder(data=note.encode(), hash_algorithm=HashAlgorithm.SHA256).build()
        headers = {"Content-Type": "application/timestamp-query"}
        asked = urllib.request.Request(self.url, request.as_bytes(), headers)  # noqa: S310 - checked below
        try:
            if asked.type not in ("http", "https"):
                raise ValueError("it is no address of http or https")
            with urllib.request.urlopen(asked, timeout=ANSWER_S) as reply:  # noqa: S310
                answer: bytes = reply.read(MAX_ANSWER)
        except (OSError, ValueError) as error:
            raise UserError(
                f"the time-stamping authority at {self.url} does not answer ({error}). Likely cause: the network is down, or"
                " the address is wrong. Next: check `audit: {time_stamps: …}` of the rig file"
            ) from None
        self.time_of(answer, note, nonce=request.nonce)
        return answer

    def time_of(self, answer: bytes, note: str, *, nonce: int | None = None) -> datetime:
        """Return when the authority saw a note (UTC).

        Raises:
            UserError: The answer is not valid for the note and the trusted certificates.
        """
        try:
            response = decode_timestamp_response(answer)
            VerifierBuilder(roots=list(self._trusted()), nonce=nonce).build().verify_message(response, note.encode())
            return response.tst_info.gen_time
        except (ValueError, VerificationError) as error:
            raise UserError(
                f"a time stamp is not valid ({error}). Likely cause: it is of another authority than that of"
                f" {self.certificates}, or of another checkpoint. Next: compare the certificates"
            ) from None

    def _trusted(self) -> Sequence[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(self.certificates.read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(
                f"the certificates {self.certificates} of the time-stamping authority cannot be read ({error}). Next: name"
                " a PEM file"
            ) from None
