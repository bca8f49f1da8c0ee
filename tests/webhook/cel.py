"""Evaluates the CEL of admission registrations and policies, as the stand-in's API server does."""

from typing import Any

from tests.support.standin import cel
from tests.webhook.cluster import RAW


class Activation:
    """What an expression can see of one request: object, oldObject, request, variables."""

    def __init__(
        self,
        new: RAW | None,
        old: RAW | None = None,
        username: str = "somebody",
        subresource: str = "",
        groups: tuple[str, ...] = (),
    ) -> None:
        operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
        user = {"username": username, "groups": [*groups]}
        request: RAW = {"operation": operation, "userInfo": user}
        if subresource:
            request["subResource"] = subresource
        self._names = cel.bindings(request, new, old)

    def define(self, variables: list[RAW]) -> None:
        """Makes a policy's variables known."""
        self._names = cel.with_variables(self._names, variables)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression."""
        return cel.Expression(expression).value(self._names)

    def plain(self, expression: str) -> Any:
        """The value of an expression as JSON has it."""
        return cel.Expression(expression).plain(self._names)

    def matches(self, conditions: list[RAW]) -> bool:
        """Whether all match conditions hold."""
        return all(bool(self.evaluate(c["expression"])) for c in conditions)
