"""What every driver must do, whoever wrote it: one set of properties, tried on any driver that brings a bench.

A bench says how the driver is built and what stands at the far end of its line (:mod:`drivers.conformance.bench`); the
properties are in :data:`drivers.conformance.properties.PROPERTIES`. Nothing here needs pytest or the lab in software:
`choroid conformance` and `pytest --pyargs choroid.tools.conformance` bring the lab's benches and a loop in virtual time.
"""
