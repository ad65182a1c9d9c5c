"""What several commands share: errors for people, child processes, signals."""
