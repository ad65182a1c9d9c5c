"""The witnessed log: hash-chained rows, Merkle tree (RFC 6962), signed checkpoints and tiles in the forms of C2SP."""
