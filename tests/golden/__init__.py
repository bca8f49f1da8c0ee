"""Golden logs: what releases have written, with the rows they made of it.

Theory. A log outlives the release that wrote it, and what it says happened must not change with
the release that reads it. So logs of earlier releases are kept as exports, each beside the rows
that its own release made of it, and every later one has to come to the same rows.

(why a group waits, and the state that this shows) is not in them, and each release derives it by
its own rules; `DERIVED` names those columns and lines. Everything else has to be equal.

Invariant: files in here are never written again; a later release adds a folder of its own.
"""
