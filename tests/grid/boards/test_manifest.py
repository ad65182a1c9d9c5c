"""X6: a model enters a board by a manifest that its author has signed; anything changed is noticed."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from grid.boards.manifest import ManifestError, read_manifest, sign_manifest, verify

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
MODEL = b"not really ONNX"


def plain() -> dict[str, Any]:
    return sign_manifest(KEY, MODEL, board="toy@2", name="first", nonce=b"n" * 32).to_json()


def check(given: object, model: bytes = MODEL, board: str = "toy@2", max_bytes: int = 100) -> None:
    verify(read_manifest(given), model, board=board, max_bytes=max_bytes)


def test_X6_a_signed_manifest_is_accepted() -> None:
    check(plain())


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("board", "toy@3", "for toy@3"),
        ("name", "second", "signature is not the author's"),
        ("name", "../../etc", "form"),
        ("name", "x" * 65, "longer than 64"),
        ("nonce", "00" * 32, "signature is not the author's"),
        ("nonce", "", "form"),
        ("model_sha256", "00" * 32, "not the one of the manifest"),
        ("model_bytes", 14, "not the one of the manifest"),
        ("model_bytes", True, "malformed"),
        ("author", "11" * 32, "signature is not the author's"),
        ("author", "zz" * 32, "form"),
        ("signature", "00" * 64, "signature is not the author's"),
        ("format", "choroid-model/9", "not of format"),
        ("extra", 1, "extra is unknown"),
    ],
)
def test_X6_a_changed_field_is_refused(field: str, value: object, says: str) -> None:
    with pytest.raises(ManifestError, match=says):
        check(plain() | {field: value})


def test_X6_a_missing_field_another_model_and_a_large_one_are_refused() -> None:
    given = plain()
    del given["nonce"]
    with pytest.raises(ManifestError, match="nonce is missing"):
        check(given)
    with pytest.raises(ManifestError, match="not the one of the manifest"):
        check(plain(), model=MODEL[::-1])
    with pytest.raises(ManifestError, match="at most 5"):
        check(plain(), max_bytes=5)
    rubbishes: tuple[object, ...] = (None, [], "x", 3)
    for rubbish in rubbishes:
        with pytest.raises(ManifestError, match="not a JSON object"):
            check(rubbish)


def test_X6_each_submission_has_its_own_identity() -> None:
    one = sign_manifest(KEY, MODEL, board="toy@2", name="first", nonce=b"a" * 32)
    other = sign_manifest(KEY, MODEL, board="toy@2", name="first", nonce=b"b" * 32)
    assert one.id != other.id
