"""Ingest: the API server's objects become events in the log, without loss.

    translate   an API object, as bytes, becomes a view of `podgroup.model.objects` (pure)
    kinds       which kinds are watched, where they are served, how they are translated
    states      list and watch as an explicit state machine (pure)
    watcher     performs the API call that a state asks for
    publisher   events of all kinds, in order of arrival, become messages of EVENTS
    resume      where to go on: the last message that the log has
    bootstrap   puts the parts together; `python -m ingest`
    webhook     the admission webhook, independent of all of the above

This deployment owns no state. Its last published message says where it goes on, so any number of
crashes costs at most a repetition, which the fold recognises.

Invariant: every change of a watched object is in the log, or the log says that there was a gap and
contains a complete relist after it.
"""
