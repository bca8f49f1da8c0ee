"""The parts of a group, each written by the one module here that bears its name.

Theory. What happens to a group goes to the modules of its parts (`mirror.seen`,
`quota.held`), which change their part and nothing else; what follows from it for indexes, the
journal and quota is for their caller. So where a field gets its values is found in one file.

Invariant: no other module writes a part, or puts another in its place (tests/core/test_parts.py).
"""
