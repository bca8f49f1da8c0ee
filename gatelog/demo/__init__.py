"""The demonstration: a simulated cluster, users who do things, and what the read model tells.

    cluster   the simulated cluster, and users acting on it through HTTP
    stories   what the users do, and what must come of it
    play      the whole run: cluster, `gatelog up`, stories, report
    report    what is printed at the end, from SQL

Invariant: gatelog runs here exactly as `gatelog up` runs it; only the cluster is a stand-in.
"""
