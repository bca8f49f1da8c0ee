"""The aggregated API: Kubernetes objects and tables made from the read model.

    handling     a request from its path to its answer
    kinds        our kinds as data: names, columns, how they are found
    objects      the types of the objects; `openapi` draws the documents from them
    finding, finding_queues, finding_usage    from rows of the read model to objects
    visibility   pendingworkloads, as Kueue serves them
    discovery, openapi          groups, versions and kinds; documents for `kubectl explain`
    params, selectors, bodies   what a request has: parameters, selectors, a manifest to try
    table, status               tables for kubectl; refusals

Invariant: no request changes anything; a trial is decided on in a copy.
"""
