"""All that the scheduler remembers between two passes, and every event that changes it.

Theory. `SchedulerCache` is given what happens; each of its parts owns what it remembers:

- `objects`: flavors, topologies, nodes, cohorts, namespaces, queues, and the trees of quota;
- `reservations`: admitted workloads, what they hold, and what LocalQueues have used;
- `queues`: pending workloads, in line by ClusterQueue (`pending_queue`);
- `claims`: what is kept for some of these until others have stopped;
- `starts`: who of them has waited too long, and by when it is to start;
- `wake_ups`: where something became free, and who is due for a try;
- `preemptions`: who preempted whom.

There are two trees where quota is kept for preemptors: the one that decisions are made on, as it
will be when every eviction that is under way is complete and every claim that waits for that is in;
and the *present* one, with what is really held. An admission needs room in both.

Invariant: usage in the present tree is what reservations add up to; in the other one it is that of
the reservations that stay, of the claims and of what blocked queues reserve.
"""
