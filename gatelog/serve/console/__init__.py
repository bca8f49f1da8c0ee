"""The console: the read model as pages for people with a browser.

Theory. A page is data first: what a question found, which is also its JSON, and the statements that
found it, which are its SQL. HTML is one way to show it, made by templates;
everything can be read without JavaScript, which only keeps a page up to date.

    app          paths, rights, headers, server-sent events
    overview, …  a module per page: what is asked, and how it is shown
    templates    one a page, and parts.html with what pages share
    rendering    templates → HTML
    view         what an address says
    axis, picture    the timeline of a group, and usage over time, as SVG
    svg          elements of pictures, escaped

Invariant: read only; what came from a cluster is escaped wherever it is shown; no page refers to
another host.
"""
