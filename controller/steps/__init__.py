"""Journalled steps: how a step begins, ends and waits, and how it resumes after a crash."""
