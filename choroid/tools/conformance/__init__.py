"""The conformance kit with the lab's benches: `choroid driver test`, or `pytest --pyargs choroid.tools.conformance`."""
