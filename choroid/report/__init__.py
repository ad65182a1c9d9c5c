"""`choroid report`: report of a rig's period as printable HTML, text or JSON."""
