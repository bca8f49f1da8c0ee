"""The shared kernel of gatelog: what a pod group is, what happened to it, what to do next.

Theory. Gatelog is an event-sourced process manager. Facts about pods, Workloads and queues
arrive from outside as *events* in one totally ordered log; `fold` turns them into state,
`decide` turns state into *decisions*, and the actuator turns decisions into writes to the API
server, whose *outcomes* come back as events. The API server is the truth about pods; the log is
the truth about decisions.

    model       what an API object is, as far as gatelog needs it; commands, names, tables of words
    log         what goes through the log: events, conclusions, and their bytes
    state       what is known of groups, queues and the log's position
    fold        FOLDS: event to world, one step of the reduction
    admission   quota: which waiting group may start (builtin mode)
    rules       state -> decisions, each with rule and reason
    engine      one message of the log -> notes and decisions

Everything here is plain computation: no I/O, no clock, no randomness. Time is the timestamp of
the message being folded; a timer that falls due is an event like any other. The import contracts
in pyproject.toml keep it so.

The invariant of it all: the same events in the same order give the same state and the same
decisions, wherever and whenever they are folded.
"""
