"""The parts of a group, each written by the module here that bears its name.

Theory. Whatever happens to a group goes to the modules of its parts (`mirror.seen`,
`quota.held`), which change their part and nothing else; their caller sees to indexes, journal and
quota. So one file has all places where a field gets its values.

Invariant: no other module writes a part, or replaces it (tests/core/test_parts.py).
"""
