"""The chart, by the real helm: it is what kustomize builds, and values do what they say."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatelog.cluster.policies import policies
from gatelog.shell.remedies import RELEASE
from runtime.settings import Settings, WebhookSettings
from runtime.settings_source import load
from simcluster.client import Client
from tests.deploy import helm, reference
from tests.deploy.manifests import DEPLOY, Json, parsed
from tests.support.standin import SimCluster

pytestmark = [
    pytest.mark.skipif(helm.helm() is None, reason="no helm for this machine"),
    pytest.mark.slow("helm renders the chart some hundred times"),
]

ROOT = Path(__file__).parents[2]
PARTS = ("ingest", "projector", "actuator", "serve")
HOOK = "helm.sh/hook"
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by")
SECRETS: Json = {
    "nats": {"existingSecret": "gatelog-nats"},
    "database": {"readerSecret": "gatelog-database-reader"},
}
"""Secrets as deploy/secrets.sh makes them."""
EQUAL: dict[tuple[str, ...], Json] = {
    ("evaluation",): {"profile": "standalone"},
    ("production",): SECRETS,
    ("production", "secrets"): {"database": SECRETS["database"]},
    ("production", "forecast"): {
        **SECRETS,
        "forecast": {"enabled": True},
    },
    ("kueue",): {
        **SECRETS,
        "mode": "kueue",
        "crds": {"install": False},
        "serve": {"enabled": False},
        "admission": {"way": "webhook", "webhook": {"certificates": "certManager"}},
    },
}
"""Values that make of the chart what an overlay is with further components."""


def key(obj: Json) -> tuple[str, str]:
    return obj["kind"], _unhashed(obj["metadata"]["name"])


def _unhashed(name: str) -> str:
    return re.sub(r"^(gatelog-(?:settings|nats-server|secrets))-[-a-z0-9]+$", r"\1", name)


def plain(value: Any) -> Any:
    """Without what says nothing: order of named things, empty values, folds, helm's release."""
    if isinstance(value, dict):
        found = {k: plain(v) for k, v in value.items()}
        return {k: v for k, v in found.items() if v not in (None, {}, [])}
    if isinstance(value, list):
        items = [plain(v) for v in value]
        items = [v for v in items if not (isinstance(v, dict) and v.get("name") == RELEASE)]
        if all(isinstance(item, dict) and "name" in item for item in items):
            items.sort(key=lambda item: (item["name"], item.get("mountPath", "")))
        return items
    return _unhashed(" ".join(value.split())) if isinstance(value, str) else value


def comparable(obj: Json) -> Json:
    meta = dict(obj["metadata"])
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k not in OF_HELM}
    meta["annotations"] = {
        k: v for k, v in (meta.get("annotations") or {}).items() if k != "helm.sh/resource-policy"
    }
    if "admissionregistration" in obj["apiVersion"]:
        meta.pop("namespace", None)  # these kinds have none; kustomize does not know them
    return dict(plain(obj | {"metadata": meta}))


