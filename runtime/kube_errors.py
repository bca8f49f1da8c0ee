"""What can go wrong between us and the API server, apart from an answer we must interpret.

Invariant: HTTP statuses are answers, not exceptions; only what leaves us without a usable answer
is raised, and each error says whether trying again can help.
"""


class KubeError(Exception):
    """Base; raised as itself for a configuration that cannot be used (retrying will not help)."""


class KubeUnavailable(KubeError):
    """No answer: refused, reset, timed out or cut short. It may have taken effect: retry."""


class KubeUnauthorized(KubeError):
    """401 even with freshly read credentials: a user must renew them."""


class KubeForbidden(KubeError):
    """403: the role lacks a rule. Raised by callers that cannot go on without (`forbidden`)."""

    def __init__(self, path: str, verb: str, message: str) -> None:
        super().__init__(f"not allowed to {verb} {path}: {message}")
        self.path = path
        self.verb = verb
        self.message = message
