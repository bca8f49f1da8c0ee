"""Translation: from the bytes of an API object to a view, or to a refusal that says which field.

    fields      parts that many kinds share: metadata, conditions, tolerations, the last writer
    podspec     the fields of a pod spec or template that admission reads
    pods, workloads, queues     the kinds
    items       watch lines and list pages; here a failure becomes a value

Everything here is pure. Only named fields are ever decoded, so other fields cannot leak:
environment, commands, volumes and foreign annotations are skipped as bytes.

Invariant: translating one object never raises and never depends on another object.
"""
