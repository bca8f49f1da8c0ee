"""AdmissionReview v1: reading requests and writing responses.

The API server posts one review per object and reads back a verdict under the same uid; the
verdict travels in the body, the HTTP status only says whether there is one. A refusal carries a
Status whose causes list each field, which the API server passes on to the client as it is
(Kubernetes: "Dynamic Admission Control", response).

Invariant: a response always repeats the request's uid, and a patch is only ever sent with
``allowed: true``.
"""

import base64
from typing import Any, Final

import msgspec

from ingest.webhook.fields import FieldError
from ingest.webhook.mutate import PatchOp
from ingest.webhook.pod import Pod
from podgroup.model.limits import WARNING_CHARS

API_VERSION: Final[str] = "admission.k8s.io/v1"
DENIED: Final[int] = 403


class ReviewError(ValueError):
    """The body is no AdmissionReview v1 request; the message says what it is instead."""


class Resource(msgspec.Struct, frozen=True):
    """Group, version and resource of a request."""

    resource: str
    group: str = ""
    version: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """The user that sent a request."""

    username: str = ""
    groups: tuple[str, ...] | None = None


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an admission request that the webhook reads."""

    uid: str
    operation: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: Any = None
    old_object: Any = None
    user_info: UserInfo = UserInfo()

    @property
    def about_pod(self) -> bool:
        """Whether the request is about a pod itself and not about a sub-resource or another."""
        return (self.resource.group, self.resource.resource) == ("", "pods") and (
            not self.sub_resource
        )


class Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """An admission response; written with `encode`."""

    uid: str
    allowed: bool
    patch_type: str = ""
    patch: str = ""
    status: dict[str, Any] | None = None
    warnings: list[str] = []
    audit_annotations: dict[str, str] = {}


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    response: Response
    api_version: str = API_VERSION
    kind: str = "AdmissionReview"


_DECODER: Final[msgspec.json.Decoder[_Review]] = msgspec.json.Decoder(_Review)
_ENCODER: Final[msgspec.json.Encoder] = msgspec.json.Encoder()


def decode(body: bytes) -> Request:
    """Reads the request of an AdmissionReview.

    Raises:
        ReviewError: the body is empty, no JSON, no AdmissionReview v1, or has no request.
    """
    if not body:
        raise ReviewError("the body is empty: post an AdmissionReview (admission.k8s.io/v1)")
    try:
        review = _DECODER.decode(body)
    except RecursionError:
        raise ReviewError("the body is nested too deeply to be an AdmissionReview") from None
    except msgspec.ValidationError as error:
        raise ReviewError(f"the body is not an AdmissionReview: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"the body is not JSON: {error}") from None
    if (review.kind, review.api_version) != ("AdmissionReview", API_VERSION):
        raise ReviewError(
            f"the body is not an AdmissionReview of {API_VERSION}: its kind is "
            f"{review.kind[:60]!r} and its apiVersion {review.api_version[:60]!r}; list v1 in the "
            "webhook configuration's admissionReviewVersions"
        )
    if review.request is None or not review.request.uid:
        raise ReviewError("the AdmissionReview has no request, or a request without uid")
    return review.request


def encode(response: Response) -> bytes:
    """The AdmissionReview that carries a response."""
    return _ENCODER.encode(_Answer(response))


def allow(
    request: Request,
    *,
    patch: tuple[PatchOp, ...] = (),
    warnings: tuple[str, ...] = (),
    disposition: str = "",
) -> Response:
    """A response that lets the request pass, perhaps changed and with warnings."""
    return Response(
        uid=request.uid,
        allowed=True,
        patch_type="JSONPatch" if patch else "",
        patch=base64.b64encode(_ENCODER.encode(patch)).decode() if patch else "",
        warnings=_cut(warnings),
        audit_annotations={"disposition": disposition} if disposition else {},
    )


def deny(
    request: Request,
    pod: Pod,
    errors: tuple[FieldError, ...],
    *,
    warnings: tuple[str, ...] = (),
) -> Response:
    """A response that refuses the request; every error is a cause with its field."""
    texts = [str(error) for error in errors]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = {
        "name": pod.metadata.name or pod.metadata.generate_name,
        "kind": "pods",
        "causes": [
            {"reason": e.kind.value, "message": e.message(), "field": e.path} for e in errors
        ],
    }
    return Response(
        uid=request.uid,
        allowed=False,
        status={
            "status": "Failure",
            "message": f"{listed} ({pod.title()})",
            "reason": "Forbidden",
            "code": DENIED,
            "details": details,
        },
        warnings=_cut(warnings),
    )


def _cut(warnings: tuple[str, ...]) -> list[str]:
    return [warning[:WARNING_CHARS] for warning in warnings]
