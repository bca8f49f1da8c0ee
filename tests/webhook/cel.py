"""Evaluates the CEL of admission registrations and policies the way the API server does.

Only the plain expressions: match conditions, variables, validations. Object construction
(``Object{...}``), as in mutations, is an API-server extension and stays with structural tests.
"""

import functools
import json
from typing import Any

import celpy
from celpy.celtypes import MapType, StringType

from tests.webhook.cluster import RAW

_ENVIRONMENT = celpy.Environment()


@functools.cache
def _program(expression: str) -> celpy.Runner:
    return _ENVIRONMENT.program(_ENVIRONMENT.compile(expression))


class Activation:
    """What an expression can see of one request: object, oldObject, request, variables."""

    def __init__(self, new: RAW, old: RAW | None = None, username: str = "somebody") -> None:
        operation = "CREATE" if old is None else "UPDATE"
        request = {"operation": operation, "userInfo": {"username": username}}
        self._names: dict[str, Any] = {
            "object": celpy.json_to_cel(json.loads(json.dumps(new))),
            "oldObject": celpy.json_to_cel(json.loads(json.dumps(old))),
            "request": celpy.json_to_cel(request),
        }

    def define(self, variables: list[RAW]) -> None:
        """Evaluates a policy's variables, in their order."""
        values = MapType()
        self._names["variables"] = values
        for variable in variables:
            values[StringType(variable["name"])] = self.evaluate(variable["expression"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression."""
        return _program(expression).evaluate(self._names)

    def matches(self, conditions: list[RAW]) -> bool:
        """Whether all match conditions hold."""
        return all(bool(self.evaluate(c["expression"])) for c in conditions)
