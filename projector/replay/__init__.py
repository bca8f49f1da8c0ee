"""Replay: fold the log again, elsewhere, and compare the result with the read model.

    log         messages in order, each with the decisions recorded at its place
    fetching    a long stretch of a stream, by a process of its own
    fold        a log into a world
    sink        the world's rows into a database
    new_model   a database made beside the one in force, and put in its place in one step
    new_in_postgres, new_in_sqlite    how either does that
    carry       rows that a new read model takes over, because the log lacks them
    compare     two databases, table by table and row by row
    digests     of the rows of both show which rows need not be read
    vouching    which groups can be compared when the log starts late: those created since
    files, reading            a log in a file, whole or damaged
    selecting, pseudonyms     some of a log, and a log without names

Theory. The read model is a function of the two streams: facts and recorded decisions. So it can be
checked (`--verify`), rebuilt for a past moment (`--at`), and today's rules can show what they would
have decided then (`--redecide`).

Invariant: replay never writes to the log, and to the database in force only to put another in its
place.
"""
