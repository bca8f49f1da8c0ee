"""Faults of what is around the parts: the API server, its objects, certificates, Kueue.

Invariant: as in `tests.standstill.faults`, all is as it was afterwards. Parts that were started
with certificates keep good ones.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.certificates import SERVING_LIFE, OwnCertificates
from tests.standstill.stack import Stack
from tests.support.faults.answers import answering
from tests.support.processes import KUEUE

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@asynccontextmanager
async def api_answers(status: int, stack: Stack) -> AsyncIterator[None]:
    """The stand-in answers so to everything, for as long as it takes everybody to say so."""
    name = await stack.pod()
    await stack.api.until("past its gate", lambda: stack.past_gate(name))
    rule = {"status": status, "path": "^/api", "retry_after_s": 1 if status == 429 else None}
    async with answering(stack.api, rule, drop_watches=True):
        yield


@asynccontextmanager
async def queue_without(field: str, stack: Stack) -> AsyncIterator[None]:
    """The ClusterQueue lacks a field."""
    path = f"{KUEUE}/clusterqueues/cq-batch"
    kind = "application/json-patch+json"
    before = (await stack.api.call("GET", path))["spec"][field]
    await stack.api.call("PATCH", path, [{"op": "remove", "path": f"/spec/{field}"}], kind=kind)
    try:
        yield
    finally:
        patch = [{"op": "add", "path": f"/spec/{field}", "value": before}]
        await stack.api.call("PATCH", path, patch, kind=kind)


@asynccontextmanager
async def kueue_beside(stack: Stack) -> AsyncIterator[None]:
    """Kueue's registration and settings are there; it sees no namespace. An administrator asks."""
    config = {"integrations": {"frameworks": ["batch/job", "pod"]}}
    maps = "/api/v1/namespaces/kueue-system/configmaps"
    settings = {
        "metadata": {"name": "kueue-manager-config"},
        "data": {"controller_manager_config.yaml": json.dumps(config)},
    }
    hook = {
        "name": "mpod.kb.io",
        "clientConfig": {"url": "https://127.0.0.1:9/kueue"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"none": "has-this"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
            | {"resources": ["pods"]}
        ],
    }
    name = "kueue-mutating-webhook-configuration"
    space = {"metadata": {"name": "kueue-system"}}
    await stack.api.call("POST", "/api/v1/namespaces", space, ok=(201, 409))
    await stack.api.call("POST", maps, settings)
    await stack.api.call("POST", REGISTRATIONS, {"metadata": {"name": name}, "webhooks": [hook]})
    stack.doctors_account = "administrator"
    try:
        yield
    finally:
        stack.doctors_account = "doctor"
        await stack.api.call("DELETE", f"{REGISTRATIONS}/{name}")
        await stack.api.call("DELETE", f"{maps}/kueue-manager-config")


@asynccontextmanager
async def webhook_certificate(stack: Stack) -> AsyncIterator[None]:
    """The webhook serves a certificate that others made and do not renew in time."""
    file = stack.folder / "webhook.pem"
    end = _ending(stack, file)
    for name in ("ingest-1", "ingest-2"):
        child = stack.parts[name]
        await asyncio.to_thread(child.stop)
        child.env |= {
            "GATELOG_WEBHOOK_ENABLED": "true",
            "GATELOG_WEBHOOK_PORT": "0",
            "GATELOG_WEBHOOK_LINGER_S": "0",
            "GATELOG_WEBHOOK_CERT_FILE": str(file),
        }
        child.start()
    await asyncio.sleep((end - datetime.now(UTC)).total_seconds())
    try:
        yield
    finally:
        _renew(stack, file)


@asynccontextmanager
async def serve_certificate(stack: Stack) -> AsyncIterator[None]:
    """The same for two replicas of serve, which are started for it."""
    file = stack.folder / "serve.pem"
    end = _ending(stack, file)
    for name in ("serve-1", "serve-2"):
        own = {"KUBECONFIG": str(stack.kubeconfig), "GATELOG_SERVE_PORT": "0"}
        stack.add(name, own | {"GATELOG_SERVE_CERT_FILE": str(file)})
    await asyncio.sleep((end - datetime.now(UTC)).total_seconds())
    try:
        yield
    finally:
        _renew(stack, file)


def _ending(stack: Stack, file: Path) -> datetime:
    """Write a certificate that ends soon, but not before those who serve it are ready."""
    folder, end = file.with_suffix(".ends"), datetime.now(UTC) + timedelta(seconds=30)
    OwnCertificates(folder, ("localhost",)).ensure(end - SERVING_LIFE)
    file.write_bytes((folder / "serving.pem").read_bytes())
    return end


def _renew(stack: Stack, file: Path) -> None:
    OwnCertificates(stack.folder / "good", ("localhost",)).ensure(datetime.now(UTC))
    file.write_bytes((stack.folder / "good" / "serving.pem").read_bytes())
