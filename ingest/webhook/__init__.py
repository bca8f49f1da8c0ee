"""The admission webhook: gates pods that name a queue and refuses pods it could not queue.

A scheduling gate can only be set while a pod is created, so a queue of plain pods
has to intercept their creation. This package does that and nothing more: it decides
from the pod, the settings and a handful of facts looked up beforehand, and it answers.

    request bytes -> review -> pod -> facts (the only I/O) -> mutate / validate -> response

`mutate` and `validate` are pure; `facts` asks the API server through the `owners.Lookup` protocol;
`server` speaks HTTPS and AdmissionReview v1; `install` has the objects by which a cluster finds and
trusts the webhook.

Invariant: an answer is either a decision about this pod or a clear error; the webhook keeps no
state about pods, and a repeated request gets the same answer (dry runs and reinvocation are safe).
"""
