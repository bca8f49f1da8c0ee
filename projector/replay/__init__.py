"""Replay: fold the log again, elsewhere, and hold the result against what is there.

    log       what is replayed: messages in order, each with the decisions recorded at its place
    fold      a log into a world, and the world's rows into a database of one's own
    compare   two databases, table by table and row by row
    digests   of the rows of both say what of them need not be read
    files, reading            a log in a file, whole or damaged
    selecting, pseudonyms     some of a log, and a log without names

Theory. The read model is a function of the two streams: facts and recorded decisions. So it can be
checked (`--verify`), had as it was at a past moment (`--at`), and today's rules can be asked what
they would have decided then (`--redecide`).

Invariant: replay never writes to the live database nor to the log.
"""
