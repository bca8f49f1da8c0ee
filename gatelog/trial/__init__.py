"""Trials: would pods that are not made yet start, by the webhook and admission of this moment?

    answers    the answer, as values
    manifests  YAML or JSON -> the pods that its objects would make
    defaults   the API server's defaults that count for roles
    door       those pods as the admission webhook and the log's translation take or refuse them
    state      the present world, from the read model
    deciding   a message with the pods, folded and decided on; the decisions
    changes    changes with which a waiting group would start: fewer pods, another queue or flavor
    trying     all of it
    starting   the expected start of a waiting group
    telling    the answer in lines
    commandline  a manifest read, an answer printed

Theory. This package decides nothing. The door is `ingest.webhook`, admission is the engine on a
world of its own, and the expected start is a forecast of that world. So an answer is as right as
the read model is current, and a changed rule needs no change here.

Invariant: nothing is written to read model, log or cluster.
"""
