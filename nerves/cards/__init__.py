"""Electrode cards: the contract between the engine and amplifier and stimulator hardware, and the cards that fulfil it."""
