"""Benchmarks: how fast gatelog is here, each figure beside the limit it is held against.

Theory. A figure says little by itself, so each is measured in the same run as something that bounds
it from below: the same bytes merely read, the same writes made by one client and nothing else.

Invariant: measures only; nothing in gatelog knows that it is measured.
"""
