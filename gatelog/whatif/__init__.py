"""What if: the log on other objects, or a trace, played through today's rules.

    arrivals    pods as their users create them, and how long each runs
    history     arrivals from the log
    workloads   other clients' writes to Workloads in the log, and delays of decisions
    trace       arrivals from a file of jobs, as published cluster traces have them
    swf         the Standard Workload Format, line by line
    objects     queues, flavors and priorities from YAML, and small changes of them
    fields      the fields of those: a misspelt field is refused
    cluster     pods and Workloads as an API server, a kubelet and the actuator would change them
    playing     the loop in simulated time: arrival, fold and rules, consequences
    following   the record applied in place of new conclusions, and their differences
    alternative  the log followed until it differs, with what left it simulated
    scenarios   a play from its arrivals, or from a log, to its tally
    tallying    the results: waits, quota, preemptions
    reading     the log read: arrivals, and past results
    replaying   the past with a change
    sweeping    several values of one setting or field, in a table
    comparing   two plays compared
    reporting   results in words and columns

Theory. Decisions are a function of events, so a play of other queues decides anew, with the live
fold and rules, on the events that would have happened. Only groups for which these decide otherwise
than in the log are simulated; the rest is the log. Only the surroundings are a model.

Invariant: this package reads no clock, talks to no cluster or log server, and never writes to the
live read model; time comes from the arrivals.
"""
