"""Annotation pod-group-sets: a driver's declaration of the pods that it will create.

KEP-976 (story 3) takes YAML or JSON with the structure of a Workload's podSets: a list of sets with
name, count and template. A set without a template is of pods created beforehand, and Workload and
quota follow the pods themselves. Of a template only the fields are kept that admission and
scheduling read (the list in KEP-976, "Groups of Pods created beforehand"), so environment, commands
and volumes in it go no further than this module.

`requests` and `limits` directly under a container, as the KEP's example has them, mean the same as
under `resources`. A count that is not given is 1, as in the Workload API.

Invariant: pure, and accepted sets make podsets that the Workload API accepts.
"""

import hashlib
import re
from typing import Any, Final

import msgspec

from ingest.translate.fields import RefusedError
from ingest.translate.podspec import claims_of, node_terms_of, tolerations_of
from ingest.yamltext import Document, Path, TextError, field_of, read
from podgroup.model.limits import ANNOTATIONS_BYTES
from podgroup.model.names import MAX_ROLES, is_dns_label
from podgroup.model.objects import DeclaredSet
from podgroup.model.quantities import QuantityError, canonical, effective_requests, fault
from podgroup.model.remembering import remembered
from podgroup.model.roles import ShapeError, Variant, role_hash
from podgroup.model.topology import requested

MAX_SETS: Final[int] = MAX_ROLES
MAX_PODS: Final[int] = 100_000
"""Pods that the sets of one group may have together."""

_MAX_ERRORS: Final[int] = 10
_SET: Final = ("name", "count", "template")
_SPEC: Final = (
    "nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority", "priorityClassName",
    "preemptionPolicy", "topologySpreadConstraints", "overhead", "resourceClaims", "resources",
    "schedulerName",
)  # fmt: skip
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
_LABEL_WANTED: Final[str] = (
    "must be a DNS-1123 label: at most 63 characters, lower case letters, digits and '-', "
    "beginning and ending with a letter or digit"
)
_STEPS: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class SetsError(msgspec.Struct, frozen=True):
    """One mistake: line and column in the annotation (from 1; 0 unknown), field, and a sentence."""

    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.field}{': ' if self.field else ''}{self.message}"


class Declared(msgspec.Struct, frozen=True):
    """What the annotation declares: sets, or the errors that keep it from declaring any.

    `key` is equal for annotations that declare the same sets, whatever their form.
    """

    sets: tuple[DeclaredSet, ...]
    key: str
    errors: tuple[SetsError, ...] = ()

    @property
    def problem(self) -> str:
        """The first error, and how many there are besides; "" without errors."""
        if not self.errors:
            return ""
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        return str(self.errors[0]) + more


