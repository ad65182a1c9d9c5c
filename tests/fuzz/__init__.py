"""Fuzzing of every parser, led by coverage: `python -m tests.fuzz`; see docs/fuzzing.md."""
