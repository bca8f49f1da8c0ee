"""One HTTPS call to an admission webhook, verified against the configuration's CA.

Theory: the API server trusts only ``caBundle``; a certificate signed by another authority, or for
another name than ``NAME.NAMESPACE.svc``, is a failed call. In tests the service's address comes
from a map, the name that is verified does not change.

Invariant: a call either returns the ``response`` of an AdmissionReview with the asked uid, or
raises ``CallFailed`` with the server's words.
"""

import asyncio
import base64
import ssl
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from simcluster.errors import Obj


class CallFailed(Exception):
    """The webhook could not be asked, or answered nonsense."""


class Caller:
    """Keeps a client session, and a TLS context per CA.

    ``services`` maps ``namespace/name`` (or ``namespace/name:port``) to ``host:port`` or an
    ``https://`` address; it may be changed at any time.
    """

    def __init__(self, services: dict[str, str]) -> None:
        self.services = services
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            context = ssl.create_default_context()
            if bundle:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
            self._contexts[bundle] = context
        return context

    def _address(self, config: Obj, timeout_s: int) -> tuple[str, str, str | None]:
        """(address to call, address to print, name to verify)."""
        if config.get("url"):
            url = str(config["url"])
            joined = f"{url}{'&' if '?' in url else '?'}timeout={timeout_s}s"
            return joined, joined, None
        service = config.get("service") or {}
        name, namespace = service.get("name", ""), service.get("namespace", "")
        port = service.get("port", 443)
        path = "/" + str(service.get("path") or "").lstrip("/")
        shown = f"https://{name}.{namespace}.svc:{port}{path}?timeout={timeout_s}s"
        where = self.services.get(f"{namespace}/{name}:{port}") or self.services.get(
            f"{namespace}/{name}"
        )
        if where is None:
            raise CallFailed(f'failed to call webhook: Post "{shown}": service "{name}" not found')
        base = where if "://" in where else f"https://{where}"
        return f"{base.rstrip('/')}{path}?timeout={timeout_s}s", shown, f"{name}.{namespace}.svc"

    async def call(self, hook: Obj, body: Obj, uid: str) -> Obj:
        """Post an AdmissionReview. Raises ``CallFailed``."""
        timeout_s = int(hook.get("timeoutSeconds") or 10)
        config = hook.get("clientConfig") or {}
        url, shown, verify = self._address(config, timeout_s)
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        extra: dict[str, Any] = {}
        if urlsplit(url).scheme == "https":
            extra["ssl"] = self._context(config.get("caBundle") or "")
            extra["server_hostname"] = verify
        try:
            async with self._session.post(
                url,
                data=msgspec.json.encode(body),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                **extra,
            ) as answer:
                status, raw = answer.status, await answer.read()
        except TimeoutError:
            raise _failed(shown, "context deadline exceeded") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise _failed(shown, _certificate(error.certificate_error)) from None
        except aiohttp.ClientConnectorSSLError as error:
            raise _failed(shown, f"tls: {error}") from None
        except aiohttp.ClientConnectorError as error:
            where = urlsplit(url).netloc
            why = (
                "connect: connection refused"
                if "refused" in str(error).lower()
                or (isinstance(error.os_error, ConnectionRefusedError))
                else str(error.os_error)
            )
            raise _failed(shown, f"dial tcp {where}: {why}") from None
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            raise _failed(shown, str(error) or "EOF") from None
        if status != 200:
            text = raw[:200].decode(errors="replace")
            raise CallFailed(f"failed to call webhook: the server responded {status}: {text}")
        return _response(raw, uid)


def _response(raw: bytes, uid: str) -> Obj:
    try:
        review: Any = msgspec.json.decode(raw)
        response = review["response"]
        answered = response["uid"]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise CallFailed("received invalid webhook response: webhook response was absent") from None
    if answered != uid:
        raise CallFailed(
            f'received invalid webhook response: expected response.uid="{uid}", got "{answered}"'
        )
    found: Obj = response
    return found


def _failed(shown: str, why: str) -> CallFailed:
    return CallFailed(f'failed to call webhook: Post "{shown}": {why}')


def _certificate(error: Exception) -> str:
    text = str(error)
    if "hostname" in text.lower() or "IP address mismatch" in text:
        return f"tls: failed to verify certificate: x509: {text}"
    if "expired" in text:
        return "tls: failed to verify certificate: x509: certificate has expired"
    return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
