"""What people run: the command `gatelog`, the parts in one process, the API and the console.

    cli         the table of commands, each imported when it is called
    commands    one module a command
    shell, terminal    what every command needs; how answers look
    allinone    `gatelog up`: all parts in one process
    demo        a simulated cluster, in a minute
    readmodel   what people ask of the SQL read model
    serve       the aggregated API and the console
    viacluster  `kubectl gatelog`
    forecast, whatif    when groups start; the log played with something else
    replay, bundle      the log elsewhere; what goes to outside support
    doctor, examine     is everything well?
    cluster, removal    what is set up on a cluster, and taken off
    agenda      tasks that are done again and again beside a part

Invariant: nothing here decides; what is decided, and why, is read from the log or the read model.
"""
