"""When: the present state played forward, many times, to say when each waiting group starts.

    spans       runtimes sampled from history
    record      how long groups waited that were like one that waits
    playing     one play: who holds quota ends, others come, the scheduler that decides live decides
    estimating  many plays, and what they have in common: a median and a range per group
    present     what is played, read from the read model
    estimates   estimates in tables, and what came true of them
    metering    estimates as metrics
    telling     estimates on Workloads, for `kubectl get workloads`
    refreshing  all of it once
    beside      again and again, beside a projector

Theory. What decides is real (`podgroup.admission`, lined up from the world as at a start of the
projector); what is not known is how long things will hold quota, and who will come. Both are drawn:
the first from how long groups of the same queue, label and shape held it, the second by letting
the last day come again from a moment of it that is drawn. So many plays give a spread. Nothing is
believed: every estimate that is given stays beside what came true.

Invariant: the same present and seed give the same estimates; the read model's own tables are only
read, and no transaction of a projector waits for more than the writing of estimates.
"""
