"""What people run: the command `gatelog`, the parts in one process, the API and the console.

    cli         the table of commands, each imported when it is called
    commands    one module a command
    shell, terminal    the shared parts of commands; the look of answers
    allinone    `gatelog up`: all parts in one process
    demo        a simulated cluster, in a minute
    readmodel   the queries on the SQL read model
    serve       the aggregated API and the console
    viacluster  `kubectl gatelog`
    trial       a manifest tried: whether its pods would start
    forecast, whatif    when groups start; the log played with other settings or objects
    replay, bundle      the log elsewhere; the archive for outside support
    doctor, examine     checks of all parts
    cluster, removal    the objects of an installation on a cluster; their removal
    agenda      events in simulated time, for what-if and forecasts

Invariant: this package decides nothing; decisions and their reasons are read from the log or the
read model.
"""
