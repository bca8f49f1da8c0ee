"""The checks of `gatelog doctor`, one module per thing that can be missing or broken.

    findings    a finding: object, verdict, what to do
    readmodel   database: reachable, schema, stuck groups
    stuck       writes that are repeated without effect, groups without progress
    backlog     DECISIONS: how far the actuators are behind, dropped messages
    eventlog    NATS: reachable, version, streams, how far the projector is behind
    archive     messages that the stream has dropped, or may drop, before they were archived
    cluster     Kubernetes: reachable, version, permissions, kinds
    gating      the webhook: registered, answering, what a pod gets
    unlabelled  pods with gatelog's gate or finalizer, without its label
    topology    pods that ask for a topology, and whether they wait for it
    nodes       nodes that are not ready, and wrong clocks
    leases      the leaders of ingest and projector, and whether they work
    measuring   the metrics API
    installed   an installation seen through the API server alone

Invariant: a check only reads and never raises: a failure is a finding.
"""
