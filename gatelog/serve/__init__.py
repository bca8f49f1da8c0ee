"""The aggregated API and the console, for people without a shell on our machine.

Theory. A fourth deployment, without state, that reads the read model and nothing else.
Authorisation belongs to the API server: its headers name the user (`access.frontproxy`), its
reviews say what the user may see (`access.reviewing`). Answers are Kubernetes objects and tables
(`api`).

    bootstrap            the composition root: certificates, database, server
    api                  paths, verbs, kinds, discovery, tables, watches
    access               callers and their rights
    questions            questions to the database, off the event loop, few at a time

Invariant: nothing here writes to the database or to the cluster, except the authority of our own
certificate into our own APIServices.
"""
