"""The archive: files of messages that the streams will drop, read with the streams as one log.

    segments       names of files, their order, and the gaps between them
    archive_store  where files are: a directory, or a bucket of an object store
    writing        from the streams to segments
    reading        segments and stream as one log
    parquet        the tables of the read model by day, for queries
    standing       the position of the read model: what may be archived, and what must be kept
    periodic       runs at intervals, and how far the archive is behind

Theory. A segment is an export (docs/replay.md) of everything between two positions of one epoch,
closed when it gets its name and never changed. Names have cluster, epoch and positions, so a
listing alone shows all segments, their order, and where to go on: there is no other state, and a
process that is killed leaves nothing behind that matters. Two archivers at once write the same
segments twice.

Invariant: a segment holds every message of its cluster from its first to its last position, with
the decisions made there, or it is not written.
"""
