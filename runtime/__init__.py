"""The shell that the three deployments share: sockets, files, signals, clocks.

    settings      values from a TOML file and the environment, read once
    log           structured log lines on stderr
    service       signals, graceful stop, exit codes, health endpoint
    backoff       how long to wait before trying again
    disposition   what a loop does with a message: Ack, Retry, Park
    jetstream     the event log (the only importer of nats)
    embedded      a nats-server child process, for one machine
    kube          the API server on bytes (authentication through kubernetes_asyncio)

Invariant: this package moves bytes. It knows subjects and streams, but no rule of pod groups, and
nothing of the core beside its model and the bytes of its log.
"""
