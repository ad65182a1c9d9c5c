"""Verification of Choroid itself: campaigns, kills, benchmarks, score of the conformance kit, sensitivity, comparison."""
