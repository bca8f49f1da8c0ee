"""The webhook as `run_ingest` serves it: found and trusted by the API server, and in the way of a
pod's creation. What it decides is tested in tests/webhook."""

import ssl
from pathlib import Path

import msgspec
import pytest

from ingest.registration import own_certificates, registration
from ingest.webhook.install import ServiceEndpoint, UrlEndpoint
from podgroup.log.subjects import check_cluster
from runtime.settings import NatsSettings, Settings, WebhookSettings
from simcluster.client import ApiFailure
from tests.ingest.world import client, ingesting, settings_for, until
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

WEBHOOKS = "admissionregistration.k8s.io"


def plain_pod(name: str, **labels: str) -> dict:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "job"}]},
    }


def with_webhook(settings: Settings, **webhook) -> Settings:
    return msgspec.structs.replace(
        settings, webhook=WebhookSettings(enabled=True, port=0, **webhook)
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_pod_that_names_a_queue_is_gated_by_the_registered_webhook(
    host: str, nats_settings: NatsSettings, cluster: str, tmp_path: Path
):
    assert check_cluster(cluster)
    async with SimCluster() as sim:
        settings = with_webhook(
            settings_for(sim, nats_settings, cluster, tmp_path), url=f"https://{host}:0"
        )
        async with ingesting(settings), client(sim) as kube:
            await until(
                lambda: bool(sim.objects(WEBHOOKS, "validatingwebhookconfigurations")),
                "the webhook is registered",
            )
            queue = {"kueue.x-k8s.io/queue-name": "q"}
            pod = await kube.create("pods", plain_pod("a", **queue), "default")
            assert [g["name"] for g in pod["spec"]["schedulingGates"]] == [
                "kueue.x-k8s.io/admission"
            ]
            assert pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
            bystander = await kube.create("pods", plain_pod("b"), "default")
            assert "schedulingGates" not in bystander["spec"]
            with pytest.raises(ApiFailure, match="denied the request"):
                bad = plain_pod("c", **queue, **{"kueue.x-k8s.io/pod-group-name": "g"})
                await kube.create("pods", bad, "default")


async def test_with_certificates_of_others_the_registration_is_theirs_too(
    nats_settings: NatsSettings, cluster: str, tmp_path: Path
):
    async with SimCluster() as sim:
        base = settings_for(sim, nats_settings, cluster, tmp_path)
        made = own_certificates(with_webhook(base, url="https://127.0.0.1:1"))
        from datetime import UTC, datetime

        made.ensure(datetime.now(UTC))
        pem = tmp_path / "state" / "webhook" / "serving.pem"
        settings = with_webhook(base, cert_file=str(pem))
        async with ingesting(settings) as ingester:
            await ingester.until_ready()
            assert sim.objects(WEBHOOKS, "mutatingwebhookconfigurations") == []


def test_where_the_api_server_finds_us():
    service = registration(Settings(), b"ca", "https://127.0.0.1:9443").endpoint
    assert isinstance(service, ServiceEndpoint)
    assert (service.name, service.namespace) == ("gatelog-webhook", "gatelog-system")
    url = msgspec.structs.replace(Settings(), webhook=WebhookSettings(url="https://host:0"))
    found = registration(url, b"ca", "https://0.0.0.0:1234")
    assert found.endpoint == UrlEndpoint("https://host:1234")
    six = msgspec.structs.replace(Settings(), webhook=WebhookSettings(url="https://[::1]:0"))
    assert registration(six, b"ca", "https://[::1]:1234").endpoint == UrlEndpoint(
        "https://[::1]:1234"
    )
    fixed = msgspec.structs.replace(Settings(), webhook=WebhookSettings(url="https://host:9"))
    assert registration(fixed, b"ca", "https://0.0.0.0:1234").endpoint == UrlEndpoint(
        "https://host:9"
    )


def test_the_certificate_names_what_the_api_server_calls(tmp_path: Path):
    from datetime import UTC, datetime

    own = own_certificates(Settings(state_dir=str(tmp_path)))
    own.ensure(datetime.now(UTC))
    context = ssl.create_default_context(cadata=own.ca_bundle().decode())
    assert context.get_ca_certs()
    from cryptography import x509

    pem = (tmp_path / "webhook" / "serving.pem").read_bytes()
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "gatelog-webhook.gatelog-system.svc" in names.value.get_values_for_type(x509.DNSName)
