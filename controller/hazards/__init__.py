"""The hazard table: for each hazard of a rig a sensor at its place and an interlock that acts in time (I8)."""

from controller.hazards.loading import load_checked_rig
from controller.hazards.table import gaps_of, hazards_of
from controller.hazards.terms import Hazard, Verdict

__all__ = ["Hazard", "Verdict", "gaps_of", "hazards_of", "load_checked_rig"]
