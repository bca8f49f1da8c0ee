"""Patch bodies as functions from the present object to the wanted one.

Theory: the four content types of PATCH differ only in how a body becomes a change; once it is a
function, the write pipeline can repeat it on a newer object when another client was faster.

Invariant: a mutation is pure, and its result is still an object with map-shaped metadata and spec.
"""

from typing import Any

import msgspec

from simcluster import patches, yamltext
from simcluster.errors import ApiError, Obj, bad_request
from simcluster.writes import Mutate

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def mutation(content_type: str, body: bytes, *, custom: bool) -> Mutate:
    """The function a patch is. Raises 400 and 415."""
    if content_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC) or (
        custom and content_type == STRATEGIC
    ):
        if custom:
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types "
                f"include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY}",
            )
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        patch: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if content_type == JSON_PATCH:
        return lambda current: _json_patched(current, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into a map")
    if content_type == MERGE_PATCH:
        return lambda current: _object(patches.merge_patch(current, patch))
    return lambda current: _object(patches.strategic(current, patch))


def _json_patched(current: Obj, operations: Any) -> Obj:
    try:
        return _object(patches.json_patch(current, operations))
    except patches.PatchConflict:
        raise patches.refused() from None


def _object(value: Any) -> Obj:
    """Check that a patched value is still an object, with metadata and a spec that are maps."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata", {}), dict):
        raise bad_request("the patched object is no longer an object")
    if not isinstance(value.get("spec", {}), dict):
        raise bad_request("the patched object's spec is no longer an object")
    return value


def apply_body(body: bytes) -> Obj:
    """The configuration a server-side apply sends, JSON or YAML. Raises 400."""
    try:
        found: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        found = yamltext.load(body)
    if not isinstance(found, dict):
        raise bad_request("error decoding YAML: not an object")
    return found
