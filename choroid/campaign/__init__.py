"""Campaigns: the whole stack, thousands of times in virtual time, with faults drawn at random (docs/campaign.md)."""
