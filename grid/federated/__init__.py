"""Federated training for data that stay: the programs that run in Flower's environment (`choroid grid prepare federated`)."""
