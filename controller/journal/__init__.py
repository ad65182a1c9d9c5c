"""The journal: durable, chained rows that say what was meant and what came of it; its reader and its repair."""
