"""Webhooks: which are called, with what, and the effect of their answers.

Theory: the compiled form of all configurations is kept by a store hook, so a write that matches no
webhook costs one look at an empty list. Match conditions are CEL, which is not evaluated: they hold
here; tests have a chain of their own that evaluates match conditions and admission policies. Calls,
refusals and failures are worded as the server words them, since operators read exactly those
sentences.

Invariant: ``mutate`` and ``validate`` do not suspend when no webhook matches.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Any, Self, TypeVar

import msgspec

from simcluster import patches
from simcluster.access import Access, user_info
from simcluster.errors import ApiError, Obj, bad_request
from simcluster.objects import new_uid
from simcluster.requests import Options, Target
from simcluster.selectors import label_selector
from simcluster.store import Change, Store, Table
from simcluster.webhookcall import Caller, CallFailed

_KINDS = {
    "mutatingwebhookconfigurations": "mutating",
    "validatingwebhookconfigurations": "validating",
}
GROUP = "admissionregistration.k8s.io"


class Hook(msgspec.Struct, frozen=True, eq=False):
    """One webhook of one configuration, ready to be matched."""

    name: str
    config: Obj
    rules: tuple[Obj, ...]
    in_namespace: Callable[[dict[str, str]], bool]
    on_object: Callable[[dict[str, str]], bool]

    def covers(self, target: Target, operation: str) -> bool:
        """Whether a rule names this operation on this resource."""
        resource = target.route.resource
        path = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
        any_version = resource.custom and self.config.get("matchPolicy") != "Exact"
        return any(
            _has(rule.get("operations"), operation)
            and _has(rule.get("apiGroups"), target.route.group)
            and (_has(rule.get("apiVersions"), target.route.version) or any_version)
            and any(_resource(wanted, path) for wanted in rule.get("resources") or ())
            and rule.get("scope", "*") in ("*", "Namespaced" if resource.namespaced else "Cluster")
            for rule in self.rules
        )

    @classmethod
    def of(cls, config: Obj, **more: Any) -> Self:
        """The compiled form of a configuration."""
        return cls(
            name=config["name"],
            config=config,
            rules=tuple(config.get("rules") or ()),
            in_namespace=label_selector(config.get("namespaceSelector")),
            on_object=label_selector(config.get("objectSelector")),
            **more,
        )


def _has(values: Any, wanted: str) -> bool:
    return "*" in (values or ()) or wanted in (values or ())


def _resource(pattern: str, path: str) -> bool:
    if pattern == "*/*":
        return True
    if "/" not in pattern:
        return pattern == path or (pattern == "*" and "/" not in path)
    base, _, sub = pattern.partition("/")
    have, _, have_sub = path.partition("/")
    return base in ("*", have) and bool(have_sub) and sub in ("*", have_sub)


AnyHook = TypeVar("AnyHook", bound=Hook)


class AdmissionChain:
    """Asks the registered webhooks."""

    def __init__(self, store: Store, caller: Caller, access: Access) -> None:
        self.store = store
        self.access = access
        self.caller = caller
        self.hooks: dict[str, list[Hook]] = {"mutating": [], "validating": []}
        self.calls = 0
        store.hooks.append(self._changed)

    def _changed(self, table: Table, change: Change) -> None:
        if table.resource.group == GROUP:
            self.configured(table)

    def configured(self, table: Table) -> None:
        """Compile a table of configurations."""
        kind = _KINDS.get(table.resource.plural)
        if kind is None:
            return
        records = sorted(table.iterate(), key=lambda r: r.name)
        hooks = (hook for rec in records for hook in rec.obj.get("webhooks") or ())
        self.hooks[kind] = [Hook.of(hook) for hook in hooks]

    def anything(self) -> bool:
        """Whether there is anything to ask."""
        return any(self.hooks.values())

    def review(self, target: Target, operation: str, name: str, options: Options) -> Obj:
        """The part of an AdmissionReview request that does not depend on the object."""
        if not self.anything():
            return {"target": target}
        resource, route = target.route.resource, target.route
        kind = {"group": route.group, "version": route.version, "kind": resource.kind}
        plural = {"group": route.group, "version": route.version, "resource": resource.plural}
        found: Obj = {
            "target": target,
            "kind": kind,
            "resource": plural,
            "requestKind": kind,
            "requestResource": plural,
            "name": name,
            "operation": operation,
            "userInfo": user_info(options.user),
            "dryRun": options.dry_run,
            "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
        }
        if target.namespace:
            found["namespace"] = target.namespace
        if target.subresource:
            found["subResource"] = found["requestSubResource"] = target.subresource
        return found

    def matching(
        self, hooks: list[AnyHook], review: Obj, new: Obj | None, old: Obj | None
    ) -> list[AnyHook]:
        """The hooks that are to be asked of a review."""
        if not hooks or "kind" not in review:
            return []
        target: Target = review["target"]
        if target.route.group == GROUP:
            return []  # webhooks never see their own kinds
        spaces = [self._namespace_labels(target, new or old)]
        objects = [(o["metadata"].get("labels") or {}) for o in (new, old) if o is not None]
        return [
            hook
            for hook in hooks
            if hook.covers(target, review["operation"])
            and all(labels is None or hook.in_namespace(labels) for labels in spaces)
            and any(hook.on_object(labels) for labels in objects)
        ]

    def _namespace_labels(self, target: Target, obj: Obj | None) -> dict[str, str] | None:
        """Labels the namespaceSelector sees; ``None``: a cluster-scoped object, always matched."""
        if target.plural == "namespaces" and obj is not None:
            return obj["metadata"].get("labels") or {}
        if not target.namespace:
            return None
        rec = self.store.tables["", "namespaces"].get("", target.namespace)
        return (rec.obj["metadata"].get("labels") or {}) if rec else {}

    async def mutate(self, review: Obj, new: Obj, old: Obj | None, options: Options) -> Obj:
        """The object after all mutation. Raises the error of a refusal or failure."""
        hooks = self.matching(self.hooks["mutating"], review, new, old)
        asked: list[Hook] = []
        again: list[Hook] = []
        for hook in hooks:
            before = new
            new = await self._patched(hook, review, new, old, options)
            if new is not before:
                again.extend(h for h in asked if h.config.get("reinvocationPolicy") == "IfNeeded")
            asked.append(hook)
        for hook in dict.fromkeys(again):
            new = await self._patched(hook, review, new, old, options)
        return new

    async def _patched(
        self, hook: Hook, review: Obj, new: Obj, old: Obj | None, options: Options
    ) -> Obj:
        response = await self._ask(hook, review, new, old, options)
        if not response or not response.get("patch"):
            return new
        try:
            operations = msgspec.json.decode(base64.b64decode(response["patch"]))
            changed: Obj = patches.json_patch(new, operations)
        except (ValueError, msgspec.DecodeError, patches.PatchConflict) as error:
            raise _internal(f'unable to apply patch of webhook "{hook.name}": {error}') from None
        return changed

    async def validate(
        self, review: Obj, new: Obj | None, old: Obj | None, options: Options
    ) -> None:
        """Call all validating webhooks. Raises the error of a refusal or failure."""
        for hook in self.matching(self.hooks["validating"], review, new, old):
            await self._ask(hook, review, new, old, options)

    async def _ask(
        self, hook: Hook, review: Obj, new: Obj | None, old: Obj | None, options: Options
    ) -> Obj | None:
        """One call; ``None`` when it was not due, or failed and the policy is Ignore."""
        if not self.concerns(hook, review, new, old, options):
            return None
        effects = hook.config.get("sideEffects")
        if options.dry_run and effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        uid = new_uid()
        request = request_of(review) | {"uid": uid, "object": new, "oldObject": old}
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        self.calls += 1
        if asyncio.current_task() is None:
            await asyncio.sleep(0)  # a request that waits goes on as a task, which a call needs
        try:
            response = await self.caller.call(hook.config, body, uid)
        except CallFailed as error:
            if hook.config.get("failurePolicy") == "Ignore":
                return None
            why = f'failed calling webhook "{hook.name}": {error}'
            raise _internal(why) from None
        options.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(hook.name, response.get("status") or {})
        return response

    def concerns(
        self, hook: Hook, review: Obj, new: Obj | None, old: Obj | None, options: Options
    ) -> bool:
        """Whether a webhook's match conditions hold."""
        return True


def request_of(review: Obj) -> Obj:
    """The review that a webhook is sent, without the object."""
    return {key: value for key, value in review.items() if key != "target"}


def _denied(name: str, status: Obj) -> ApiError:
    text = f'admission webhook "{name}" denied the request'
    said = status.get("message") or status.get("reason")
    text = f"{text}: {said}" if said else f"{text} without explanation"
    code = status.get("code") or 0
    return ApiError(code if code >= 400 else 400, status.get("reason"), text, status.get("details"))


def _internal(why: str) -> ApiError:
    return ApiError(
        500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]}
    )
