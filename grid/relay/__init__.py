"""Bytes between two ends that both only dial out: TLS 1.3 from end to end through the hub, which cannot read them."""
