"""The actions of the verbs, one subject per module; each is found by its class (:mod:`controller.runs.action`)."""
