"""Golden logs: what releases have written, with the rows they made of it.

Theory. A log outlives the release that wrote it, and what it says happened must not change with
the release that reads it. So logs of earlier releases are kept as exports, each beside the rows
that its own release made of it, and every later one has to come to the same rows.

A folder is a log format; `v1` is the first that will be released.

Invariant: files of a released format are never written again; a later format adds a folder.
"""
