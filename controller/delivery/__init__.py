"""Delivery of alarms to people: escalation, messages, channels, the daily test and the heartbeat to an external monitor."""
