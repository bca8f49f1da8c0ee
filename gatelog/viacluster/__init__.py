"""`kubectl gatelog`: the questions of the command line, asked through the API server.

Theory. People with kubectl and a namespace have neither the database nor the log; they have the
aggregated API (`gatelog.serve`) and their own rights. This asks it with the current kubeconfig, and
answers in kubectl's manner: its flags, its tables, its exit codes.

    app         the commands and their flags
    apiserver   where, as whom, and what it said
    answers     what is printed

Invariant: nothing here opens a database, a log, or writes to the cluster.
"""
