"""An admission chain that knows CEL: policies, and match conditions of webhooks.

Policies come before the webhooks of the same half. Refusals are worded as the server words them.
"""

from simcluster.access import Access, Check
from simcluster.admission import GROUP, AdmissionChain, Hook, request_of
from simcluster.errors import Obj, forbidden
from simcluster.requests import Options, Target
from simcluster.store import Store, Table
from simcluster.webhookcall import Caller
from tests.support.standin import cel, policies
from tests.support.standin.policies import MUTATING, VALIDATING, Policy

_POLICIES = {"mutating": MUTATING, "validating": VALIDATING}


class PolicyHook(Hook, frozen=True, eq=False, kw_only=True):
    """One bound policy, ready to be matched as a webhook is."""

    policy: Policy


class PolicyChain(AdmissionChain):
    """Evaluates policies, then asks the registered webhooks."""

    def __init__(self, store: Store, caller: Caller, access: Access) -> None:
        super().__init__(store, caller, access)
        self.policies: dict[str, list[PolicyHook]] = {"mutating": [], "validating": []}

    def configured(self, table: Table) -> None:
        super().configured(table)
        if "polic" in table.resource.plural:
            self._rebind()

    def anything(self) -> bool:
        return super().anything() or any(self.policies.values())

    async def mutate(self, review: Obj, new: Obj, old: Obj | None, options: Options) -> Obj:
        for hook in self.matching(self.policies["mutating"], review, new, old):
            new = self._evaluated(hook, review, new, old, options) or new
        return await super().mutate(review, new, old, options)

    async def validate(
        self, review: Obj, new: Obj | None, old: Obj | None, options: Options
    ) -> None:
        for hook in self.matching(self.policies["validating"], review, new, old):
            self._evaluated(hook, review, new, old, options)
        await super().validate(review, new, old, options)

    def _rebind(self) -> None:
        for half, kind in _POLICIES.items():
            plural = f"{kind.lower()[:-1]}ies"
            tables = (self.store.tables[GROUP, p] for p in (plural, f"{kind.lower()}bindings"))
            found, bindings = ([rec.obj for rec in table.iterate()] for table in tables)
            bound = policies.bound(found, bindings)
            self.policies[half] = [PolicyHook.of(p.constraints, policy=p) for p in bound]

    def _evaluated(
        self, hook: PolicyHook, review: Obj, new: Obj | None, old: Obj | None, options: Options
    ) -> Obj | None:
        """What a policy makes of the object; ``None`` for nothing. Raises its refusal."""
        policy, target = hook.policy, review["target"]
        params = None
        if policy.parameter:
            params = self._parameter(policy, target)
            if params is None:
                return None
        names = self._names(review, new, old, options, params)
        try:
            if not policy.concerns(names):
                return None
            names = cel.with_variables(names, policy.spec.get("variables") or [])
            if policy.kind == MUTATING:
                return policy.mutated(new or {}, names)
            refusal = policy.refusal(names)
        except cel.CelError as error:
            if policy.ignores_failures:
                return None
            refusal = ("Invalid", str(error))
        if refusal is None:
            return None
        name = ((new or old or {}).get("metadata") or {}).get("name") or ""
        raise policies.denied(policy, target, name, *refusal)

    def _parameter(self, policy: Policy, target: Target) -> Obj | None:
        """The object named by a binding's paramRef, in the request's namespace."""
        kind = policy.spec["paramKind"]["kind"]
        for table in self.store.tables.values():
            if table.resource.kind == kind:
                space = target.namespace if table.resource.namespaced else ""
                rec = table.get(space, policy.parameter)
                return rec.obj if rec else None
        return None

    def concerns(
        self, hook: Hook, review: Obj, new: Obj | None, old: Obj | None, options: Options
    ) -> bool:
        """Whether a webhook's match conditions hold; one that does not counts before an error."""
        if not hook.config.get("matchConditions"):
            return True
        try:
            return policies.concerns(hook.config, self._names(review, new, old, options))
        except cel.CelError as error:
            if hook.config.get("failurePolicy") == "Ignore":
                return False
            target: Target = review["target"]
            name = review["name"]
            raise forbidden(target.plural, target.route.group, name, str(error)) from None

    def _names(
        self,
        review: Obj,
        new: Obj | None,
        old: Obj | None,
        options: Options,
        params: Obj | None = None,
    ) -> cel.Names:
        """What expressions see of a request."""
        check = Check(access=self.access, user=options.user)
        return cel.bindings(request_of(review), new, old, params, check)
