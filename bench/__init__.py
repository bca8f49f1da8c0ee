"""Benchmarks: how fast gatelog is here, each figure beside the limit it is held against.

Theory. A figure means little by itself, so each is measured in the same run as a bound on it: the
same bytes merely read, the same writes made by a bare client.

Invariant: measures only; gatelog has no code for it.
"""