@pytest.mark.skipif(helm.kubectl() is None, reason="kustomize comes with kubectl")
@pytest.mark.parametrize("chosen", list(EQUAL), ids=" ".join)
def test_the_chart_is_what_kustomize_builds(chosen: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(_copied(*chosen, to=tmp_path)))
    done = subprocess.run(
        [str(helm.kubectl()), "kustomize", str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    built = {key(o): comparable(o) for o in parsed(done.stdout)}
    del built["Namespace", "gatelog-system"]  # helm makes it, or whoever runs helm
    made = {key(o): comparable(o) for o in helm.rendered(EQUAL[chosen], "--no-hooks")}
    # For helm test alone.
    made = {name: obj for name, obj in made.items() if not name[1].startswith("gatelog-doctor")}
    assert set(made) == set(built)
    for name, obj in built.items():
        assert made[name] == obj, name


def _copied(overlay: str, *more: str, to: Path) -> Json:
    """The overlay as somebody has it who copied it to a folder and added components."""
    here = DEPLOY / "overlays" / overlay
    found: Json = yaml.safe_load((here / "kustomization.yaml").read_text())
    found["components"] += [f"../../components/{one}" for one in more]
    for listed in (found["resources"], found["components"]):
        listed[:] = [os.path.relpath((here / path).resolve(), to.resolve()) for path in listed]
    return found


def by_name(values: Json | None = None, **more: Any) -> dict[tuple[str, str], Json]:
    return {key(o): o for o in helm.rendered(values, **more)}


def containers(objects: dict[tuple[str, str], Json]) -> dict[str, Json]:
    found = {
        obj["metadata"]["labels"]["app.kubernetes.io/component"]: obj["spec"]["template"]["spec"]
        for (kind, _), obj in objects.items()
        if kind in ("Deployment", "StatefulSet", "Job")
    }
    return found | {"doctor": objects["Pod", "gatelog-doctor"]["spec"]}


def variables(spec: Json) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in spec["containers"][0].get("env") or ()}


def test_what_a_platform_asks_of_pods_reaches_all_of_them() -> None:
    toleration = {"key": "infra", "operator": "Exists"}
    mounts = [{"name": "authorities", "mountPath": "/etc/authorities"}]
    pods = {
        "nodeSelector": {"pool": "infra"},
        "tolerations": [toleration],
        "priorityClassName": "system-cluster-critical",
        "annotations": {"sidecar.istio.io/inject": "false"},
        "labels": {"team": "batch"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
        "extraVolumeMounts": mounts,
        "serviceAccountAnnotations": {"example.com/role": "reader"},
        "podSecurityContext": {"fsGroup": None, "supplementalGroups": [7]},
        "securityContext": {"readOnlyRootFilesystem": False},
    }
    objects = by_name(
        {
            "image": {
                "repository": "registry.example/gatelog",
                "tag": "9",
                "pullSecrets": ["registry"],
                "pullPolicy": "Always",
            },
            "pods": pods,
            "parts": {
                "projector": {
                    "replicas": 3,
                    "resources": {"limits": {"memory": "4Gi"}},
                    "nodeSelector": {"disk": "fast"},
                }
            },
        }
    )
    found = containers(objects)
    assert set(found) == {*PARTS, "nats", "secrets", "uninstall", "doctor"}
    for part, spec in found.items():
        assert spec["nodeSelector"]["pool"] == "infra" and toleration in spec["tolerations"]
        assert spec["priorityClassName"] == "system-cluster-critical"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        context = spec["securityContext"]
        assert "fsGroup" not in context and context["supplementalGroups"] == [7]
        assert context["runAsNonRoot"] is True, "the rest stays"
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] is False and own["capabilities"]["drop"] == ["ALL"]
            if part == "nats":
                continue
            assert container["image"] == "registry.example/gatelog:9"
            assert container["imagePullPolicy"] == "Always"
            assert mounts[0] in container["volumeMounts"]
            assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
        names = [volume["name"] for volume in spec["volumes"]]
        assert len(names) == len(set(names)) and ("authorities" in names) == (part != "nats")
    accounts = [o for (kind, _), o in objects.items() if kind == "ServiceAccount"]
    assert len(accounts) == 7
    for account in accounts:
        assert account["metadata"]["annotations"]["example.com/role"] == "reader"
    projector = objects["Deployment", "gatelog-projector"]["spec"]
    assert projector["replicas"] == 3 and found["projector"]["nodeSelector"]["disk"] == "fast"
    assert found["projector"]["containers"][0]["resources"] == {"limits": {"memory": "4Gi"}}
    labels = projector["template"]["metadata"]["labels"]
    assert labels["team"] == "batch" and "team" not in projector["selector"]["matchLabels"]


def test_settings_are_settings() -> None:
    settings = {
        "log": {"level": "debug"},
        "streams": {"replicas": 3},
        "queueing": {"label_keys_to_copy": ["team", "project"]},
    }
    objects = by_name(
        {
            "settings": settings,
            "cluster": "prod-1",
            "mode": "kueue",
            "nats": {"install": False, "url": "tls://a:4222,tls://b:4222"},
            "admission": {"excludedNamespaces": ["monitoring"]},
        }
    )
    assert ("StatefulSet", "nats") not in objects
    text = objects["ConfigMap", "gatelog-settings"]["data"]["gatelog.toml"]
    for part in ("ingest", "projector", "actuator", "serve"):
        given = variables(containers(objects)[part])
        given.pop("GATELOG_CONFIG")
        file = Path(sys.prefix) / "chart-settings.toml"
        file.write_text(text)
        found = load(file, {k: v for k, v in given.items() if k.startswith("GATELOG_")})
        assert (found.cluster, found.mode) == ("prod-1", "kueue")
        assert found.queueing.label_keys_to_copy == ["team", "project"] or (
            tuple(found.queueing.label_keys_to_copy) == ("team", "project")
        )
        assert found.streams.replicas == 3 and found.nats.url.startswith("tls://a:4222")
        assert "monitoring" in found.webhook.excluded_namespaces
    for name in ("gatelog-queued-pods", "gatelog-owner-labels"):
        policy = objects["MutatingAdmissionPolicy", name]["spec"]["matchConstraints"]
        (wish,) = policy["namespaceSelector"]["matchExpressions"]
        assert wish["values"] == ["kube-system", "gatelog-system", "monitoring"]


def test_the_schema_has_every_setting_and_no_other() -> None:
    """After a change of settings: `python -m tests.deploy.reference`."""
    assert json.loads(reference.SCHEMA.read_text()) == reference.chart_schema()


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Every value that values.yaml names, but for what goes below a free name."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from paths(inner, f"{at}/{key}")
    else:
        yield at


def test_every_value_has_a_place_in_the_schema() -> None:
    schema = json.loads(reference.SCHEMA.read_text())
    for path in paths(yaml.safe_load((helm.CHART / "values.yaml").read_text())):
        node = schema
        for name in path.strip("/").split("/"):
            assert node["properties"].get(name), path
            node = node["properties"][name]
            while "$ref" in node:
                node = schema["$defs"][node["$ref"].rpartition("/")[2]]
            if "properties" not in node:
                break


def test_leases_are_those_of_the_cluster() -> None:
    """Rights name the Leases: with others a part would never work."""
    objects = by_name({"cluster": "prod-1", "mode": "kueue"})

    def named(part: str) -> list[str]:
        (rule, _) = objects["Role", f"gatelog-{part}-lease"]["rules"]
        return list(rule["resourceNames"])

    assert named("ingest") == ["gatelog-ingest-prod-1"]
    assert named("projector") == ["gatelog-projector-prod-1-0"]


@pytest.mark.parametrize("way", ["certManager", "self", "secret"])
def test_what_is_said_of_the_webhook_is_said_of_each_way(way: str) -> None:
    hook = {
        "certificates": way,
        "secretName": "mine",
        "failurePolicy": "Ignore",
        "caBundle": "QQ==",
    }
    serve = {"certificates": "certManager", "secretName": "theirs"}
    admission = {"way": "webhook", "everyPod": True, "webhook": hook | {"timeoutSeconds": 3}}
    objects = by_name({"admission": admission, "serve": serve})
    assert objects["Certificate", "gatelog-serve"]["spec"]["secretName"] == "theirs"
    ingest = containers(objects)["ingest"]
    if way == "certManager":
        assert objects["Certificate", "gatelog-webhook"]["spec"]["secretName"] == "mine"
    said = {k: v for k, v in variables(ingest).items() if k.startswith("GATELOG_WEBHOOK")}
    assert load(None, said).webhook.timeout_s == 3
    mounted = [v["secret"]["secretName"] for v in ingest["volumes"] if "secret" in v]
    assert ("mine" in mounted) == (way != "self")
    registered = objects["MutatingWebhookConfiguration", "gatelog-pods"]["webhooks"]
    assert {(h["failurePolicy"], h["timeoutSeconds"]) for h in registered} == {("Ignore", 3)}


def test_pods_without_a_queue_are_not_let_past_a_webhook_that_gates_every_pod() -> None:
    def policies(every: bool) -> dict[str, str]:
        objects = by_name({"admission": {"way": "webhook", "everyPod": every}})
        registered = objects["MutatingWebhookConfiguration", "gatelog-pods"]["webhooks"]
        return {hook["name"]: hook["failurePolicy"] for hook in registered}

    assert policies(every=False)["unqueued.mpod.gatelog"] == "Ignore"
    assert set(policies(every=True).values()) == {"Fail"}


@pytest.mark.parametrize("every", [False, True])
def test_the_policy_of_the_chart_is_that_of_the_settings(every: bool) -> None:
    name = ("MutatingAdmissionPolicy", "gatelog-queued-pods")
    made = by_name({"admission": {"way": "policy", "everyPod": every}})[name]["spec"]
    chosen = WebhookSettings(manage_jobs_without_queue_name=every)
    (wanted,) = (
        o["spec"]
        for o in policies(Settings(webhook=chosen))
        if (o["kind"], o["metadata"]["name"]) == name
    )
    for part in ("matchConditions", "variables", "mutations"):
        assert made[part] == wanted[part]


def test_who_makes_groups_of_sets_may_read_them_and_no_one_else() -> None:
    read = {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list", "watch"]}
    kinds = ["LeaderWorkerSet", "StatefulSet"]
    name = ("MutatingAdmissionPolicy", "gatelog-queued-pods")
    for chosen in ([], kinds):
        objects = by_name({"settings": {"queueing": {"owned_groups": chosen}}})
        role = objects.get(("ClusterRole", "gatelog-owned-groups"), {"rules": []})
        assert role["rules"] == ([read] if chosen else [])
        found = {v["name"]: v["expression"] for v in objects[name]["spec"]["variables"]}
        assert found["ownedGroups"] == str(chosen)


def test_logs_and_databases_of_ones_own() -> None:
    log, base = (
        [{"podSelector": {"matchLabels": {"a": "b"}}}],
        [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
    )
    objects = by_name(
        {
            "nats": {"install": False, "url": "tls://a:4222", "existingSecret": "my-log"},
            "database": {
                "url": "postgresql://db/ledger",
                "existingSecret": "my-database",
                "readerSecret": "my-reader",
            },
            "networkPolicies": {"log": {"to": log}, "database": {"to": base}},
        }
    )
    found = containers(objects)
    for part in (*PARTS, "doctor"):
        mounted = {v["secret"]["secretName"] for v in found[part]["volumes"] if "secret" in v}
        assert not mounted & {"gatelog-nats", "gatelog-database", "gatelog-database-reader"}
        given = variables(found[part])
        assert given["GATELOG_DATABASE_URL"] == "postgresql://db/ledger"
        assert part == "serve" or given["GATELOG_NATS_URL"] == "tls://a:4222"
    assert objects["NetworkPolicy", "gatelog-log"]["spec"]["egress"][0]["to"] == log
    assert objects["NetworkPolicy", "gatelog-database"]["spec"]["egress"][0]["to"] == base
    stored = by_name(
        {
            "nats": {
                "image": {"repository": "r/nats", "tag": "3"},
                "storage": {"size": "7Gi", "className": "fast"},
            }
        }
    )["StatefulSet", "nats"]["spec"]
    assert stored["template"]["spec"]["containers"][0]["image"] == "r/nats:3"
    claim = stored["volumeClaimTemplates"][0]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "7Gi")


def ports(policy: Json) -> list[list[int]]:
    return [[p["port"] for p in rule["ports"]] for rule in policy["spec"]["egress"]]


def test_network_policies_let_through_what_the_urls_name() -> None:
    peer = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    given: Json = {
        "nats": {"install": False, "url": "tls://a:4333,tls://b"},
        "database": {"url": "postgresql://u:p@one:6432,two/ledger?sslmode=require"},
        "networkPolicies": {
            "apiServer": {"ports": [8443], "to": peer},
            "dns": {"ports": [5353], "to": []},
        },
        "forecast": {"enabled": True},
    }
    objects = by_name(given)
    found = {name: ports(o) for (kind, name), o in objects.items() if name != "gatelog-webhook"
             and kind == "NetworkPolicy" and "egress" in o["spec"]}  # fmt: skip
    server, log, base = [8443], [4333, 4222], [6432, 5432]
    assert found == {
        "gatelog-names": [[5353, 5353]],
        "gatelog-api-server": [server],
        "gatelog-log": [log],
        "gatelog-database": [base],
        "gatelog-serve": [server, base],
        "gatelog-forecast": [server, base],
        "gatelog-doctor": [server, log, base],
        "gatelog-uninstall": [server],
    }
    assert objects["NetworkPolicy", "gatelog-uninstall"]["spec"]["egress"][0]["to"] == peer
    assert not objects["NetworkPolicy", "gatelog-names"]["spec"]["egress"][0]["to"], "anywhere"
    given["networkPolicies"]["database"] = {"ports": [7000]}
    given["database"]["url"] = "postgresql:///ledger?port=6000"
    assert ports(by_name(given)["NetworkPolicy", "gatelog-database"]) == [[7000]]
    del given["networkPolicies"]["database"]
    assert ports(by_name(given)["NetworkPolicy", "gatelog-database"]) == [[6000]]


def test_each_part_can_be_run_in_another_way() -> None:
    digest = "sha256:" + "0" * 64
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    objects = by_name(
        {
            "image": {"digest": digest},
            "admission": {
                "way": "webhook",
                "webhook": {"certificates": "certManager", "issuerRef": {"name": "corporate"}},
            },
            "parts": {
                "ingest": {
                    "hostNetwork": True,
                    "strategy": strategy,
                    "topologySpreadConstraints": spread,
                    "readinessProbe": {"timeoutSeconds": 9},
                },
                "serve": {"dnsPolicy": "Default"},
            },
        }
    )
    ingest = objects["Deployment", "gatelog-ingest"]["spec"]
    spec = ingest["template"]["spec"]
    assert ingest["strategy"] == strategy and spec["topologySpreadConstraints"] == spread
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (container,) = spec["containers"]
    assert container["image"] == f"gatelog@{digest}"
    assert {"name": "IMAGE_DIGEST", "value": digest} in container["env"]
    ready = container["readinessProbe"]
    assert ready["timeoutSeconds"] == 9 and ready["httpGet"]["path"] == "/readyz"
    assert containers(objects)["serve"]["dnsPolicy"] == "Default"
    certificate = objects["Certificate", "gatelog-webhook"]["spec"]
    assert certificate["issuerRef"] == {"name": "corporate"}
    assert ("Issuer", "gatelog-webhook") not in objects


def test_a_part_adds_to_what_all_have_in_common() -> None:
    common = {
        "extraEnv": [{"name": "A", "value": "all"}],
        "extraVolumes": [{"name": "all", "emptyDir": {}}],
        "serviceAccountAnnotations": {"role": "all", "team": "batch"},
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "annotations": {"of": "all"},
        "securityContext": {"runAsUser": 7},
    }
    own = {
        "extraEnv": [{"name": "B", "value": "own"}],
        "extraVolumes": [{"name": "own", "emptyDir": {}}],
        "serviceAccountAnnotations": {"role": "own"},
        "topologySpreadConstraints": [],
        "annotations": {"of": "own"},
        "securityContext": {"runAsUser": 8},
        "image": {"repository": "own", "tag": "1", "pullPolicy": "Never"},
    }
    digest = "sha256:" + "1" * 64
    parts = {
        "projector": own,
        "jobs": {"image": {"digest": digest}},
        "nats": {"image": own["image"]},
    }
    for profile in ("production", "standalone"):
        chosen = {"standalone": own} if profile == "standalone" else parts
        objects = by_name({"profile": profile, "pods": common, "parts": chosen})
        found = containers(objects)
        part = "projector" if profile == "production" else "standalone"
        spec = found[part]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            said = [e for e in container["env"] if e["name"] in "AB"]
            assert said == [*common["extraEnv"], *own["extraEnv"]]
            assert (container["image"], container["imagePullPolicy"]) == ("own:1", "Never")
            assert container["securityContext"]["runAsUser"] == 8
        assert {"all", "own"} <= {volume["name"] for volume in spec["volumes"]}
        assert not spec["topologySpreadConstraints"]
        account = objects["ServiceAccount", spec["serviceAccountName"]]["metadata"]
        assert account["annotations"] == {"role": "own", "team": "batch"}
        if profile == "production":
            assert found["serve"]["topologySpreadConstraints"] == [{"topologyKey": "zone"}]
            assert found["serve"]["containers"][0]["securityContext"]["runAsUser"] == 7
            for job in ("secrets", "doctor", "uninstall"):
                assert found[job]["containers"][0]["image"] == f"gatelog@{digest}"
            assert found["nats"]["containers"][0]["image"] == "own:1"


@pytest.mark.parametrize("profile", ["standalone", "production"])
def test_services_have_the_families_that_are_asked_for(profile: str) -> None:
    services = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    monitored = {"serviceMonitor": {"enabled": True}}
    values = {"profile": profile, "admission": {"way": "webhook"}, "metrics": monitored}
    for given in (services, {}):
        made = by_name(values | ({"services": given} if given else {}))
        found = [o["spec"] for (kind, _), o in made.items() if kind == "Service"]
        assert len(found) == (7 if profile == "production" else 3)
        assert all(given.items() <= spec.items() for spec in found)
        assert given or not [spec for spec in found if "ipFamilyPolicy" in spec]
    objects = by_name(
        {
            "nats": {"install": False, "url": "nats://[fd00::1]:4333,nats://[fd00::2]"},
            "database": {"url": "postgresql://u@[fd00::3]:6432/ledger"},
        }
    )
    assert ports(objects["NetworkPolicy", "gatelog-log"]) == [[4333, 4222]]
    assert ports(objects["NetworkPolicy", "gatelog-database"]) == [[6432]]


SOME: list[Json] = [
    {},
    {"admission": {"way": "webhook"}},
    {"admission": {"way": "webhook", "webhook": {"certificates": "certManager"}}},
    {"admission": {"way": "toWebhook", "everyPod": True}, "forecast": {"enabled": True}},
    {"admission": {"way": "none"}, "mode": "kueue", "serve": {"certificates": "certManager"}},
    {"metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}}},
    {"crds": {"install": False}, "uninstall": {"hook": False}, "cluster": "prod-1"},
    {"pods": {"extraEnv": [{"name": "A", "value": "1"}], "labels": {"b": "1", "a": "2"}}},
]
"""Combinations of values, in each profile."""


@pytest.mark.parametrize("profile", ["standalone", "production"])
def test_two_renderings_are_the_same_byte_by_byte(profile: str) -> None:
    asked = ["template", "gatelog", str(helm.CHART), "-n", "queueing", "--kube-version", "1.36.0"]
    for values in (*SOME, {"serve": {"enabled": False}, "settings": {"log": {"level": "debug"}}}):
        one, other, upgraded = (
            helm.run(*asked, *more, values=values | {"profile": profile})
            for more in ((), (), ("--is-upgrade",))
        )
        assert one.returncode == 0, one.stderr
        assert not one.stderr and one.stdout == other.stdout
        assert one.stdout == upgraded.stdout, "an upgrade is the same as an installation"
        for obj in parsed(one.stdout):
            hook = (obj["metadata"].get("annotations") or {}).get(HOOK)
            assert hook in (None, "test", "pre-delete"), "nothing comes before or after"


def test_another_namespace_is_another_everywhere() -> None:
    for values in ({}, EQUAL["kueue",]):
        given: Json = {"profile": "production", "admission": {"way": "webhook"}} | values
        done = helm.run("template", "gatelog", str(helm.CHART), "-n", "queueing", values=given)
        assert "gatelog-system" not in re.sub(r"^#.*|/#.*", "", done.stdout, flags=re.MULTILINE)
        objects = parsed(done.stdout)
        ingest = next(o for o in objects if key(o) == ("Deployment", "gatelog-ingest"))
        said = variables(ingest["spec"]["template"]["spec"])
        assert said["GATELOG_WEBHOOK_SERVICE_NAMESPACE"] == "queueing"
        assert said["GATELOG_WEBHOOK_EXCLUDED_NAMESPACES"] == "kube-system,queueing"


def test_one_command_brings_one_pod_that_needs_nothing() -> None:
    objects = by_name({"profile": "standalone"})
    assert not [name for kind, name in objects if kind == "Deployment"]
    spec = containers(objects)["standalone"]
    secrets = [v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v]
    assert not secrets and "GATELOG_SERVE_CERT_FILE" not in variables(spec)
    doctor = containers(objects)["doctor"]
    assert not [v for v in doctor["volumes"] if "secret" in v]
    assert "GATELOG_FORECAST_INTERVAL_S" not in variables(spec), "as `gatelog up` has it"
    silent = by_name({"profile": "standalone", "forecast": {"enabled": False}})
    assert variables(containers(silent)["standalone"])["GATELOG_FORECAST_INTERVAL_S"] == "0"


def test_what_gates_is_chosen_and_refused_where_it_cannot_be() -> None:
    asked = ["template", "gatelog", str(helm.CHART), "-n", "gatelog-system"]
    for version in ("1.30.0", "1.35.9", "1.36.0", "1.37.1-gke.7"):
        done = helm.run(*asked, "--kube-version", version)
        assert (done.returncode == 0) == (version > "1.36")
        assert (
            done.returncode == 0
            or (f"needs Kubernetes 1.36 (MutatingAdmissionPolicy v1), and this is v{version}")
            in done.stderr
        )
        webhook = helm.run(*asked, "--kube-version", version, "--set", "admission.way=webhook")
        assert webhook.returncode == 0, webhook.stderr


HELPERS = ("gatelog-doctor", "gatelog-uninstall")
"""How the names of what is no part of an installation begin."""


def test_one_pod_serves_the_webhook_where_there_are_no_policies() -> None:
    objects = by_name({"profile": "standalone", "admission": {"way": "webhook"}})
    assert ("MutatingAdmissionPolicy", "gatelog-queued-pods") not in objects
    assert ("MutatingWebhookConfiguration", "gatelog-pods") in objects
    labels = objects["StatefulSet", "gatelog"]["spec"]["template"]["metadata"]["labels"]
    for name in ("gatelog-webhook", "gatelog-serve"):
        assert objects["Service", name]["spec"]["selector"].items() <= labels.items()
    ready_or_not = objects["Service", "gatelog-webhook"]["spec"]["publishNotReadyAddresses"]
    assert ready_or_not, "one /readyz for all parts: a slow console would refuse pods"
    assert variables(containers(objects)["standalone"])["GATELOG_WEBHOOK_ENABLED"] == "true"
    for (kind, name), obj in objects.items():
        if kind.endswith("RoleBinding") and not name.startswith(HELPERS):
            assert {s["name"] for s in obj["subjects"]} == {"gatelog-actuator"}, name


@pytest.mark.parametrize("empty", [False, True])
def test_its_volume_is_a_claim_or_goes_with_the_pod(*, empty: bool) -> None:
    storage = {"size": "3Gi", "className": "" if empty else "fast", "emptyDir": empty}
    objects = by_name({"profile": "standalone", "standalone": {"storage": storage}})
    spec = objects["StatefulSet", "gatelog"]["spec"]
    if empty:
        assert "volumeClaimTemplates" not in spec
        (state,) = (v for v in spec["template"]["spec"]["volumes"] if v["name"] == "state")
        assert state["emptyDir"] == {"sizeLimit": "3Gi"}
    else:
        claim = spec["volumeClaimTemplates"][0]["spec"]
        assert claim["storageClassName"] == "fast"
        assert claim["resources"]["requests"]["storage"] == "3Gi"


def test_production_has_the_secrets_of_its_log_made_in_the_cluster() -> None:
    objects = by_name()
    assert not {"data", "stringData"} & set(objects["Secret", "gatelog-nats"]), "the Job's"
    job, other = (
        found["Job", "gatelog-secrets"] for found in (objects, by_name({"image": {"tag": "9"}}))
    )
    assert job["metadata"]["name"] != other["metadata"]["name"], "a Job cannot be changed"
    spec = job["spec"]["template"]["spec"]
    wanted = "secrets --namespace gatelog-system --secret gatelog-nats"
    assert spec["containers"][0]["args"] == wanted.split()
    assert objects["Role", spec["serviceAccountName"]]["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["gatelog-nats"],
            "verbs": ["get", "patch"],
        }
    ]
    for values in ({"nats": {"existingSecret": "mine"}}, {"nats": {"install": False}}):
        kinds = by_name(values)
        assert not {("Secret", "gatelog-nats"), ("Role", "gatelog-secrets")} & set(kinds)
    mounted = containers(objects)["serve"]["volumes"]
    (reader,) = (v["secret"]["secretName"] for v in mounted if v["name"] == "database")
    assert reader == "gatelog-database", "unless a role of its own is given"


@pytest.mark.parametrize("by", ["an older chart", "the Job"])
async def test_an_upgrade_empties_no_secret_that_helm_made(by: str, tmp_path: Path) -> None:
    async with SimCluster(front_proxy=True) as cluster:
        await cluster.create("", "namespaces", {"metadata": {"name": "gatelog-system"}})
        made = {"name": "gatelog-nats", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
        if by == "the Job":
            made["annotations"] = {"gatelog.io/filled-by": "gatelog-secrets"}
        secret = {"metadata": made, "data": {"ingest": "c2VjcmV0"}}
        await cluster.create("", "secrets", secret, "gatelog-system")
        asked = ["template", "gatelog", str(helm.CHART), "-n", "gatelog-system"]
        asked += _upgrading(cluster, tmp_path)
        done = await asyncio.to_thread(helm.run, *asked, values=_simulable("production"))
        assert (done.returncode == 0) == (by == "the Job"), done.stderr
        if by != "the Job":
            assert "annotate secret gatelog-nats helm.sh/resource-policy=keep" in done.stderr
            kept = _simulable("production") | {"nats": {"existingSecret": "gatelog-nats"}}
            again = await asyncio.to_thread(helm.run, *asked, values=kept)
            assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("there", ["CA alone", "CA of others", "with replicas' own"])
async def test_an_upgrade_takes_no_authority_away_that_helm_made(
    there: str, tmp_path: Path
) -> None:
    """Pods that name a queue would be refused until all of ingest is rolled out."""
    made = {"name": "gatelog-webhook-tls", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    if there == "CA of others":
        del made["labels"]
    secret = {"metadata": made, "data": {"ca.crt": "QUJD"}}
    bundle = "QUJDQUJD" if there == "with replicas' own" else "QUJD"
    hook = {"certificates": "secret", "caBundle": bundle}
    kept = {"admission": {"way": "webhook", "webhook": hook}}
    async with SimCluster(front_proxy=True) as cluster:
        await cluster.create("", "namespaces", {"metadata": {"name": "gatelog-system"}})
        await cluster.create("", "secrets", secret, "gatelog-system")
        registered = by_name(kept)["ValidatingWebhookConfiguration", "gatelog-pods"]
        group, plural = "admissionregistration.k8s.io", "validatingwebhookconfigurations"
        await cluster.create(group, plural, registered)
        asked = ["template", "gatelog", str(helm.CHART), "-n", "gatelog-system"]
        asked += _upgrading(cluster, tmp_path)
        own = _simulable("production") | {"admission": {"way": "webhook"}}
        done = await asyncio.to_thread(helm.run, *asked, values=own)
        assert (done.returncode == 0) == (there != "CA alone"), done.stderr
        if there == "CA alone":
            assert "annotate secret gatelog-webhook-tls helm.sh/resource-policy=keep" in done.stderr
            again = await asyncio.to_thread(helm.run, *asked, values=own | kept)
            assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("way", ["secret", "certManager", "self"])
def test_certificates(way: str) -> None:
    hook = {"certificates": way, "caBundle": "QUJD"}
    objects = by_name({"admission": {"way": "webhook", "webhook": hook}})
    replicas = objects["Deployment", "gatelog-ingest"]["spec"]["replicas"]
    assert replicas == 2
    registered = objects.get(("MutatingWebhookConfiguration", "gatelog-pods"))
    assert registered is not None
    assert (("Certificate", "gatelog-webhook") in objects) == (way == "certManager")
    mounted = [v["name"] for v in containers(objects)["ingest"]["volumes"]]
    assert ("webhook" in mounted) == (way != "self")
    bundles = {hook["clientConfig"].get("caBundle") for hook in registered["webhooks"]}
    assert bundles == ({"QUJD"} if way == "secret" else {None}), "others fill it in"
    injected = "cert-manager.io/inject-ca-from" in (registered["metadata"].get("annotations") or ())
    assert injected == (way == "certManager")


def test_metrics_over_tls_and_monitors() -> None:
    objects = by_name(
        {
            "metrics": {
                "tls": {"secretName": "metrics-tls"},
                "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                "rules": {"enabled": True, "labels": {"release": "prometheus"}},
            },
            "forecast": {"enabled": True},
            "networkPolicies": {
                "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
                "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/28"}}],
            },
        }
    )
    monitor = objects["ServiceMonitor", "gatelog"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    for part in (*PARTS, "forecast"):
        service = objects["Service", f"gatelog-{part}-metrics"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= (
            service["metadata"]["labels"].items()
        )
        spec = containers(objects)[part]
        for probe in ("livenessProbe", "readinessProbe"):
            if part != "forecast" or probe == "livenessProbe":
                assert spec["containers"][0][probe]["httpGet"]["scheme"] == "HTTPS"
        file = variables(spec)["GATELOG_HEALTH_CERT_FILE"]
        assert str(Path(file).parent) in [
            m["mountPath"] for m in spec["containers"][0]["volumeMounts"]
        ]
    rules = objects["PrometheusRule", "gatelog"]["spec"]
    assert rules == yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())["spec"]
    (scrape,) = objects["NetworkPolicy", "gatelog-metrics"]["spec"]["ingress"]
    assert scrape["from"] == [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    calls = objects["NetworkPolicy", "gatelog-serve"]["spec"]["ingress"][0]
    assert calls["from"] == [{"ipBlock": {"cidr": "10.0.0.0/28"}}]


def test_who_measures_may_ask_the_metrics_api() -> None:
    assert ("ClusterRole", "gatelog-measure") not in by_name()
    objects = by_name({"settings": {"ingest": {"measure_interval_s": 60}}})
    assert ("ClusterRole", "gatelog-measure") in objects
    assert variables(containers(objects)["ingest"])["GATELOG_INGEST_MEASURE_INTERVAL_S"] == "60"


def test_who_counts_devices_may_read_claims() -> None:
    assert ("ClusterRole", "gatelog-devices") not in by_name()
    objects = by_name({"settings": {"queueing": {"device_classes": ["gpu.example.com=gpus"]}}})
    assert ("ClusterRole", "gatelog-devices") in objects
    given = variables(containers(objects)["projector"])["GATELOG_QUEUEING_DEVICE_CLASSES"]
    assert given == variables(containers(objects)["ingest"])["GATELOG_QUEUEING_DEVICE_CLASSES"]
    alone = by_name(
        {
            "profile": "standalone",
            "settings": {"queueing": {"device_classes": ["gpu.example.com=gpus"]}},
        }
    )
    (subject,) = alone["ClusterRoleBinding", "gatelog-devices"]["subjects"]
    assert subject["name"] == "gatelog-actuator"


def test_what_is_switched_off_is_not_there() -> None:
    objects = by_name(
        {
            "podDisruptionBudgets": {"enabled": False},
            "networkPolicies": {"enabled": False},
            "userRoles": {"create": False},
            "uninstall": {"hook": False},
            "serve": {"enabled": False},
            "admission": {"way": "none"},
            "crds": {"install": False},
        }
    )
    kinds = {kind for kind, _ in objects}
    assert not kinds & {
        "PodDisruptionBudget",
        "NetworkPolicy",
        "APIService",
        "CustomResourceDefinition",
        "MutatingAdmissionPolicy",
    }
    assert ("ClusterRole", "gatelog-queues-viewer") not in objects
    ledger = "gatelog-ledger-viewer"
    assert ("ClusterRole", ledger) in by_name({})
    assert ("ClusterRole", ledger) not in by_name({"userRoles": {"create": False}})
    assert ("Job", "gatelog-uninstall") not in objects


def test_kinds_and_queues_outlive_the_release() -> None:
    crds = [o for o in helm.rendered() if o["kind"] == "CustomResourceDefinition"]
    assert len(crds) == len([*(DEPLOY / "crds").glob("*s.yaml")])
    for crd in crds:
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_release_is_removed_by_a_hook_that_frees_pods_first() -> None:
    objects = by_name({"uninstall": {"gates": "keep", "also": ["crds"]}})
    job = objects["Job", "gatelog-uninstall"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    wanted = "uninstall --namespace gatelog-system --gates keep --also crds"
    assert container["args"] == wanted.split()
    account = objects["ServiceAccount", "gatelog-uninstall"]["metadata"]["annotations"]
    assert int(account["helm.sh/hook-weight"]) < int(
        job["metadata"]["annotations"]["helm.sh/hook-weight"]
    )


def test_helm_test_is_the_doctor_with_a_readers_rights() -> None:
    objects = by_name({"mode": "kueue"})
    assert variables(containers(objects)["doctor"])["GATELOG_MODE"] == "kueue"
    hooks = [
        o for o in objects.values() if (o["metadata"].get("annotations") or {}).get(HOOK) == "test"
    ]
    assert hooks == [objects["Pod", "gatelog-doctor"]], "--logs asks for a pod by each hook's name"
    (pod,) = hooks
    policy = pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    assert policy == "before-hook-creation", "--logs comes after the test has succeeded"
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["doctor"]
    found = load(None, {e["name"]: e.get("value", "") for e in container["env"]})
    assert found.nats.user == "logreader" and found.lease.enabled
    rules = (
        objects["ClusterRole", "gatelog-doctor"]["rules"]
        + objects["ClusterRole", "gatelog-doctor-node-leases"]["rules"]
        + objects["Role", "gatelog-doctor"]["rules"]
    )
    for rule in rules:
        reviews = rule["resources"] == ["subjectaccessreviews"]
        assert reviews or set(rule["verbs"]) <= {"get", "list"}


def test_migrate_runs_before_each_projector_and_nothing_vanishes() -> None:
    given = {
        "image": {"tag": "2", "pullPolicy": "Always"},
        "settings": {"streams": {"replicas": 3}},
    }
    given["nats"] = {"install": False}
    objects = by_name(given | {"mode": "kueue"})
    assert {kind for kind, name in objects if "migrate" in name} == set()
    (before,) = containers(objects)["projector"]["initContainers"]
    (after,) = containers(objects)["projector"]["containers"]
    assert (before["args"], before["image"]) == (["migrate", "--wait"], "gatelog:2")
    assert before["imagePullPolicy"] == "Always"
    said = {e["name"]: e.get("value", "") for e in before["env"]}
    assert said["GATELOG_STREAMS_REPLICAS"] == "3" and said["GATELOG_NATS_USER"] == "streams"
    assert "GATELOG_MODE" in variables(containers(objects)["projector"]) and after
    lasting = [o for o in objects.values() if HOOK not in (o["metadata"].get("annotations") or ())]
    assert not [o for o in lasting if "ttlSecondsAfterFinished" in o.get("spec", {})]


WORKLOADS = {
    "standalone": ("StatefulSet", "gatelog", 1),
    "production": ("Deployment", "gatelog-ingest", 2),
}
"""What serves the webhook in a profile, and with how many replicas."""


def _upgrading(cluster: SimCluster, folder: Path) -> list[str]:
    """Arguments for an upgrade whose `lookup` asks a simulated cluster."""
    file = cluster.kubeconfig(folder / "kubeconfig")
    asked = ["--is-upgrade", "--dry-run=server", "--disable-openapi-validation"]
    return [*asked, "--kubeconfig", str(file)]


def _simulable(profile: str) -> Json:
    """Values without the kinds that no simulated cluster has."""
    off = ("networkPolicies", "podDisruptionBudgets", "serve")
    return {"profile": profile, **{name: {"enabled": False} for name in off}}


def test_between_policy_and_webhook_policies_gate_while_the_webhook_begins_to_be_served() -> None:
    gating = {
        ("MutatingAdmissionPolicy", "gatelog-queued-pods"),
        ("MutatingWebhookConfiguration", "gatelog-pods"),
    }
    policy, registration = sorted(gating)
    serves = {}
    for way, wanted in (("policy", {policy}), ("toWebhook", gating), ("webhook", {registration})):
        objects = by_name({"admission": {"way": way}})
        assert gating & set(objects) == wanted
        if way == "toWebhook":
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
                hooks = objects[kind, "gatelog-pods"]["webhooks"]
                assert {hook["failurePolicy"] for hook in hooks} == {"Ignore"}, "none is refused"
        serves[way] = objects["Deployment", "gatelog-ingest"]
    assert serves["policy"] != serves["toWebhook"] == serves["webhook"], "nothing is rolled again"


@pytest.mark.parametrize("profile", list(WORKLOADS))
async def test_an_upgrade_to_the_webhook_is_refused_until_it_is_served(
    profile: str, tmp_path: Path
) -> None:
    """Else policies and webhook change in one step, and queued pods are refused for a while."""
    asked = ["template", "gatelog", str(helm.CHART), "-n", "gatelog-system"]
    async with SimCluster(front_proxy=True) as cluster:
        asked += _upgrading(cluster, tmp_path)
        webhook = _simulable(profile) | {"admission": {"way": "webhook"}}

        async def upgrade() -> str:
            done = await asyncio.to_thread(helm.run, *asked, values=webhook)
            return done.stderr if done.returncode else ""

        assert not await upgrade(), "nothing gates: refused is better than let past"
        policy = by_name()["MutatingAdmissionPolicy", "gatelog-queued-pods"]
        await cluster.create("admissionregistration.k8s.io", "mutatingadmissionpolicies", policy)
        assert "upgrade with admission.way=toWebhook first" in await upgrade()
        await cluster.create("", "namespaces", {"metadata": {"name": "gatelog-system"}})
        kind, name, count = WORKLOADS[profile]
        resource = f"{kind.lower()}s"
        serving = by_name({"profile": profile, "admission": {"way": "toWebhook"}})[kind, name]
        await cluster.create("apps", resource, serving, "gatelog-system")
        async with Client(cluster.url, cluster.token, verified=False) as api:
            for ready in (count - 1, count):
                counts = dict.fromkeys(("replicas", "updatedReplicas"), count)
                status = {"status": {**counts, "readyReplicas": ready}}
                await api.patch(f"{resource}.apps/v1", name, status, "gatelog-system", sub="status")
                assert bool(await upgrade()) == (ready < count)


@pytest.mark.parametrize("profile", list(WORKLOADS))
async def test_an_upgrade_without_its_profile_deletes_nothing_that_runs(
    profile: str, tmp_path: Path
) -> None:
    alone = profile == "standalone"
    runs = ("StatefulSet", "gatelog") if alone else ("Deployment", "gatelog-projector")
    other = "production" if alone else "standalone"
    async with SimCluster(front_proxy=True) as cluster:
        await cluster.create("", "namespaces", {"metadata": {"name": "gatelog-system"}})
        obj = by_name({"profile": profile})[runs]
        resource = f"{runs[0].lower()}s"
        await cluster.create("apps", resource, obj, "gatelog-system")
        asked = ["template", "gatelog", str(helm.CHART), "-n", "gatelog-system"]
        asked += _upgrading(cluster, tmp_path)

        async def upgrade(to: str) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(helm.run, *asked, values=_simulable(to))

        assert (await upgrade(profile)).returncode == 0
        refused = await upgrade(other)
        assert refused.returncode != 0 and f"profile = {other}, but" in refused.stderr
        async with Client(cluster.url, cluster.token, verified=False) as api:
            none = {"spec": {"replicas": 0}}
            await api.patch(f"{resource}.apps/v1", runs[1], none, "gatelog-system")
        assert (await upgrade(other)).returncode == 0, "the move scales to 0 first"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"mode": "both"}, "'/mode'"),
        ({"admission": {"way": "auto"}}, "/admission/way"),
        ({"pods": {"extraConfigMaps": []}}, "/pods"),
        ({"parts": {"jobs": {"replicas": 2}}}, "/parts/jobs"),
        ({"parts": {"ingest": {"image": {"name": "a"}}}}, "/parts/ingest/image"),
        ({"services": {"ipFamilies": ["IPv5"]}}, "/services/ipFamilies"),
        ({"nothing": {"known": 1}}, "nothing"),
        ({"imagePullSecrets": []}, "imagePullSecrets"),
        ({"parts": {"ingest": {"replicas": 0}}}, "/parts/ingest/replicas"),
        ({"nats": {"url": "nats:4222"}}, "/nats/url"),
        ({"uninstall": {"also": ["everything"]}}, "/uninstall/also"),
        ({"settings": {"queueing": {"no_such_field": 1}}}, "/settings/queueing"),
        ({"settings": {"log": {"level": True}}}, "/settings/log/level"),
        ({"settings": {"no_such_section": {}}}, "/settings"),
        ({"cluster": "Prod_1"}, "/cluster"),
        ({"settings": {"streams": {"replicas": -3}}}, "/settings/streams/replicas"),
        ({"settings": {"queueing": {"workloads": "some"}}}, "/settings/queueing/workloads"),
        ({"settings": {"mode": "kueue"}}, "settings.mode cannot be set here: it is the value mode"),
        ({"settings": {"health": {"port": 9090}}}, "settings.health.port cannot be set here"),
        ({"settings": {"webhook": {"actuator_user": "me"}}}, "settings.webhook.actuator_user"),
        ({"settings": {"lease": {"duration_s": 5}}}, "they are 1.5, 7 and 5"),
        ({"nats": {"url": "nats://other:4222"}}, "nats.install = true"),
        ({"settings": {"streams": {"replicas": 3}}}, "the chart brings one server"),
        ({"serve": {"certificates": "secret"}}, "set serve.caBundle"),
        ({"serve": {"issuerRef": {"name": "a"}}}, "serve.issuerRef is for"),
        ({"serve": {"certificates": "generated"}}, "/serve/certificates"),
        ({"mode": "kueue", "forecast": {"enabled": True}}, "forecast.enabled with mode = kueue"),
        ({"image": {"digest": "sha256:1"}}, "/image/digest"),
        (
            {"profile": "standalone", "database": {"url": "postgresql://db/gatelog"}},
            "database.url with profile = standalone",
        ),
        (
            {"profile": "standalone", "parts": {"standalone": {"replicas": 2}}},
            "/parts/standalone/replicas",
        ),
        (
            {"profile": "standalone", "parts": {"standalone": {"hostNetwork": True}}},
            "parts.standalone.hostNetwork",
        ),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(values: Json, told: str) -> None:
    given = {"profile": "production"} | values
    done = helm.run(
        "template", "gatelog", str(helm.CHART), "--kube-version", "1.36.0", values=given
    )
    assert done.returncode != 0 and told in done.stderr


def test_lint_finds_nothing_and_the_version_is_that_of_the_package() -> None:
    assert helm.run("lint", "--strict", str(helm.CHART)).returncode == 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == project["version"]


def test_a_package_holds_files_and_no_links(tmp_path: Path) -> None:
    done = helm.run("package", str(helm.CHART), "-d", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("gatelog-*.tgz")
    asked = ("--kube-version", "1.36.0", "-n", "gatelog-system")
    done = helm.run("template", "gatelog", str(package), *asked)
    assert done.returncode == 0 and "kind: StatefulSet" in done.stdout


def test_a_tag_would_publish_image_chart_sbom_and_signatures() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True] == {"push": {"tags": ["v*.*.*"]}}, "YAML takes `on` for a truth"
    steps = workflow["jobs"]["release"]["steps"]
    (image,) = [s["with"] for s in steps if "build-push-action" in s.get("uses", "")]
    assert image["platforms"] == "linux/amd64,linux/arm64" and image["sbom"] is True
    scripts = " ".join(s.get("run", "") for s in steps)
    for command in ("cosign sign", "cosign attest", "helm package deploy/chart", "helm push"):
        assert command in scripts
    for line in (f"version: {_version()}", f"appVersion: {_version()}"):
        assert line in (helm.CHART / "Chart.yaml").read_text().splitlines()
    assert "  repository: gatelog" in (helm.CHART / "values.yaml").read_text().splitlines()


def _version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