@remembered
def parse_sets(text: str, variant: Variant = "kueue") -> Declared:
    """Return what an annotation pod-group-sets declares.

    Args:
        text: its value, YAML or JSON, at most 256 KiB.
        variant: which fields make a role hash (`podgroup.model.roles`).
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > ANNOTATIONS_BYTES:
        message = f"is {size} bytes long, at most {ANNOTATIONS_BYTES} are taken: shorten it"
        return _failed(text, (SetsError(0, 0, "", message),))
    try:
        document = read(text)
    except TextError as error:
        where = SetsError(error.line, error.column, field_of(error.path), str(error))
        return _failed(text, (where,))
    reader = _Reader(document, variant)
    sets = reader.sets()
    if reader.errors:
        return _failed(text, tuple(reader.errors[:_MAX_ERRORS]))
    # The template has the claims already, and keys of older logs must not change.
    plain = [msgspec.structs.replace(one, resource_claims=()) for one in sets]
    return Declared(sets, _digest(msgspec.json.encode(plain, order="sorted")))


def _failed(text: str, errors: tuple[SetsError, ...]) -> Declared:
    return Declared((), _digest(text.encode(errors="surrogatepass")), errors)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class _Reader:
    """Reads a document and gathers its errors."""

    def __init__(self, document: Document, variant: Variant) -> None:
        self.document = document
        self.variant = variant
        self.errors: list[SetsError] = []

    def wrong(self, path: Path, message: str) -> None:
        self.errors.append(SetsError(*self.document.position_of(path), field_of(path), message))

    def sets(self) -> tuple[DeclaredSet, ...]:
        data = self.document.data
        if not isinstance(data, list) or not data:
            self.wrong(
                (), f"must be a list of sets, each with name, count and template{_not(data)}"
            )
            return ()
        if len(data) > MAX_SETS:
            self.wrong((), f"has {len(data)} sets, a Workload has at most {MAX_SETS} podsets")
            return ()
        found = [self.one((index,), item) for index, item in enumerate(data)]
        names: dict[str, int] = {}
        for index, one in enumerate(found):
            first = names.setdefault(one.name, index)
            if one.name and first != index:
                self.wrong((index, "name"), f"{one.name!r} is the name of [{first}] already")
        total = sum(one.count for one in found)
        if total > MAX_PODS:
            self.wrong((), f"has {total} pods in all, at most {MAX_PODS} are taken")
        return tuple(found)

    def one(self, path: Path, item: Any) -> DeclaredSet:
        if not isinstance(item, dict):
            self.wrong(path, f"must be a mapping{_not(item)}")
            return DeclaredSet(name="")
        entry: dict[str, Any] = item
        for key in entry:
            if key not in _SET:
                self.wrong((*path, key), f"is not known: a set has {', '.join(_SET)}")
        name, count = entry.get("name"), entry.get("count", 1)
        if not isinstance(name, str) or not is_dns_label(name):
            self.wrong((*path, "name"), f"{_LABEL_WANTED}{_not(name)}")
            name = ""
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_PODS:
            self.wrong((*path, "count"), f"must be an integer from 1 to {MAX_PODS}{_not(count)}")
            count = 1
        return self.template((*path, "template"), entry.get("template"), name, count)

    def template(self, path: Path, item: Any, name: str, count: int) -> DeclaredSet:
        template = {} if item is None else self.mapping(path, item)
        for key in template:
            if key not in ("metadata", "spec"):
                self.wrong((*path, key), "is not known: a template has metadata and spec")
        at = (*path, "spec")
        raw = {} if template.get("spec") is None else self.mapping(at, template["spec"])
        bare = DeclaredSet(name=name, count=count)
        before = len(self.errors)
        metadata = template.get("metadata")
        labels = self.mapping((*path, "metadata"), {} if metadata is None else metadata)
        annotations = labels.get("annotations")
        spec = self.spec(at, raw) if raw else {}
        if not spec or len(self.errors) > before:
            return bare
        try:
            return DeclaredSet(
                name=name,
                count=count,
                requests=effective_requests(spec),
                role=role_hash({"metadata": labels, "spec": spec}, self.variant),
                template=msgspec.json.encode(spec).decode(),
                node_selector=spec.get("nodeSelector") or {},
                tolerations=tolerations_of(msgspec.json.encode(spec.get("tolerations"))),
                node_terms=node_terms_of(msgspec.json.encode(spec.get("affinity"))),
                topology=requested(annotations if isinstance(annotations, dict) else {}),
                resource_claims=claims_of(msgspec.json.encode(spec.get("resourceClaims"))),
            )
        except ShapeError as error:
            field, _, message = str(error).partition(": ")
            self.wrong((*path, *_steps(field)), message)
        except RefusedError as error:
            self.wrong((*path, *_steps(error.path)), str(error))
        except (QuantityError, UnicodeEncodeError) as error:
            self.wrong(at, str(error))
        return bare

    def spec(self, path: Path, raw: dict[str, Any]) -> dict[str, Any]:
        """Return the part of a pod spec that matters, with quantities as texts."""
        spec = {key: raw[key] for key in _SPEC if raw.get(key) is not None}
        for key in ("containers", "initContainers"):
            items = raw.get(key)
            if items is None and key == "initContainers":
                continue
            if not isinstance(items, list) or not items:
                self.wrong((*path, key), f"must be a list of at least one container{_not(items)}")
                continue
            spec[key] = [self.container((*path, key, i), item) for i, item in enumerate(items)]
        if "overhead" in spec:
            spec["overhead"] = self.amounts((*path, "overhead"), spec["overhead"])
        if "resources" in spec:
            spec["resources"] = self.resources((*path, "resources"), spec["resources"])
        return spec

    def container(self, path: Path, item: Any) -> dict[str, Any]:
        raw = self.mapping(path, item)
        name = raw.get("name")
        if not isinstance(name, str) or not is_dns_label(name):
            self.wrong((*path, "name"), f"{_LABEL_WANTED}{_not(name)}")
        found = {key: raw[key] for key in _CONTAINER if raw.get(key) is not None}
        for key in ("image", "restartPolicy"):
            if not isinstance(found.get(key, ""), str):
                self.wrong((*path, key), f"must be a text{_not(found[key])}")
        resources = self.resources((*path, "resources"), found.pop("resources", {}))
        for key in ("requests", "limits"):
            if raw.get(key) is None:
                continue
            if key in resources:
                self.wrong((*path, key), f"is there twice, here and in resources.{key}")
            resources[key] = self.amounts((*path, key), raw[key])
        if resources:
            found["resources"] = resources
        return found

    def resources(self, path: Path, item: Any) -> dict[str, Any]:
        raw = self.mapping(path, item)
        found = {k: self.amounts((*path, k), raw[k]) for k in ("requests", "limits") if raw.get(k)}
        return found | ({"claims": raw["claims"]} if raw.get("claims") else {})

    def amounts(self, path: Path, item: Any) -> dict[str, str]:
        found = {}
        for name, value in self.mapping(path, item).items():
            if why := fault(name, value):
                shown = "" if isinstance(value, (str, int, float)) else _not(value)
                self.wrong((*path, name), why + shown)
            else:
                found[name] = canonical(str(value))
        return found

    def mapping(self, path: Path, item: Any) -> dict[str, Any]:
        if isinstance(item, dict):
            return item
        self.wrong(path, f"must be a mapping{_not(item)}")
        return {}


def _steps(field: str) -> Path:
    return tuple(int(i) if i else name for name, i in _STEPS.findall(field))


def _not(value: Any) -> str:
    """Describe the value that is there instead, in few characters."""
    match value:
        case None:
            return ", nothing is given"
        case dict():
            return ", this is a mapping"
        case list():
            return ", this is a list" if value else ", this list is empty"
        case str():
            return f", not {value[:60]!r}"
        case _:
            return f", not {value}"
