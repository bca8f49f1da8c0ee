"""When: the expected start of each waiting group, from many plays of the present state forward.

    spans       runtimes sampled from history
    record      past waits of groups like a waiting group
    playing     one play: holders of quota end, others come, the live scheduler's code decides
    estimating  many plays: a median and a range per group
    present     the state to play, from the read model
    estimates   estimates in tables, and the actual starts
    metering    estimates as metrics
    telling     estimates on Workloads, for `kubectl get workloads`
    refreshing  one forecast
    beside      repeated forecasts beside a projector

Theory. The code that decides is real (`podgroup.admission`, lined up from the world as at a start
of the projector); unknown are the times for which groups will hold quota, and future arrivals. Both
are drawn: times from groups of the same queue, label and shape, arrivals by repeating the last day
from a random moment. So many plays give a spread. Every estimate is kept beside the actual start,
so forecasts can be checked.

Invariant: the same present and seed give the same estimates; the read model's own tables are only
read, and no transaction of a projector waits for more than the writing of estimates.
"""
