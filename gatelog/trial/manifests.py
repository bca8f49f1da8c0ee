"""From the text of a manifest to the pods that its objects would make.

Theory. People submit Jobs, Deployments and sets, but pods wait. Each kind that makes pods has a row
with the places of its templates and the number of pods of each, with the names, labels and owner
that its controller gives them. Objects without pods (a Service, a ConfigMap) are passed over by
name. The API server's own validation is not made: `kubectl apply --dry-run=server` has it. Where a
controller makes pods later than its object is made, a warning says when. Single pods are tried as
if they came at once; of a group whose further pods come only after others are ready, only those
others exist, as in the cluster.

Invariant: pure; a text makes `MOST_PODS` pods at most, later ones included, or is refused with the
place.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from ingest.webhook.mutate import PatchOp
from ingest.yamltext import TextError, documents, field_of, read
from podgroup.model import names

MOST_BYTES = 1024 * 1024
"""Size of a manifest above which it is refused."""
MOST_PODS = 2_000
"""Pods of a manifest at most."""

Labelled = Callable[[str, str, dict[str, Any]], tuple[PatchOp, ...]]
"""Changes that the webhook makes to an owner of a kind (group, kind) before it makes pods."""


class Unreadable(Exception):
    """A manifest that cannot be used: where, what, and which field."""

    def __init__(self, line: int, field: str, message: str, title: str = "") -> None:
        super().__init__(message)
        self.line, self.field, self.title = line, field, title


class Made(Struct, frozen=True):
    """An object of a manifest, or an object that it makes: title and line are the manifest's.

    `path` comes before the path of a field of `raw`, to name the field in the manifest.
    """

    raw: dict[str, Any]
    title: str
    line: int
    path: str = ""

    def field(self, path: str) -> str:
        """Return the path in the manifest of a field of `raw`."""
        return f"{self.path}{path}"


class MadePod(Made, frozen=True):
    """A pod that would be made; its `path` is that of its template."""

    controller: str = ""
    """Kind of the object that makes it, "" for a Pod."""
    named: bool = True
    """The name is final; a controller's may end in random letters."""


class SeenObject(Made, frozen=True):
    """An object that declares something about pods beside their own fields (`SEEN`)."""


class Manifest(Struct, frozen=True):
    """The pods of a text, other objects that count, and objects that are passed over.

    `warnings` say which objects make their pods later than now.
    """

    pods: list[MadePod]
    seen: list[SeenObject]
    passed_over: list[str]
    warnings: list[str]


class _Template(NamedTuple):
    """A pod template: the fields of its pods, its path, the names, and additions.

    `marked` returns labels and annotations of the pod with a number; `named`: the names are final;
    `later` says when the pods are made, "" for at once.
    """

    template: Any
    path: str
    names: list[str]
    marked: Callable[[int], tuple[dict[str, str], dict[str, str]]]
    named: bool = False
    later: str = ""


class _Object(NamedTuple):
    """An object of a manifest, where it is, and the group and kind that it says."""

    data: dict[str, Any]
    group: str
    kind: str
    name: str
    line: int
    path: str

    def refuse(self, field: str, message: str) -> Unreadable:
        return Unreadable(self.line, f"{self.path}{field}", message, f"{self.kind} {self.name}")

    def whole(self, field: str, default: int) -> int:
        """Return a number of pods."""
        found = _at(self.data, *field.split("."))
        if found is None:
            return default
        if type(found) is not int or found < 0:
            raise self.refuse(field, f"is {str(found)[:40]!r}: a whole number from 0 on is needed")
        if found > MOST_PODS:
            raise self.refuse(field, f"is {found}: {MOST_PODS} pods can be tried at once")
        return found


