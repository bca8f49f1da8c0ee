"""What `gatelog doctor` looks at, one module per thing that can be missing or ill.

    findings    a finding: what was looked at, how it is, what to do
    readmodel   database: reachable, schema, what is stuck
    stuck       writes that are repeated without effect, groups that stand still
    backlog     DECISIONS: how far the actuators are behind, what was dropped before
    eventlog    NATS: reachable, version, streams, how far the projector is behind
    archive     what the stream has dropped, or may drop, before it was archived
    cluster     Kubernetes: reachable, version, permissions, kinds, what gates pods

Invariant: examining changes nothing, anywhere, and never raises: what fails is a finding.
"""
