"""Translation: from the bytes of an API object to a view, or to a refusal that says which field.

    fields      parts that many kinds share: metadata, conditions, tolerations, who wrote last
    podspec     what admission looks at in a pod spec or template
    pods, workloads, queues     the kinds
    items       watch lines and list pages; the boundary where a failure becomes a value

Everything here is pure. Only named fields are ever decoded, so what is not named cannot leak:
environment, commands, volumes and other people's annotations are skipped over as bytes.

Invariant: translating one object never raises and never depends on another object.
"""
