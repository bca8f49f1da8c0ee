"""What people see without a shell on our machine: the aggregated API.

Theory. A fourth deployment, without state, that reads the read model and nothing else. Who may see
what is the API server's business: it says who asks (`access.frontproxy`), and is asked what they
may (`access.reviewing`). Answers are Kubernetes objects and tables (`api`).

    bootstrap            the composition root: certificates, database, server
    api                  paths, verbs, kinds, discovery, tables, watches
    access               who asks, and whether they may
    questions            questions to the database, off the event loop, few at a time

Invariant: nothing here writes to the database or to the cluster, except the authority of our own
certificate into our own APIServices.
"""
