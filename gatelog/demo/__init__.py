"""The demonstration: a simulated cluster, its users, and reports from the read model.

    cluster   the simulated cluster, and users acting on it through HTTP
    stories   actions of the users, and their required results
    play      the whole run: cluster, `gatelog up`, stories, report
    report    the summary at the end, from SQL

Invariant: gatelog runs here exactly as `gatelog up` runs it; only the cluster is a stand-in.
"""
