"""The journal: durable, hash-chained rows of intents and outcomes; its reader and its repair."""
