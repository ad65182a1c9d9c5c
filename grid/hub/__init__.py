"""The hub: enrolment, admission, leases, log, relay. One asyncio process; its state is in SQLite."""
