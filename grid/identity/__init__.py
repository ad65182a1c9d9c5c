"""Who is who in the grid: Ed25519 keys, requests signed with them, certificates of 24 h, revocation."""
