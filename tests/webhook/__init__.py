"""Tests of the admission webhook and of the admission policies."""
