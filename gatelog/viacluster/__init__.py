"""`kubectl gatelog`: the questions of the command line, asked through the API server.

Theory. Users with kubectl and a namespace have no access to database and log; they have the
aggregated API (`gatelog.serve`) and their own rights. The plugin asks this API with the current
kubeconfig, and answers in kubectl's manner: its flags, its tables, its exit codes.

    app         the commands and their flags
    apiserver   its address, our login, its answers
    answers     the printed output

Invariant: this package opens no database and no log, and writes nothing to the cluster.
"""
