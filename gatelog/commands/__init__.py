"""One module per command: its help, its options, and a call into the module that does the work.

Invariant: importing a command imports no extra (nats, kubernetes, sqlalchemy, ...).
"""
