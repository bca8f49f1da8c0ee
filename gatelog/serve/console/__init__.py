"""The console: the read model as pages for people with a browser.

Theory. A page is data first: the rows that its statements found are its JSON, the statements are
its SQL. Templates make HTML of the same data; everything can be read without JavaScript, which only
keeps a page up to date.

    app          paths, rights, headers, server-sent events
    overview, queues, queue, cohort, groups, group, preemptions, topology, usage, trial, health
                 a module per page: its queries, and the data for its template
    waiting, phases, window    parts of pages: pending groups, phases of pods, the range of time
    templates    one a page, and parts.html with what pages share
    rendering    templates → HTML
    view         the parameters of an address
    axis, picture    the timeline of a group, and usage over time, as SVG
    svg          elements of pictures, escaped

Invariant: read only; text from a cluster is escaped everywhere; no page refers to another host.
"""
