"""What people ask of the read model: SQL, its rows, and the words and sums made of them.

    model       the answers, each a method; `past` has the same of a moment that is over
    explain     why a group is where it is, with `advice`, `heldup`, `running`, `repeats`, `starts`
    timeline    a group's story, in `phrases`, with `gaps` in it; `waitbars`
    grouplist, shapes         groups in a list; who asks for more than he uses
    quota, cohorts, shared    what queues and cohorts hold and lend; `usage`, `rates`: its cost
    places      where there is room, by topology
    standstill, readiness, inforce    what of gatelog does not work or follow, and its settings
    questions, freehand       questions with a name, and those that people write

    statements      SQL, by question
    rows, asked     what SQL gives; what a page of the console has asked

Theory. Tables and views are the contract with people (docs/sql.md); what is asked here can be
shown and pasted. Columns named `folded` are the projector's own: a row of `rows` has them, unpacks
them, and answers by name.

Invariant: reads only; nothing here changes an answer by where it is shown.
"""
