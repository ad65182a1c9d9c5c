"""Signed verdicts of graders, and whether two of them agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from grid.grading.grading import ModelGrade

CONTEXT = b"choroid grading verdict v1\n"


@dataclass(frozen=True, slots=True)
class GraderVerdict:
    """What one grader found: a grade, or the reason of a refusal. `grader` is its public key (hex)."""

    submission: str
    rotation: int
    grader: str
    platform: str
    grade: ModelGrade | None
    refused: str
    signature: str = ""

    @property
    def signed(self) -> bytes:
        """Return the bytes that the signature covers."""
        plain = self.to_json()
        del plain["signature"]
        return CONTEXT + json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "submission": self.submission,
            "rotation": self.rotation,
            "grader": self.grader,
            "platform": self.platform,
            "grade": None if self.grade is None else self.grade.to_json(),
            "refused": self.refused,
            "signature": self.signature,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> GraderVerdict:
        """Return the verdict in plain data."""
        grade = None if plain["grade"] is None else ModelGrade.from_json(plain["grade"])
        return cls(**(dict(plain) | {"grade": grade}))


def sign_verdict(
    key: Ed25519PrivateKey,
    *,
    submission: str,
    rotation: int,
    platform: str,
    grade: ModelGrade | None = None,
    refused: str = "",
) -> GraderVerdict:
    """Return a verdict signed by its grader."""
    grader = key.public_key().public_bytes_raw().hex()
    bare = GraderVerdict(submission, rotation, grader, platform, grade, refused)
    return GraderVerdict(submission, rotation, grader, platform, grade, refused, key.sign(bare.signed).hex())


def is_genuine(verdict: GraderVerdict) -> bool:
    """Whether the signature is that of the grader it names."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(verdict.grader))
        key.verify(bytes.fromhex(verdict.signature), verdict.signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def disagreement(one: GraderVerdict, other: GraderVerdict) -> str:
    """Return why two verdicts on a submission are not equal, or an empty text if they are."""
    if one.grader == other.grader:
        return "both verdicts are of the same grader"
    if (one.submission, one.rotation) != (other.submission, other.rotation):
        return "the verdicts are on different submissions or rotations"
    if one.grade is None or other.grade is None:
        return _refusals(one, other)
    if one.grade.digest == other.grade.digest:
        return ""
    platforms = "" if one.platform == other.platform else f"; graders run {one.platform} and {other.platform}"
    return f"{_difference(one.grade, other.grade)}{platforms}"


def _refusals(one: GraderVerdict, other: GraderVerdict) -> str:
    if one.grade is None and other.grade is None:
        return ""
    refusing = one if one.grade is None else other
    return f"one grader refused the model ({refusing.refused}), the other graded it"


def _difference(one: ModelGrade, other: ModelGrade) -> str:
    pairs = [("score", one.scores, other.scores)]
    names = sorted(set(one.controls) | set(other.controls))
    pairs += [(f"control {name}", one.controls.get(name, ()), other.controls.get(name, ())) for name in names]
    for what, ones, others in pairs:
        if len(ones) != len(others):
            return f"{what}: {len(ones)} and {len(others)} episodes"
        for episode, (a, b) in enumerate(zip(ones, others, strict=True)):
            if a != b:
                return f"{what} of episode {episode}: {a!r} and {b!r}"
    return "the outputs of the model differ, with equal scores"
