"""JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386) and strategic merge, on immutable objects.

Theory: a patch copies only the containers on the way to the changed value; all others are shared
with the old object, which makes the later comparison and the managed-fields difference cheap.
Strategic merge is JSON merge that knows which lists are maps (``merging``).

Invariant: no function here changes its input.
"""

from typing import Any

from simcluster.errors import ApiError, bad_request
from simcluster.merging import ATOMIC_ITEMS, SETS, STRATEGIC_KEYS


class PatchConflict(Exception):
    """A JSON Patch does not apply: a test failed or a path does not exist."""


def refused() -> ApiError:
    """What the server answers to a JSON Patch that does not apply (no word about which step)."""
    text = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", text, {})


def same(a: Any, b: Any) -> bool:
    """JSON equality: 1 equals 1.0, but true is not 1."""
    if isinstance(a, str) or a is None:
        return bool(a == b)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _pointer(path: Any) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise PatchConflict(f"bad path {path!r}")
    parts = path.split("/")[1:]
    if "~" in path:
        return [part.replace("~1", "/").replace("~0", "~") for part in parts]
    return parts


def _index(part: str, size: int) -> int:
    if not part.isdigit() or (len(part) > 1 and part[0] == "0") or int(part) >= size:
        raise PatchConflict(f"no index {part}")
    return int(part)


def _find(document: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(document, dict):
            if part not in document:
                raise PatchConflict(f"no member {part}")
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document))]
        else:
            raise PatchConflict(f"nothing below {part}")
    return document


def _present(document: Any, parts: list[str]) -> Any:
    """The value at a place; ``None`` for none."""
    for part in parts:
        if isinstance(document, dict):
            document = document.get(part)
            continue
        try:
            document = _find(document, [part])
        except PatchConflict:
            return None
    return document


def _change(document: Any, parts: list[str], op: str, value: Any) -> Any:
    """The document with one place added, replaced or removed; copies the path only."""
    head, rest = parts[0], parts[1:]
    if isinstance(document, dict):
        if (rest or op != "add") and head not in document:
            raise PatchConflict(f"no member {head}")
        copy = dict(document)
        if rest:
            copy[head] = _change(document[head], rest, op, value)
        elif op == "remove":
            del copy[head]
        else:
            copy[head] = value
        return copy
    if isinstance(document, list):
        items = list(document)
        if rest:
            at = _index(head, len(items))
            items[at] = _change(items[at], rest, op, value)
        elif op == "add":
            items.insert(len(items) if head == "-" else _index(head, len(items) + 1), value)
        elif op == "remove":
            del items[_index(head, len(items))]
        else:
            items[_index(head, len(items))] = value
        return items
    raise PatchConflict(f"nothing below {head}")


def json_patch(document: Any, operations: Any) -> Any:
    """Apply an RFC 6902 patch. Raises ``PatchConflict``, or 400 when it is no patch."""
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch"
        )
    for operation in operations:
        document = _step(document, operation)
    return document


def _step(document: Any, operation: dict[str, Any]) -> Any:
    parts = _pointer(operation.get("path"))
    match operation.get("op"):
        case "test":
            wanted = operation.get("value")
            # A test for null also holds for a missing value.
            found = (_present if wanted is None else _find)(document, parts)
            if not same(found, wanted):
                raise PatchConflict("test failed")
            return document
        case "add" | "replace" as op:
            if not parts:
                return operation.get("value")
            return _change(document, parts, op, operation.get("value"))
        case "remove":
            if not parts:
                raise PatchConflict("cannot remove the whole document")
            return _change(document, parts, "remove", None)
        case "move":
            source = _pointer(operation.get("from"))
            value = _find(document, source)
            return _change(_change(document, source, "remove", None), parts, "add", value)
        case "copy":
            value = _find(document, _pointer(operation.get("from")))
            return _change(document, parts, "add", value)
        case other:
            raise PatchConflict(f"unknown op {other!r}")


def merge_patch(document: Any, patch: Any) -> Any:
    """Apply an RFC 7386 patch: null removes, maps merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    base: dict[str, Any] = document if isinstance(document, dict) else {}
    found = dict(base)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = merge_patch(base.get(key), value)
        else:
            found[key] = value
    return found


def strategic(document: Any, patch: Any) -> Any:
    """Apply a strategic merge patch to an object of a built-in kind."""
    if not isinstance(patch, dict):
        return patch
    match patch.get("$patch"):
        case "replace":
            return _plain({k: v for k, v in patch.items() if k != "$patch"})
        case "delete":
            return {}
        case _:
            pass
    base: dict[str, Any] = document if isinstance(document, dict) else {}
    found = dict(base)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            found[name] = [item for item in found.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue  # $setElementOrder, $retainKeys: order of lists is not promised
        elif value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = strategic(base.get(key), value)
        elif isinstance(value, list):
            found[key] = _strategic_list(key, base.get(key) or [], value)
        else:
            found[key] = value
    return found


def _strategic_list(name: str, items: list[Any], patch: list[Any]) -> list[Any]:
    if name in SETS:
        return [*items, *(item for item in patch if item not in items)]
    key = STRATEGIC_KEYS.get(name)
    if key is None:
        return _plain(patch)  # type: ignore[no-any-return]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_plain(i) for i in patch if not (isinstance(i, dict) and "$patch" in i)]
    found = list(items)
    for change in patch:
        if not isinstance(change, dict) or key not in change:
            raise bad_request(f"map: {change} does not contain declared merge key: {key}")
        at = next((i for i, item in enumerate(found) if item.get(key) == change[key]), None)
        if change.get("$patch") == "delete":
            if at is not None:
                del found[at]
        elif at is None:
            found.append(_plain(change))
        elif name in ATOMIC_ITEMS:
            found[at] = {**found[at], **_plain(change)}
        else:
            found[at] = strategic(found[at], change)
    return found


def _plain(value: Any) -> Any:
    """A patch value without directives and nulls, as it is stored."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
