"""Alarms reach people: escalation, messages, channels, the daily test and the heartbeat for an external monitor."""
