"""The actuator: carries decisions out at the API server, and puts their outcomes into the log.

    bootstrap   puts the parts together; `python -m actuator`
    loop        decisions in, outcomes out, in order for each object
    window, startlimiter, concurrency, fairqueue, urgency    how many at once, and in which order
    retrying, verdicts, replies    what an answer means, and which write is repeated
    fence       what a command may not do, even signed
    execute     a decision in, a verdict out, by kind of command:
    podwrites, patches, ungated                        pods
    workloadwrites, workloads, workload_status, workloadcache    Workloads
    queuewrites, kubeevents                            queues, Events
    outcomelog  outcomes on their way into the log
    heads, refusals    messages among the decisions that cannot be carried out
    kubeapi     the API server: a few verbs on a few kinds

Invariant: a decision is acknowledged after its outcome is in the log; repeating it does no harm.
"""
