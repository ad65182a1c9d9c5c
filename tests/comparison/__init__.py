"""Tests of `choroid comparison`."""
