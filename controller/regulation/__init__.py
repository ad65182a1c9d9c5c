"""Regulators: temperature, dissolved oxygen, pH."""
