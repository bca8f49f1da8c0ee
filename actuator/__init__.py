"""The actuator: carries decisions out at the API server, and tells the log what came of each.

    bootstrap   puts the parts together; `python -m actuator`
    loop        decisions in, outcomes out, in order for each object
    window, startlimiter, concurrency, fairqueue, urgency    how many at once, and whose first
    retrying, verdicts, replies    what an answer means, and what is tried again
    fence       what is never done, even on a signed command
    execute     one decision in, one verdict out, by kind of command:
    podwrites, patches, ungated                        pods
    workloadwrites, workloads, workload_status, workloadcache    Workloads
    queuewrites, kubeevents                            queues, Events
    outcomelog  outcomes on their way into the log
    heads, refusals    messages among the decisions that cannot be carried out
    kubeapi     the API server: a few verbs on a few kinds

Invariant: a decision is acknowledged after its outcome is in the log; repeating it does no harm.
"""
