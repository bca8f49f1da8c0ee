"""Replay: fold the log again, elsewhere, and hold the result against what is there.

    log         what is replayed: messages in order, each with the decisions recorded at its place
    fetching    a long stretch of a stream, by a process of its own
    fold        a log into a world
    sink        the world's rows into a database
    new_model   a database made beside the one in force, and put in its place in one step
    new_in_postgres, new_in_sqlite    how either does that
    carry       what a new read model takes over, because the log does not tell it
    compare     two databases, table by table and row by row
    digests     of the rows of both say what of them need not be read
    vouching    which groups can be compared when the log starts late: those created since
    files, reading            a log in a file, whole or damaged
    selecting, pseudonyms     some of a log, and a log without names

Theory. The read model is a function of the two streams: facts and recorded decisions. So it can be
checked (`--verify`), had as it was at a past moment (`--at`), and today's rules can be asked what
they would have decided then (`--redecide`).

Invariant: replay never writes to the log, nor to the database in force but to put another in its
place.
"""
