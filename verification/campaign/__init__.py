"""Campaigns: many trials of the whole stack in virtual time with random faults (docs/campaign.md)."""
