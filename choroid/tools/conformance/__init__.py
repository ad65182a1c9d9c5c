"""The conformance kit with the lab's benches: `choroid conformance`, or `pytest --pyargs choroid.tools.conformance`."""
