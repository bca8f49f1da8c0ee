"""Parity with Kueue: rows, tests for them, and the page that says which covers which."""
