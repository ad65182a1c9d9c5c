"""The shapes of requests and answers; every quantity has its unit in its name or in a field `unit`."""
