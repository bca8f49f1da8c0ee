"""What if: the log on other objects, or a trace, played through today's rules.

    arrivals    what comes: pods as their users create them, and how long each runs
    history     arrivals from the log
    workloads   what others did to Workloads in the log, and how late decisions took place
    trace       arrivals from a file of jobs, as published cluster traces have them
    swf         the Standard Workload Format, line by line
    objects     queues, flavors and priorities from YAML, and small changes to them
    fields      which fields those have: a misspelt one is refused
    cluster     pods and Workloads as an API server, a kubelet and the actuator would change them
    playing     the loop in simulated time: arrival, fold and rules, what follows from it
    following   the record applied in place of what rules conclude, and where that differs
    alternative the log followed until it differs, with what left it simulated
    tallying    what came of it: waits, quota, preemptions
    reading     the log read: what came, and what came of it then
    replaying   the past with something other
    comparing   two plays held against each other
    reporting   that in words and columns

Theory. Decisions are a function of what happens, so playing other queues is deciding anew, by the
fold and the rules that decide live, on what would have happened. Of the past only that is simulated
on which these decide otherwise than they do on what did happen; the rest is the log. Only the
surroundings are a model.

Invariant: nothing here reads a clock, speaks to a cluster or a log server, or writes to the live
read model; time is what the arrivals say.
"""
