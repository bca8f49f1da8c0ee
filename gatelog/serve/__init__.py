"""The aggregated API and the console, for people without a shell on our machine.

Theory. A fourth deployment, without state, that reads the read model and nothing else.
Authorisation belongs to the API server: its headers name the user (`access.frontproxy`), its
reviews say what the user may see (`access.reviewing`). Answers are Kubernetes objects and tables
(`api`).

    bootstrap            the composition root: certificates, database, server
    server, tls          the HTTPS server; its certificate, and trusted authorities
    api                  paths, verbs, kinds, discovery, tables, watches
    console              pages for people with a browser
    access               callers and their rights
    questions            questions to the database, off the event loop, few at a time
    feed, streamlimits   changes for watches; how many watches may be open at once
    trials               manifests tried, in a thread, one at a time
    spending             today's spending as a metric
    words                times, spans and amounts as text

Invariant: nothing here writes to the database or to the cluster, except the authority of our own
certificate into our own APIServices.
"""
