"""All that the scheduler remembers between two passes, and every event that changes it.

Theory. `SchedulerCache` is given the events; each of its parts owns its own memory:

- `objects`: flavors, topologies, nodes, cohorts, namespaces, queues, and the trees of quota;
- `reservations`: admitted workloads, what they hold, and what LocalQueues have used;
- `queues`: pending workloads, in line by ClusterQueue (`pending_queue`);
- `claims`: quota kept for preemptors until their victims have stopped;
- `starts`: workloads that have waited too long, and by when each is to start;
- `wake_ups`: where quota became free, and where a workload is due for a try;
- `preemptions`: which workload preempted which.

Where quota is kept for preemptors there are two trees: the tree of decisions, as it will be when
every eviction under way is complete and every claim that waits for one is admitted; and the
*present* tree, with the quota that is really held. An admission has to fit in both.

Invariant: usage in the present tree is the sum of reservations; usage in the tree of decisions is
the sum of reservations that stay, of claims, and of the reserves of blocked queues.
"""
