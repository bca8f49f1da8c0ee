"""The Standard Workload Format of the Parallel Workloads Archive, line by line.

Lines of 18 numbers between blanks, -1 for an unknown value; a line that begins with `;` is a
comment. These are read: 1 job, 2 submit (s), 4 run time (s), 5 processors allocated, 8 processors
requested, 10 memory requested (KB per processor), 12 user, 13 group, 15 queue. Source: "The
Standard Workload Format", version 2.2, of the archive.

Invariant: a job that never ran (run time or processors not known) is no row.
"""

FIELDS = 18
SUFFIX = ".swf"
COMMENT = b";"
QUEUE = "{queue}"
"""In the name of a queue: the number of the job's."""


def row(line: bytes, queue: str) -> dict[str, str] | None:
    """Return a job as a row of a trace, None for a comment or a job that never ran.

    Raises:
        ValueError: the line has another form; the message says why.
    """
    if line.lstrip().startswith(COMMENT):
        return None
    cells = line.split()
    if len(cells) != FIELDS:
        raise ValueError(f"has {len(cells)} values, a job of the Standard Workload Format {FIELDS}")
    fields: list[float] = []
    for place, cell in enumerate(cells, 1):
        try:
            fields.append(float(cell))
        except ValueError:
            text = cell.decode(errors="replace")
            raise ValueError(f"value {place}: {text!r} is no number") from None
    job, submit, runtime = fields[0], fields[1], fields[3]
    processors = fields[7] if fields[7] > 0 else fields[4]
    if runtime < 0 or processors <= 0:
        return None
    found = {
        "id": f"job-{job:.0f}",
        "submit": f"{submit:.15g}",
        "runtime": f"{runtime:.15g}",
        "queue": queue.replace(QUEUE, f"{fields[14]:.0f}"),
        "cpu": f"{processors:.0f}",
    }
    if fields[9] > 0:
        found["memory"] = f"{fields[9] * processors:.0f}Ki"
    for name, value in (("user", fields[11]), ("team", fields[12])):
        if value >= 0:
            found[name] = f"{name}-{value:.0f}"
    return found
