"""`gatelog replay`: its actions, files, terminal and texts.

    online       the actions on a log: verify, decide again, go back in time, steps
    offline      the same on files: an export, a segment, an archive
    steps        a group step by step: events, changes, decisions and their reasons
    causes       the causes of an admission, for its step
    differing    decisions that differ, in lines
    rebuilding   a new read model beside the one in force, then in its place
    exporting    from the log to a file
    archiving    new segments written, and read with the stream
    parking      parked events, and what a person decides about them

Theory. `projector.replay` folds; here is what a person gives it and reads of it.
"""
