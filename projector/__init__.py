"""The projector: folds the log into the SQL read model, decides, and sends decisions out.

    bootstrap   puts the parts together; `python -m projector`
    live        the loop that follows the log: fold, decide, commit, announce
    writing     from the changes of a batch to rows and statements of either database
    storage     connections, the state at a start, a batch as one transaction
    delivery    from recorded decisions to the stream DECISIONS, in order, at least once
    tables      the SQL contract
    schema      how tables are laid out, described and partitioned, and the views over them
    upkeep      migrations, the role of readers, pruning
    replay      the log folded again elsewhere: verify, a past moment, a new read model
    archive     messages that the streams will drop, kept as files
    measures    metrics
    times       times as the databases keep them

Invariant: rows, decisions and the position they follow from are committed together, or not at all.
"""