def read_manifest(text: str, namespace: str, labelled: Labelled) -> Manifest:
    """Return the pods that a text makes; objects without a namespace are of `namespace`.

    Raises:
        Unreadable: the text cannot be read, or makes no pod or too many.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise Unreadable(1, "", f"has {size} bytes; {MOST_BYTES} can be tried: leave objects out")
    pods: list[MadePod] = []
    seen: list[SeenObject] = []
    passed_over: list[str] = []
    warnings: list[str] = []
    idle: list[_Object] = []
    titles: set[str] = set()
    bound = _Bound()
    for one in _objects(text):
        kind = one.group, one.kind
        if kind in SEEN:
            meta = dict(one.data.get("metadata") or {})
            meta["namespace"] = meta.get("namespace") or namespace
            title = f"{one.kind} {meta['namespace']}/{one.name}"
            raw = {**one.data, "metadata": meta}
            seen.append(SeenObject(raw, title, one.line, one.path))
        elif kind in _UNKNOWN_COUNT:
            raise one.refuse("kind", "makes as many pods as there are nodes: try one Pod of it")
        elif kind not in _MAKE_PODS:
            passed_over.append(f"{one.kind} {one.name}")
        if kind not in _MAKE_PODS:
            continue
        before = len(pods)
        pods.extend(_made(one, namespace, labelled, warnings, bound))
        if len(pods) == before:
            idle.append(one)
        elif pods[-1].title in titles and one.data["metadata"].get("name"):
            raise one.refuse("metadata.name", "is that of an object before it: each needs its own")
        else:
            titles.add(pods[-1].title)
    if not pods and idle:
        raise idle[0].refuse("spec", "makes no pods: it asks for 0 of them")
    if not pods:
        there = f" ({', '.join(passed_over[:5])})" if passed_over else ""
        known = ", ".join(kind for _, kind in _MAKE_PODS)
        raise Unreadable(1, "kind", f"no object that makes pods{there}: {known} do")
    return Manifest(pods, seen, passed_over, warnings)


def _objects(text: str) -> Iterator[_Object]:
    for part, before in documents(text):
        try:
            document = read(part)
        except TextError as error:
            said = f"column {error.column}: {error}"
            raise Unreadable(error.line + before, field_of(error.path), said) from None
        data = document.data
        if data is None:
            continue
        items = data.get("items") if isinstance(data, dict) else None
        if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
            for index, item in enumerate(items if isinstance(items, list) else ()):
                line = document.position_of(("items", index))[0] + before
                yield _object(item, line, f"items[{index}].")
        else:
            yield _object(data, document.position_of(())[0] + before, "")


def _object(data: Any, line: int, path: str) -> _Object:
    if not isinstance(data, dict):
        raise Unreadable(line, path, "must be an object with apiVersion, kind, metadata and spec")
    version, kind, meta = data.get("apiVersion"), data.get("kind"), data.get("metadata")
    for field, found in (("apiVersion", version), ("kind", kind)):
        if not (isinstance(found, str) and found):
            raise Unreadable(line, f"{path}{field}", "is missing: say what the object is")
    meta = {} if meta is None else meta
    if not isinstance(meta, dict):
        raise Unreadable(line, f"{path}metadata", "must be an object", str(kind))
    found = meta.get("name") or meta.get("generateName")
    if not (isinstance(found, str) and found):
        raise Unreadable(line, f"{path}metadata.name", "is missing", str(kind))
    name = found if meta.get("name") else f"{found}x"
    group = str(version).rpartition("/")[0]
    return _Object(data, group, str(kind), name, line, path)


class _Bound:
    """Counts the pods of a text; a template without pods counts as a pod, since it takes as much
    work.
    """

    def __init__(self) -> None:
        self._counted = 0

    def count(self, one: _Object, pods: int) -> None:
        """Count pods of a template.

        Raises:
            Unreadable: they are too many, with those before them.
        """
        self._counted += max(1, pods)
        if self._counted > MOST_PODS:
            said = f"more than {MOST_PODS} pods, or templates without any, cannot be tried at once"
            raise one.refuse("", said)


def _made(
    one: _Object, namespace: str, labelled: Labelled, warnings: list[str], bound: _Bound
) -> Iterator[MadePod]:
    meta = one.data.get("metadata") or {}
    within = meta.get("namespace") or namespace
    if not isinstance(within, str):
        raise one.refuse("metadata.namespace", "must be a text")
    title = f"{one.kind} {within}/{one.name}"
    identified = {**one.data, "metadata": {**meta, "name": one.name, "namespace": within}}
    if one.kind == "Pod":
        bound.count(one, 1)
        yield MadePod(identified, title, one.line, one.path, named=bool(meta.get("name")))
        return
    for field in _HELD.get((one.group, one.kind), ()):
        if _at(one.data, *field.split(".")) is True:
            said = f"{title} makes no pods while {field} is true: tried is what it makes then"
            warnings.append(said)
    owned = one._replace(data=patched(one.data, labelled(one.group, one.kind, identified)))
    uid = f"try-{one.kind}-{within}-{one.name}"
    owner = {"apiVersion": one.data["apiVersion"], "kind": one.kind, "name": one.name, "uid": uid}
    for made in _CONTROLLERS[one.group, one.kind](owned):
        bound.count(one, len(made.names))
        template, path = made.template, made.path
        if not isinstance(template, dict):
            raise one.refuse(path, "is missing: the template of the pods")
        own = _mapping(one, template.get("metadata"), f"{path}.metadata")
        labels = _mapping(one, own.get("labels"), f"{path}.metadata.labels")
        annotations = _mapping(one, own.get("annotations"), f"{path}.metadata.annotations")
        if made.later and made.names:
            grouped = bool(names.group_name(labels, annotations))
            tried = "not tried" if grouped else "tried as if they came at once"
            warnings.append(f"{title} makes {_some(made.names)} {made.later}: {tried}")
            if grouped:
                continue
        for number, name in enumerate(made.names):
            marks, notes = made.marked(number)
            known = {"labels": {**labels, **marks}, "annotations": {**annotations, **notes}}
            identity = {"name": name, "namespace": within}
            owners = {"ownerReferences": [{**owner, "controller": True}]}
            found = {k: v for k, v in known.items() if v}
            raw = {"metadata": {**own, **found, **identity, **owners}, "spec": template.get("spec")}
            where = f"{one.path}{path}."
            yield MadePod(raw, title, one.line, where, controller=one.kind, named=made.named)


def _mapping(one: _Object, found: Any, field: str) -> dict[str, Any]:
    """Return an object of the manifest, {} for none."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise one.refuse(field, "must be an object")
    return found


