"""The archive: what the streams will drop one day, kept as files, and read with them as one log.

    segments       names of files, their order, and what is missing between them
    archive_store  where files are: a directory, or a bucket of an object store
    writing        from the streams to segments
    reading        segments and stream as one log
    parquet        the tables of the read model by day, for those who ask
    periodic       the same again and again, and how far behind it is

Theory. A segment is an export (docs/replay.md) of everything between two positions of one epoch,
closed when it gets its name and never changed. Names carry cluster, epoch and positions, so
a listing alone tells what there is, in order, and where to go on: there is no other state, and
a process that is killed leaves nothing behind that matters. Two archivers at once write the same
twice.

Invariant: a segment holds every message of its cluster from its first to its last position, with
the decisions made there, or it is not written.
"""
