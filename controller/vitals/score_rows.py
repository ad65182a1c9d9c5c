"""The kind of the journal's rows with the scores: `viability`, `care_rating`, `welfare`, `happiness` and others."""

from __future__ import annotations

ROW = "scores"
