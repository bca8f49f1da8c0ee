"""A cluster in which everything goes at its own pace and anything may fail, one step at a time.

Theory. `Toy` carries every change through at once; here each hand-over is a step of its own:

    API server --wire--> ingest --log--> projector --outbox--> actuator --outcomes--> log

What changed waits on the wire of its kind until `see`, `relist` loses a wire and lists instead,
`again` delivers what was delivered before, `fold` folds and commits as the projector does, `crash`
folds, loses that and starts from what was committed, `act` carries a decision out (or is refused,
or loses the answer), `hear` brings an outcome. Users, kubelet and admins act on the API server.

Every step is a word and small integers, so that a program is a list which can be kept as a file;
integers choose by remainder, so any program can be played. What is committed are the rows that the
journal names, as in a database: a change that the journal forgets is lost by the next crash.

Invariant: `checked` holds after every fold; `rest` lets everything come to rest and holds it
against the API server's view of pods and Workloads.
"""

from tests.support.rough.playing import Rough

__all__ = ["Rough"]
