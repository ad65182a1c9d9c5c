"""The durable runner: journal, steps, ledger."""