def _some(called: list[str]) -> str:
    return called[0] if len(called) == 1 else f"{called[0]} to {called[-1]}"


def patched(data: Any, patch: tuple[PatchOp, ...]) -> Any:
    """Return an object with a JSON patch of additions (RFC 6902) applied, as a new object."""
    for op in patch:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in op.path.split("/")[1:]]
        data = _added(data, steps, op.value)
    return data


def _added(data: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(data, list):
        return [*data, value] if step == "-" else data
    return {**data, step: _added(data.get(step), rest, value)}


# Kinds that make pods


def _plain(_: int) -> tuple[dict[str, str], dict[str, str]]:
    return {}, {}


def _at(data: Any, *steps: str) -> Any:
    for step in steps:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _of_job(one: _Object, at: str, name: str) -> _Template:
    """Return the pods of a Job whose spec is at `at`, that run at once."""
    spec = _at(one.data, *at.split("."))
    count = one.whole(f"{at}.parallelism", 1)
    if _at(spec, "completions") is not None:
        count = min(count, one.whole(f"{at}.completions", count))
    indexed = _at(spec, "completionMode") == "Indexed"

    def marked(number: int) -> tuple[dict[str, str], dict[str, str]]:
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
        index = {_JOB_INDEX: str(number)} if indexed else {}
        return {**labels, **index}, index

    called = [f"{name}-{number}" for number in range(count)]
    return _Template(_at(spec, "template"), f"{at}.template", called, marked)


def _job(one: _Object) -> Iterator[_Template]:
    yield _of_job(one, "spec", one.name)


def _cron_job(one: _Object) -> Iterator[_Template]:
    yield _of_job(one, "spec.jobTemplate.spec", f"{one.name}-1")


def _replicas(one: _Object) -> Iterator[_Template]:
    count = one.whole("spec.replicas", 1)
    called = [f"{one.name}-{number}" for number in range(count)]
    yield _Template(_at(one.data, "spec", "template"), "spec.template", called, _plain)


def _stateful_set(one: _Object) -> Iterator[_Template]:
    first = one.whole("spec.ordinals.start", 0)

    def marked(number: int) -> tuple[dict[str, str], dict[str, str]]:
        name = f"{one.name}-{first + number}"
        return {
            "apps.kubernetes.io/pod-index": str(first + number),
            "statefulset.kubernetes.io/pod-name": name,
        }, {}

    count = one.whole("spec.replicas", 1)
    called = [f"{one.name}-{first + number}" for number in range(count)]
    template = _at(one.data, "spec", "template")
    whole = _Template(template, "spec.template", called, marked, named=True)
    if _at(one.data, "spec", "podManagementPolicy") == "Parallel":
        yield whole
        return
    yield whole._replace(names=called[:1])
    if called[1:]:
        yield whole._replace(
            names=called[1:],
            marked=lambda number: marked(number + 1),
            later="each when the one before is ready (podManagementPolicy: Parallel: all at once)",
        )


def _job_set(one: _Object) -> Iterator[_Template]:
    jobs = _at(one.data, "spec", "replicatedJobs")
    in_order = _at(one.data, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
    for place, job in enumerate(jobs if isinstance(jobs, list) else ()):
        data = job if isinstance(job, dict) else {}
        within = one._replace(data=data, path=f"{one.path}spec.replicatedJobs[{place}].")
        name = str(data.get("name") or place)
        later = ""
        if data.get("dependsOn") or (in_order and place):
            why = "dependsOn" if data.get("dependsOn") else "startupPolicyOrder: InOrder"
            later = f"when the replicatedJobs before are ready or over ({why})"
        for number in range(within.whole("replicas", 1)):
            template = _of_job(within, "template.spec", f"{one.name}-{name}-{number}")
            path = f"spec.replicatedJobs[{place}].{template.path}"
            marked = _in_job_set(one.name, name, template)
            yield template._replace(path=path, marked=marked, later=later)


def _in_job_set(
    name: str, job: str, template: _Template
) -> Callable[[int], tuple[dict[str, str], dict[str, str]]]:
    marks = {_JOB_SET: name, "jobset.sigs.k8s.io/replicatedjob-name": job}

    def marked(number: int) -> tuple[dict[str, str], dict[str, str]]:
        labels, annotations = template.marked(number)
        return {**labels, **marks}, annotations

    return marked


def _leader_worker_set(one: _Object) -> Iterator[_Template]:
    path = "spec.leaderWorkerTemplate"
    template = _at(one.data, "spec", "leaderWorkerTemplate")
    worker = _at(template, "workerTemplate")
    leader = _at(template, "leaderTemplate") or worker
    leads = f"{path}.{'leaderTemplate' if _at(template, 'leaderTemplate') else 'workerTemplate'}"
    size = max(1, one.whole(f"{path}.size", 1))
    after = _at(one.data, "spec", "startupPolicy") == "LeaderReady"
    later = "when their leader is ready (startupPolicy: LeaderReady)" if after else ""
    for group in range(one.whole("spec.replicas", 1)):
        name = f"{one.name}-{group}"
        marked = _in_leader_worker_set(one.name, group, size)
        yield _Template(
            leader,
            leads,
            [name],
            lambda _, m=marked: m(0),  # type: ignore[misc]
            named=True,
        )
        workers = [f"{name}-{number}" for number in range(1, size)]
        if workers:
            yield _Template(
                worker,
                f"{path}.workerTemplate",
                workers,
                lambda number, m=marked: m(number + 1),  # type: ignore[misc]
                named=True,
                later=later,
            )


def _in_leader_worker_set(
    name: str, group: int, size: int
) -> Callable[[int], tuple[dict[str, str], dict[str, str]]]:
    def marked(worker: int) -> tuple[dict[str, str], dict[str, str]]:
        labels = {
            names.LWS_NAME: name,
            f"{_LEADER_WORKER_SET}/group-index": str(group),
            f"{_LEADER_WORKER_SET}/worker-index": str(worker),
        }
        leader = {names.LWS_LEADER: f"{name}-{group}"} if worker else {}
        return labels, {names.LWS_SIZE: str(size), **leader}

    return marked


_JOB_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB_SET = "jobset.sigs.k8s.io/jobset-name"
_LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io"
_CONTROLLERS: dict[tuple[str, str], Callable[[_Object], Iterator[_Template]]] = {
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _stateful_set,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
}
"""By API group and kind."""
_MAKE_PODS = (("", "Pod"), *_CONTROLLERS)
SEEN = {
    ("apps", "StatefulSet"),
    ("resource.k8s.io", "ResourceClaim"),
    ("resource.k8s.io", "ResourceClaimTemplate"),
}
"""Kinds whose objects say how many pods belong together, or which devices they ask for."""
_UNKNOWN_COUNT = {("apps", "DaemonSet")}
_HELD = {
    ("batch", "Job"): ("spec.suspend",),
    ("batch", "CronJob"): ("spec.suspend", "spec.jobTemplate.spec.suspend"),
    ("apps", "Deployment"): ("spec.paused",),
    ("jobset.x-k8s.io", "JobSet"): ("spec.suspend",),
}
"""Fields that keep a kind from making pods while they are true."""
