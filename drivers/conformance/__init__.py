"""The properties that every driver must have, tried on any driver that comes with a bench.

A bench defines how the driver is built and what is at the far end of its line (:mod:`drivers.conformance.bench`);
the properties are in :data:`drivers.conformance.properties.PROPERTIES`. Nothing here needs pytest or the simulated
lab: `choroid driver test` and `pytest --pyargs choroid.tools.conformance` bring the lab's benches and a
virtual-time loop.
"""
