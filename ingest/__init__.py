"""Ingest: what the API server says becomes events in the log, and nothing is lost on the way.

    translate   an API object, as bytes, becomes a view of `podgroup.model.objects` (pure)
    kinds       which kinds are watched, where they are served, how they are translated
    states      list and watch as an explicit state machine (pure)
    watcher     performs the one API call that a state asks for
    publisher   events of all kinds, in order of arrival, become messages of EVENTS
    resume      where to go on: what the log says was published last
    bootstrap   puts the parts together; `python -m ingest`
    webhook     the admission webhook, which has no part in any of the above

This deployment owns no state. What it published last says where it goes on, so any number of
crashes costs at most a repetition, which the fold recognises.

The invariant of it all: every change of a watched object is in the log, or the log says that
there was a gap and contains a complete relist after it.
"""
