"""Measurements of a member. Each answer depends on the hub's nonce, is timed by the hub and verified by sampling."""
