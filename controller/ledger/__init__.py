"""The ledger: where every microlitre is, with its uncertainty, and what it is made of."""
