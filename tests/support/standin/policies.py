"""Admission policies: MutatingAdmissionPolicy and ValidatingAdmissionPolicy, with their bindings.

Theory: a policy counts once a binding names it; its constraints match like a webhook's rules. Match
conditions come first, then variables as they are needed, then mutations or validations. Mutations
of kind ApplyConfiguration are merged as a strategic merge would, which for the lists used here is
what server-side apply does. Refusals are worded as the server words them.

Invariant: an expression without a value refuses the request or is passed over, as ``failurePolicy``
says; it never lets half of a policy act.
"""

from typing import Any

import msgspec

from simcluster import patches
from simcluster.errors import ApiError, Obj, forbidden
from tests.support.standin.cel import CelError, Expression

MUTATING, VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class Policy(msgspec.Struct, frozen=True, eq=False):
    """One policy through one of its bindings."""

    kind: str
    name: str
    binding: str
    spec: Obj
    bound: Obj

    @property
    def constraints(self) -> Obj:
        """Which requests it is about, in the words of a webhook configuration."""
        found: Obj = self.spec.get("matchConstraints") or {}
        return {**found, "name": self.name, "rules": found.get("resourceRules") or ()}

    @property
    def parameter(self) -> str:
        """Name of the object its expressions are given as ``params``; empty for none."""
        return str((self.bound.get("paramRef") or {}).get("name") or "")

    def concerns(self, names: Obj) -> bool:
        """Whether all match conditions hold. Raises ``CelError``."""
        return concerns(self.spec, names)

    def mutated(self, new: Obj, names: Obj) -> Obj:
        """The object after the policy's mutations. Raises ``CelError``."""
        for mutation in self.spec.get("mutations") or ():
            if mutation["patchType"] == "JSONPatch":
                operations = Expression(mutation["jsonPatch"]["expression"]).plain(names)
                try:
                    new = patches.json_patch(new, operations)
                except patches.PatchConflict as error:
                    raise CelError(f"JSON Patch: {error}") from None
            else:
                applied = Expression(mutation["applyConfiguration"]["expression"]).plain(names)
                new = patches.strategic(new, applied)
        return new

    def refusal(self, names: Obj) -> tuple[str, str] | None:
        """(reason, message) of the first validation that fails. Raises ``CelError``."""
        for rule in self.spec.get("validations") or ():
            if Expression(rule["expression"]).holds(names):
                continue
            message = rule.get("message") or f"failed expression: {rule['expression'].strip()}"
            if "messageExpression" in rule:
                message = str(Expression(rule["messageExpression"]).value(names))
            return str(rule.get("reason") or "Invalid"), message
        return None

    @property
    def ignores_failures(self) -> bool:
        """Whether an expression that cannot be evaluated lets the request pass."""
        return bool(self.spec.get("failurePolicy") == "Ignore")


def concerns(spec: Obj, names: Obj) -> bool:
    """Whether all match conditions of a policy or webhook hold.

    One that does not settles it, whatever fails beside it. Raises ``CelError``.
    """
    failed = None
    for condition in spec.get("matchConditions") or ():
        try:
            if not Expression(condition["expression"]).holds(names):
                return False
        except CelError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


def bound(policies: list[Obj], bindings: list[Obj]) -> list[Policy]:
    """Policies with a binding, by name of policy and binding."""
    specs = {policy["metadata"]["name"]: policy for policy in policies}
    found = [
        Policy(
            specs[b["spec"]["policyName"]]["kind"],
            b["spec"]["policyName"],
            b["metadata"]["name"],
            specs[b["spec"]["policyName"]]["spec"],
            b["spec"],
        )
        for b in bindings
        if b["spec"].get("policyName") in specs
    ]
    return sorted(found, key=lambda p: (p.name, p.binding))


def denied(policy: Policy, target: Any, name: str, reason: str, message: str) -> ApiError:
    """The answer to a request that a policy refuses."""
    text = (
        f"{policy.kind} '{policy.name}' with binding '{policy.binding}' denied request: {message}"
    )
    error = forbidden(target.plural, target.route.group, name, text)
    details = {**(error.details or {}), "causes": [{"message": text}]}
    return ApiError(_CODES.get(reason, 422), reason, error.message, details)
