"""How a row of `failures` is worded in SQL: what ended, and how.

A container that a signal ended has 128 and the signal's number as its exit code.
"""


def kind(row: str) -> str:
    """Return the kind of the failure: of a container, or of the pod."""
    return f"CASE WHEN {row}.container = '' THEN 'PodEnded' ELSE 'ContainerFailed' END"


def words(row: str) -> str:
    """Return the message of a pod, or container, exit code, signal and restarts."""
    code, restarts = f"{row}.exit_code", f"{row}.restarts"
    return (
        f"CASE WHEN {row}.container = '' THEN {row}.message ELSE 'container ' || {row}.container"
        f" || ', exit code ' || CAST({code} AS TEXT)"
        f" || CASE WHEN {code} BETWEEN 129 AND 192"
        f" THEN ' (signal ' || CAST({code} - 128 AS TEXT) || ')' ELSE '' END"
        f" || CASE WHEN {restarts} > 0"
        f" THEN ', restarts before: ' || CAST({restarts} AS TEXT) ELSE '' END END"
    )
