"""What the detector learns of pulses that the card has delivered."""

from __future__ import annotations

from collections.abc import Sequence

from nerves.cards.contract import Delivery, Pulse
from nerves.detections import StimulatedFrame


def stimulated_frames(deliveries: Sequence[Delivery]) -> list[StimulatedFrame]:
    """Return the pulses that began, those of one frame together."""
    together: dict[int, list[Pulse]] = {}
    for delivery in deliveries:
        if delivery.frame is not None:
            together.setdefault(delivery.frame, []).append(delivery.pulse)
    return [
        StimulatedFrame(
            frame,
            tuple((pulse.electrode, sum(phase.duration_us for phase in pulse.phases) * 1e-6) for pulse in pulses),
            tuple((pulse.electrode, pulse.phases) for pulse in sorted(pulses, key=lambda each: each.electrode)),
        )
        for frame, pulses in together.items()
    ]
