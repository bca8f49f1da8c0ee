"""Queries on the read model: SQL, its rows, and the words and sums made of them.

    model       the answers, each a method; `past` has the same for a past moment
    explain     why a group is where it is, with `advice`, `heldup`, `running`, `repeats`, `starts`,
                `reserving`, `overtaking`
    timeline    a group's story, in `phrases`, with `gaps` in it; `waitbars`
    grouplist, shapes         groups in a list; owners that request more than they use
    jobs        waits and runs of groups, as sacct lists jobs
    quota, cohorts, shared    quota held and lent by queues and cohorts; `usage`, `rates`: its cost
    places      free places, by topology
    standstill, readiness, inforce    parts of gatelog that do not work or lag, and its settings
    questions, freehand       questions with a name, and queries that people write

    statements      SQL, by question
    rows, asked     rows of SQL; the statements behind a page of the console

Theory. Tables and views are the contract with people (docs/sql.md); every statement here can be
shown and pasted. Columns named `folded` are the projector's own: a row of `rows` unpacks them, and
answers by name.

Invariant: reads only; an answer is the same wherever it is shown.
"""
