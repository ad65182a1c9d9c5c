"""The processes of a real rig: controller, guard, electrode engine, and the folder they keep."""
