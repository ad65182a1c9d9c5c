"""S1: identities, signed requests and certificates of the grid; forged, replayed and misdated ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from grid.errors import GridError, GridRefused
from grid.identity.authority import Authority, expires_utc_s, identity_of, new_tls_key, signing_request
from grid.identity.keys import KEY_FILE, IdentityKey
from grid.identity.requests import Nonces, check_request, signed_request
from grid.wire import grid_pb2 as pb

NOW_S = 1_800_000_000.0


def a_request(key: IdentityKey, *, nonce: bytes = b"n" * 48, now_s: float = NOW_S) -> pb.EnrolRequest:
    return signed_request(key, "alpha", "member", signing_request(new_tls_key(), key.id), nonce, now_s)


def test_a_key_is_kept_and_private(tmp_path: Path) -> None:
    first = IdentityKey.in_folder(tmp_path)
    assert IdentityKey.in_folder(tmp_path).id == first.id
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(GridError, match="other users"):
        IdentityKey.in_folder(tmp_path)
    (tmp_path / KEY_FILE).write_text("rubbish")
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(GridError, match="damaged"):
        IdentityKey.in_folder(tmp_path)


def test_a_sound_request_passes() -> None:
    check_request(a_request(IdentityKey.generate()), NOW_S + 299)


@pytest.mark.parametrize("field", ["name", "kind", "public_key", "signing_request_pem", "nonce", "utc_s"])
def test_a_changed_field_spoils_the_signature(field: str) -> None:
    request = a_request(IdentityKey.generate())
    other = {"name": "beta", "kind": "lab", "utc_s": NOW_S + 1, "signing_request_pem": "x"}
    setattr(request, field, other.get(field, b"m" * 32))
    with pytest.raises(GridRefused, match="not signed"):
        check_request(request, NOW_S)


@pytest.mark.parametrize("off_s", [3600.0, -3600.0, float("nan"), float("inf")])
def test_a_clock_that_is_off_is_named(off_s: float) -> None:
    with pytest.raises(GridRefused, match=r"clocks differ.*timedatectl"):
        check_request(a_request(IdentityKey.generate(), now_s=NOW_S + off_s), NOW_S)


def test_a_nonce_is_valid_once_for_five_minutes_and_at_its_hub_only() -> None:
    used: set[bytes] = set()

    def use(nonce: bytes, until_s: float) -> bool:
        fresh = nonce not in used
        used.add(nonce)
        return fresh

    nonces = Nonces(b"s" * 32, use)
    nonce = nonces.new(NOW_S)
    with pytest.raises(GridRefused, match="not of this hub"):
        Nonces(b"t" * 32, use).spend(nonce, NOW_S)
    with pytest.raises(GridRefused, match="not of this hub"):
        nonces.spend(b"", NOW_S)
    with pytest.raises(GridRefused, match="older"):
        nonces.spend(nonce, NOW_S + 301)
    nonces.spend(nonce, NOW_S + 299)
    with pytest.raises(GridRefused, match="replay"):
        nonces.spend(nonce, NOW_S + 299)


def test_a_certificate_names_the_identity_and_lasts_a_day(tmp_path: Path) -> None:
    authority = Authority.in_folder(tmp_path, lambda: NOW_S)
    key = IdentityKey.generate()
    signed = authority.certificate_for(signing_request(new_tls_key(), "another identity"), key.id)
    assert identity_of(signed) == key.id
    assert expires_utc_s(signed) == NOW_S + 24 * 3600
    assert Authority.in_folder(tmp_path, lambda: NOW_S).fingerprint == authority.fingerprint
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
    x509.load_pem_x509_certificate(signed).verify_directly_issued_by(issuer)
    with pytest.raises(GridError, match="signing request"):
        authority.certificate_for(b"rubbish", key.id)
