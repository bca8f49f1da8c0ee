"""The caller, by the headers of the API server's front proxy.

Theory. The API server passes a request on with a client certificate of an authority of its own, and
names the user in headers. ConfigMap kube-system/extension-apiserver-authentication names the
authority, the names a certificate may bear, and the headers. TLS has verified the certificate
against that authority before a request is read; here its name is compared and the headers are read.

Invariant: without such a certificate the headers mean nothing, and a request that bears them is
refused rather than taken for another user's.
"""

import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from multidict import CIMultiDictProxy

from gatelog.serve.access.callers import Caller, NotKnown

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_USER, _UID, _GROUP, _EXTRA = "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-"
_AUTHENTICATED = "system:authenticated"


class TrustError(Exception):
    """The ConfigMap names no trusted authority; the message says what the ConfigMap lacks."""


class Trust(Struct, frozen=True):
    """The trusted front proxy and the names of its headers. `names` empty: any name."""

    authority: str
    names: frozenset[str] = frozenset()
    user_headers: tuple[str, ...] = (_USER,)
    uid_headers: tuple[str, ...] = (_UID,)
    group_headers: tuple[str, ...] = (_GROUP,)
    extra_prefixes: tuple[str, ...] = (_EXTRA,)


def read_trust(data: Mapping[str, str]) -> Trust:
    """Return the trusted front proxy, by the data of the ConfigMap.

    Raises:
        TrustError: the authority is missing or invalid, or a value is not a list of strings.
    """
    authority = data.get("requestheader-client-ca-file", "")
    if not authority.strip():
        raise TrustError(
            "ConfigMap kube-system/extension-apiserver-authentication names no "
            "requestheader-client-ca-file: the API server has no aggregation layer "
            "(kube-apiserver --requestheader-client-ca-file)"
        )
    try:
        ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise TrustError(f"requestheader-client-ca-file is no certificate: {error}") from None
    return Trust(
        authority=authority,
        names=frozenset(_listed(data, "requestheader-allowed-names", ())),
        user_headers=_listed(data, "requestheader-username-headers", (_USER,)),
        uid_headers=_listed(data, "requestheader-uid-headers", (_UID,)),
        group_headers=_listed(data, "requestheader-group-headers", (_GROUP,)),
        extra_prefixes=_listed(data, "requestheader-extra-headers-prefix", (_EXTRA,)),
    )


def _listed(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    text = data.get(key, "")
    if not text.strip():
        return default
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise TrustError(f"{key} of the ConfigMap is no JSON list of names: {text[:80]!r}")
    return tuple(found) or default


def caller_of(
    trust: Trust, certificate: Mapping[str, Any] | None, headers: CIMultiDictProxy[str]
) -> Caller | None:
    """Return the caller, None if no header names a user.

    `certificate` is the client certificate that TLS verified (`SSLSocket.getpeercert`), else None
    or empty.

    Raises:
        NotKnown: a client that is not the front proxy sent its headers.
    """
    name = next((headers[key] for key in trust.user_headers if headers.get(key)), "")
    if not name:
        return None
    if not certificate:
        raise NotKnown(
            "headers that say who asks are believed only of the API server's front proxy, and "
            "this request came without a client certificate: ask through the API server"
        )
    common = _common_name(certificate)
    if trust.names and common not in trust.names:
        raise NotKnown(
            f"the client certificate is of {common!r}, which requestheader-allowed-names does not "
            "list: ask through the API server"
        )
    groups = [value for key in trust.group_headers for value in headers.getall(key, [])]
    extra: dict[str, list[str]] = {}
    for prefix in trust.extra_prefixes:
        for key, value in headers.items():
            if key.lower().startswith(prefix.lower()):
                extra.setdefault(unquote(key[len(prefix) :].lower()), []).append(value)
    return Caller(
        name=name,
        groups=tuple(dict.fromkeys([*groups, _AUTHENTICATED])),
        uid=next((headers[key] for key in trust.uid_headers if headers.get(key)), ""),
        extra=tuple(sorted((key, tuple(values)) for key, values in extra.items())),
    )


def _common_name(certificate: Mapping[str, Any]) -> str:
    for relative in certificate.get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                return str(value)
    return ""
