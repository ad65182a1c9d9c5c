"""What is remembered: history."""
