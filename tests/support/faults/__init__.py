"""What is done to servers, processes and files, and undone: the one stock of faults.

    processes   a full disk, a process that is stopped
    proxy       connections that are cut, held or refused
    answers     an API server that answers with errors (the stand-in's)
    policies    an admission policy of others that refuses a write
    postgres    a PostgreSQL to kill, fill, and ask for passwords
    files       a locked SQLite file, bits that flip in the log
    clock       gatelog on a machine whose clock is set

What they are done to is made by `tests.support.parts` (ingest, projector and actuator, one or two
of each) or `tests.support.stack` (`gatelog up`). `tests/chaos` holds what must be true under load
against them, `tests/standstill` who must say so, `tests/e2e` one story each, `tests/attacks` what a
person can do.

Invariant: what is done within a `with` is undone at its end, and nothing else is repaired.
"""
