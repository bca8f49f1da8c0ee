"""Would it start: pods that are not made yet, put before the door and admission of this moment.

    answers    what is said of them, as values
    manifests  YAML or JSON -> the pods that its objects would make
    defaults   what the API server fills in of a pod that tells roles apart
    door       those pods as the admission webhook and the log's translation take or refuse them
    state      the world of now, from the read model
    deciding   one message with the pods, folded and decided on; what was decided of them
    changes    what would make a group start that waits: fewer pods, another queue, another flavor
    trying     all of it
    starting   when a group starts that waits
    telling    the answer in lines
    commandline  a manifest read, an answer printed

Theory. Nothing here decides. The door is `ingest.webhook`, admission is the engine on a world of
its own, and when it starts is a forecast of that world. So an answer is right as far as the moment
is known, and a rule that changes needs no change here.

Invariant: nothing is written: neither to the read model, nor to the log, nor to the cluster.
"""
