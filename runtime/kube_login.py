"""Who we are to the API server: kubeconfig or service account, TLS, and the session that uses them.

kubernetes_asyncio reads kubeconfigs (contexts, exec plugins, OIDC) and that is all it does here; in
a pod it is not needed (`kube_incluster`). Its models and its watch are not loaded (`kubeconfig`):
the watch decodes each item three times, and a token refresh closes the session under running
watches (kopf#980).

A `Login` is one reading of the configuration with one aiohttp session. When the server says 401, or
certificates change, a new Login replaces it; the old session is closed only after its last user
has let go, so that a running watch never dies of a token refresh.

Invariant: credentials live in memory in the Authorization header only; they are never logged and
never part of an error.
"""

import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from runtime.kube_errors import KubeError, KubeUnavailable
from runtime.kube_incluster import InCluster
from runtime.kubeconfig import library
from runtime.settings import KubernetesSettings

_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
_READ_BUFFER_BYTES = 1024 * 1024


class Login:
    """One reading of the configuration; `hold` and `release` count its users."""

    def __init__(self, configuration: Any, settings: KubernetesSettings, user_agent: str) -> None:
        self._configuration = configuration
        self._users = 0
        self._retired = False
        self.server: str = configuration.host.rstrip("/")
        self.proxy: str | None = configuration.proxy or None
        self.server_hostname: str | None = configuration.tls_server_name or None
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # requests are limited by the client, watches not at all
                ssl=_tls(configuration),
                keepalive_timeout=60,
            ),
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            auto_decompress=True,
            read_bufsize=_READ_BUFFER_BYTES,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s),
            trust_env=False,
        )

    async def headers(self) -> dict[str, str]:
        """Return the Authorization header, from a re-read token file where the configuration names
        a file.
        """
        key = await self._configuration.get_api_key_with_prefix("BearerToken")
        return {"Authorization": key} if key else {}

    def acquire(self) -> None:
        """Count one more user."""
        self._users += 1

    async def release(self) -> None:
        """Count a user less; the last user of a retired login closes its session."""
        self._users -= 1
        if self._retired and self._users == 0:
            await self.session.close()

    async def retire(self) -> None:
        """Close the session now, or when its last user leaves: no new users will come."""
        self._retired = True
        if self._users == 0:
            await self.session.close()


async def log_in(settings: KubernetesSettings, user_agent: str) -> Login:
    """Read the configuration and return a login.

    Raises:
        KubeError: no configuration, or an unusable one; the message says which.
        KubeUnavailable: an exec plugin or an OIDC provider failed.
    """
    path = _kubeconfig(settings)
    if path is None:
        try:
            return Login(InCluster(), settings, user_agent)
        except OSError as error:  # covers a bad certificate (ssl.SSLError)
            raise KubeError(f"cannot use the service account: {error}") from error
    import yaml

    known = library()
    configuration = known.configuration()
    try:
        await known.load(
            config_file=path,
            context=settings.context or None,
            client_configuration=configuration,
            persist_config=False,
        )
        return Login(configuration, settings, user_agent)
    except known.refused as error:
        text = str(error)
        if text.startswith("exec:"):
            raise KubeUnavailable(f"login plugin of {path} failed: {text}") from error
        raise KubeError(f"cannot use {path}: {text}") from error
    except (TypeError, AttributeError) as error:
        # How kubernetes_asyncio meets a file that is YAML but no kubeconfig.
        raise KubeError(f"cannot use {path}: it is empty, or no kubeconfig") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        # OSError covers bad certificates (ssl.SSLError).
        raise KubeError(f"cannot use {path}: {type(error).__name__}: {error}") from error


def _kubeconfig(settings: KubernetesSettings) -> str | None:
    """Return the kubeconfig to read (several paths joined by `:` are merged), None in a pod."""
    named = settings.kubeconfig or os.environ.get("KUBECONFIG", "")
    if named:
        paths = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
        if not any(path.is_file() for path in paths):
            source = "kubernetes.kubeconfig" if settings.kubeconfig else "KUBECONFIG"
            raise KubeError(f"{source} = {named!r}: there is no such file")
        return os.pathsep.join(str(path) for path in paths)
    if os.environ.get(_IN_CLUSTER):
        return None
    usual = Path("~/.kube/config").expanduser()
    if usual.is_file():
        return str(usual)
    raise KubeError(
        "no cluster to talk to: set kubernetes.kubeconfig or KUBECONFIG, or run in a pod with a "
        "service account"
    )


def _tls(configuration: Any) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
