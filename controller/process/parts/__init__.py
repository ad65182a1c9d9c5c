"""The parts of a controller, one subject per module; each registers itself (:mod:`controller.process.part`)."""
