"""Faults on purpose while a cluster is busy, seeded, and what must hold afterwards."""
