"""The kustomize base and its components: they hold together, and they ask for as little as can be.

RBAC is compared with what the code asks of the API server; the settings are loaded by the code
that will read them.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.kinds import Watched, node_kind, watched_kinds
from ingest.webhook.policy import JOB_KINDS, OWN_NAMESPACE, PASSED_KINDS
from podgroup.model.objects import DEVICE_KINDS
from runtime.lease import lease_name
from runtime.service import GRACE_S
from runtime.settings import Settings
from runtime.settings_source import describe, load
from tests.deploy import helm, reference
from tests.deploy.manifests import (
    DEPLOY,
    Json,
    files,
    kustomization,
    kustomizations,
    objects,
    of_kind,
    parsed,
    pod_template,
)

BASE = DEPLOY / "base"
STANDALONE = DEPLOY / "standalone"
COMPONENTS = sorted(p for p in (DEPLOY / "components").iterdir() if p.is_dir())
OVERLAYS = sorted(p for p in (DEPLOY / "overlays").iterdir() if p.is_dir())
WORKLOADS = ("Deployment", "StatefulSet", "Job")


def pods() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for directory in (BASE, STANDALONE, DEPLOY / "components" / "nats"):
        for kind in WORKLOADS:
            found |= of_kind(directory, kind)
    return found


def environment(container: Json) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in container.get("env") or ()}


def test_every_file_is_reached_and_every_reference_leads_somewhere():
    reached = {file.resolve() for directory in kustomizations() for file in files(directory)}
    assert all(file.is_file() for file in reached)
    optional = {"default-queue.yaml"}  # applied by hand where namespaces have default queues
    for file in DEPLOY.rglob("*.yaml"):
        if file.parent.name in ("examples", "move") or DEPLOY / "chart" in file.parents:
            continue  # to be changed and applied by hand; helm's
        if file.name != "kustomization.yaml" and file.name not in optional:
            patches = [
                (directory / patch["path"]).resolve()
                for directory in kustomizations()
                for patch in kustomization(directory).get("patches") or ()
                if "path" in patch
            ]
            assert file.resolve() in {*reached, *patches}, file


def test_the_chart_carries_copies_and_no_links():
    """Flux's archiver leaves links out, Argo CD refuses them, helm prints a line for each."""
    assert not [path for path in (DEPLOY / "chart").rglob("*") if path.is_symlink()]
    there = {
        path.relative_to(reference.CHART_FILES).as_posix(): path.read_text()
        for path in reference.CHART_FILES.rglob("*")
        if path.is_file()
    }
    wanted = reference.chart_files()
    stale = {name for name in {*there, *wanted} if there.get(name) != wanted.get(name)}
    assert not stale, "run: python -m tests.deploy.reference"


@pytest.mark.skipif(helm.kubectl() is None, reason="kustomize comes with kubectl")
@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda p: p.name)
def test_kustomize_builds_every_overlay(overlay: Path):
    done = subprocess.run(
        [str(helm.kubectl()), "kustomize", str(overlay)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    built = parsed(done.stdout)
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in built}
    assert len(names) == len(built)
    text = done.stdout
    assert re.search(r"image: gatelog:\d", text)
    parts = {("Deployment", f"gatelog-{part}") for part in ("ingest", "projector", "actuator")}
    if overlay.name == "evaluation":
        assert not parts & names and ("StatefulSet", "gatelog") in names
        assert not [obj for obj in built if obj["kind"] == "Secret" or "secretName" in str(obj)]
    else:
        assert parts <= names and re.search(r"image: docker.io/library/nats:2\.\d+", text)
    for obj in built:
        if obj["kind"] == "MutatingAdmissionPolicy" and overlay.name == "evaluation":
            conditions = [c["name"] for c in obj["spec"]["matchConditions"]]
            assert "owner-is-not-queued" not in conditions
            assert conditions[0].startswith("names-a-queue")


def test_an_overlay_brings_the_queue_objects_only_where_kueue_is_absent():
    evaluation = of_kind(DEPLOY / "overlays" / "evaluation", "CustomResourceDefinition")
    assert len(evaluation) == 8
    assert of_kind(DEPLOY / "overlays" / "kueue", "CustomResourceDefinition") == {}


@pytest.mark.parametrize("name", list(pods()))
def test_pods_meet_the_restricted_standard(name: str):
    """Pod Security Standards, profile restricted, which the namespace enforces."""
    spec = pod_template(pods()[name])["spec"]
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["enableServiceLinks"] is False
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        assert key not in spec
    for volume in spec["volumes"]:
        assert not {"hostPath"} & set(volume)
    mounts: set[str] = set()
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
        mounts |= {mount["name"] for mount in container["volumeMounts"]}
    claims = {c["metadata"]["name"] for c in pods()[name]["spec"].get("volumeClaimTemplates", ())}
    assert mounts == {volume["name"] for volume in spec["volumes"]} | claims


def test_the_projector_migrates_before_it_starts():
    """In a Job it would vanish, and be drift; only this container has the password of `streams`."""
    spec = pod_template(of_kind(BASE, "Deployment")["gatelog-projector"])["spec"]
    (before,) = spec["initContainers"]
    assert before["args"] == ["migrate", "--wait"]
    assert environment(before)["GATELOG_NATS_USER"] == "streams"
    secret = {v["name"]: v["secret"]["items"] for v in spec["volumes"] if v["name"] == "streams"}
    assert secret == {"streams": [{"key": "streams", "path": "password"}]}
    assert {"name": "streams", "mountPath": "/etc/gatelog/nats", "readOnly": True} in (
        before["volumeMounts"]
    )
    assert "streams" not in [m["name"] for m in spec["containers"][0]["volumeMounts"]]
    assert not of_kind(BASE, "Job")


def test_the_namespace_enforces_the_restricted_standard():
    namespace = of_kind(BASE, "Namespace")[OWN_NAMESPACE]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("gatelog-ingest", "ingest"),
        ("gatelog-projector", "project"),
        ("gatelog-actuator", "actuate"),
    ],
)
def test_deployments_run_the_command_and_are_probed(name: str, command: str):
    deployment = of_kind(BASE, "Deployment")[name]
    template = pod_template(deployment)
    (container,) = template["spec"]["containers"]
    assert container["args"] == [command]
    assert template["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["health"] == settings().health.port


def settings() -> Settings:
    return load(BASE / "gatelog.toml", {})


def test_the_settings_file_is_read_by_the_code_that_reads_it():
    found = settings()
    assert found.nats.url == "nats://nats:4222"
    assert found.database.url.startswith("postgresql://")
    assert (found.health.host, found.health.port) == ("::", 8081)


def test_variables_in_manifests_are_settings():
    known = {doc.variable for doc in describe()} | {"GATELOG_CONFIG"}
    from_libpq = {"PGSERVICEFILE", "PGSERVICE"}
    seen = set()
    texts = [p.read_text() for p in DEPLOY.rglob("*.yaml") if DEPLOY / "chart" not in p.parents]
    for text in texts:
        seen |= set(re.findall(r"name: (GATELOG_\w+|PG\w+)", text))
    assert seen <= known | from_libpq, seen - known
    assert {"GATELOG_NATS_USER", "GATELOG_WEBHOOK_ENABLED", "GATELOG_MODE"} <= seen


def test_each_environment_makes_valid_settings(tmp_path: Path):
    for obj in of_kind(BASE, "Deployment").values():
        (container,) = pod_template(obj)["spec"]["containers"]
        variables = environment(container)
        assert variables.pop("GATELOG_CONFIG") == "/etc/gatelog/settings/gatelog.toml"
        found = load(BASE / "gatelog.toml", variables)
        mounts = {m["mountPath"] for m in container["volumeMounts"]}
        assert str(Path(found.nats.password_file).parent) in mounts
        assert found.state_dir in mounts
    patch = yaml.safe_load((DEPLOY / "components" / "webhook" / "ingest.yaml").read_text())
    (container,) = pod_template(patch)["spec"]["containers"]
    found = load(BASE / "gatelog.toml", environment(container))
    (port,) = container["ports"]
    (mount,) = container["volumeMounts"]
    assert (found.webhook.enabled, found.webhook.port) == (True, port["containerPort"])
    assert str(Path(found.webhook.cert_file).parent) == mount["mountPath"]
    service = of_kind(DEPLOY / "webhook", "Service")[found.webhook.service_name]
    assert service["metadata"]["namespace"] == found.webhook.service_namespace
    assert service["spec"]["ports"][0]["targetPort"] == found.webhook.port
    ingest = pod_template(of_kind(BASE, "Deployment")["gatelog-ingest"])["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= ingest.items()


def granted(role: Json) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def bound(directory: Path, account: str) -> set[tuple[str, str, str]]:
    """Everything a service account of gatelog may do."""
    roles = of_kind(directory, "ClusterRole") | of_kind(directory, "Role")
    found: set[tuple[str, str, str]] = set()
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in of_kind(directory, kind).values():
            for subject in binding["subjects"]:
                assert subject["namespace"] == OWN_NAMESPACE
                if subject["name"] == account:
                    found |= granted(roles[binding["roleRef"]["name"]])
    return found


def reading(*rows: Watched) -> set[tuple[str, str, str]]:
    """What has to be allowed to who watches these."""
    found: set[tuple[str, str, str]] = set()
    for row in rows:
        for path in row.paths:
            parts = path.strip("/").split("/")
            group = "" if parts[0] == "api" else parts[1]
            found |= {(group, parts[-1], verb) for verb in ("get", "list", "watch")}
    return found


def test_ingest_may_read_what_it_watches_and_nothing_else():
    wanted = reading(*watched_kinds(""), node_kind())
    assert bound(BASE, "gatelog-ingest") == wanted | LEASE


def test_who_counts_devices_may_read_claims_and_nothing_else():
    wanted = reading(*watched_kinds("", kinds=DEVICE_KINDS))
    assert bound(DEPLOY / "components" / "devices", "gatelog-ingest") == wanted
    assert not settings().queueing.device_classes


def test_the_webhook_may_get_every_owner_it_walks_through():
    wanted = {(kind.group, kind.plural, "get") for kind in (*JOB_KINDS, *PASSED_KINDS)}
    webhook = DEPLOY / "components" / "webhook"
    assert bound(webhook, "gatelog-ingest") == wanted


def test_who_measures_may_list_metrics_of_pods_and_nothing_else():
    measure = DEPLOY / "components" / "measure"
    assert bound(measure, "gatelog-ingest") == {("metrics.k8s.io", "pods", "list")}
    (patch,) = kustomization(measure)["patches"]
    (container,) = pod_template(yaml.safe_load(patch["patch"]))["spec"]["containers"]
    found = load(BASE / "gatelog.toml", environment(container))
    assert found.ingest.measure_interval_s == 60 and not settings().ingest.measure_interval_s


def test_who_makes_groups_of_sets_may_read_them_and_nothing_else():
    wanted = reading(*watched_kinds("", kinds=("StatefulSet",)))
    assert wanted == {("apps", "statefulsets", verb) for verb in ("get", "list", "watch")}
    assert bound(DEPLOY / "components" / "owned-groups", "gatelog-ingest") == wanted
    assert not settings().queueing.owned_groups


def test_who_forecasts_may_patch_workloads_and_runs_as_the_command_takes_it():
    forecast = DEPLOY / "components" / "forecast"
    assert bound(forecast, "gatelog-forecast") == {("kueue.x-k8s.io", "workloads", "patch")}
    deployment = of_kind(forecast, "Deployment")["gatelog-forecast"]
    template = pod_template(deployment)
    (container,) = template["spec"]["containers"]
    assert container["args"] == ["forecast", "--every", "60s", "--tell"]
    assert template["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert load(BASE / "gatelog.toml", environment(container)).health.port == 8081


def test_one_pod_may_do_what_three_deployments_may_and_holds_no_lease():
    access = STANDALONE / "serve"
    roles = {b["roleRef"]["name"] for b in of_kind(access, "ClusterRoleBinding").values()}
    assert roles == {"system:auth-delegator", "gatelog-serve-registration"}
    parts = bound(BASE, "gatelog-ingest") | bound(BASE, "gatelog-actuator")
    assert bound(STANDALONE, "gatelog-actuator") == parts - LEASE


def test_the_settings_of_one_pod_fit_its_volume_and_its_ports():
    found = load(STANDALONE / "gatelog.toml", {})
    (container,) = pod_template(of_kind(STANDALONE, "StatefulSet")["gatelog"])["spec"]["containers"]
    assert container["args"] == ["up"] and not found.nats.url and not found.database.url
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"health": found.health.port, "https": found.serve.port}
    assert found.serve.enabled and found.serve.host == found.health.host == "::"
    (claim,) = of_kind(STANDALONE, "StatefulSet")["gatelog"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert found.streams.max_bytes + found.streams.decisions_max_bytes <= 5 * 2**30
    assert not found.lease.enabled
    request = container["resources"]["requests"]
    assert request == {"cpu": "100m", "memory": "192Mi"}


def test_production_requests_what_it_uses():
    """Idle: 60m and 541 MiB of two replicas of each and the log server; 1.25 CPU were reserved."""
    cpu = memory = 0
    for directory in (BASE, DEPLOY / "serve", DEPLOY / "components" / "nats"):
        for kind in ("Deployment", "StatefulSet"):
            for obj in of_kind(directory, kind).values():
                (container,) = pod_template(obj)["spec"]["containers"]
                request = container["resources"]["requests"]
                cpu += obj["spec"]["replicas"] * int(request["cpu"].removesuffix("m"))
                memory += obj["spec"]["replicas"] * int(request["memory"].removesuffix("Mi"))
                for first in pod_template(obj)["spec"].get("initContainers", ()):
                    assert first["resources"]["requests"] == request, "else it would count"
    assert (cpu, memory) == (250, 800)


@pytest.mark.parametrize("way", ["to-production", "to-standalone"])
def test_a_move_that_was_cut_short_is_repeated(way: str, tmp_path: Path):
    homes = {
        "standalone": tmp_path / "standalone/state/nats/jetstream/jetstream",
        "production": tmp_path / "production/jetstream",
    }
    source, target = homes.values() if way == "to-production" else reversed(homes.values())
    for cut_short in (source, target.with_name("copying")):
        cut_short.mkdir(parents=True)
        (cut_short / cut_short.name).write_text("")
    before = tmp_path / "standalone/state"
    before.mkdir(parents=True, exist_ok=True)
    (before / "read-model.sqlite3").write_text("")
    text = (DEPLOY / f"move/{way}.yaml").read_text()
    job = next(o for o in parsed(text) if o["kind"] == "Job")
    (script,) = pod_template(job)["spec"]["containers"][0]["args"]
    for volume in homes:
        script = script.replace(f"/{volume}/", f"{tmp_path}/{volume}/")
    subprocess.run(["sh", "-euc", script], check=True, capture_output=True)
    assert [p.name for p in target.iterdir()] == ["jetstream"]
    assert not target.with_name("copying").exists()
    kept = "before.sqlite3" if way == "to-standalone" else "read-model.sqlite3"
    assert [p.name for p in before.glob("*.sqlite3")] == [kept]


def test_the_actuator_may_write_what_its_commands_write():
    assert bound(BASE, "gatelog-actuator") == {
        ("", "pods", "get"),
        ("", "pods", "patch"),
        ("", "pods", "delete"),
        ("", "pods/status", "patch"),
        ("", "pods/finalizers", "update"),
        ("kueue.x-k8s.io", "workloads", "get"),
        ("kueue.x-k8s.io", "workloads", "create"),
        ("kueue.x-k8s.io", "workloads", "patch"),
        ("kueue.x-k8s.io", "workloads", "delete"),
        ("kueue.x-k8s.io", "workloads/status", "patch"),
        ("kueue.x-k8s.io", "clusterqueues", "get"),
        ("kueue.x-k8s.io", "clusterqueues", "patch"),
        ("kueue.x-k8s.io", "resourceflavors", "get"),
        ("kueue.x-k8s.io", "resourceflavors", "patch"),
        ("kueue.x-k8s.io", "admissionchecks", "get"),
        ("kueue.x-k8s.io", "admissionchecks", "patch"),
        ("kueue.x-k8s.io", "clusterqueues/status", "patch"),
        ("kueue.x-k8s.io", "cohorts", "get"),
        ("kueue.x-k8s.io", "cohorts/status", "patch"),
        ("kueue.x-k8s.io", "localqueues", "get"),
        ("kueue.x-k8s.io", "localqueues/status", "patch"),
        ("events.k8s.io", "events", "create"),
    }


LEASE = {("coordination.k8s.io", "leases", verb) for verb in ("get", "update", "create")}


def test_the_projector_may_hold_a_lease_and_nothing_else():
    assert bound(BASE, "gatelog-projector") == LEASE
    assert pod_template(pods()["nats"])["spec"]["automountServiceAccountToken"] is False
    for account in of_kind(BASE, "ServiceAccount").values():
        assert account["automountServiceAccountToken"] is False


def test_leases_are_those_of_the_settings_and_no_others():
    found = settings()
    assert found.lease.enabled
    assert found.lease.namespace == OWN_NAMESPACE
    wanted = {
        "gatelog-ingest-lease": lease_name("ingest", found.cluster),
        "gatelog-projector-lease": lease_name("projector", found.cluster),
    }
    roles = of_kind(BASE, "Role")
    assert set(roles) == set(wanted)
    for name, lease in wanted.items():
        named, unnamed = roles[name]["rules"]
        assert named["resourceNames"] == [lease]
        # RBAC does not know a new object's name: "create" with resourceNames allows nothing.
        assert (unnamed["verbs"], unnamed.get("resourceNames")) == (["create"], None)


def test_every_deployment_has_two_replicas_that_are_kept_apart():
    for name, deployment in of_kind(BASE, "Deployment").items():
        spec = deployment["spec"]
        assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
        (spread,) = pod_template(deployment)["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert spread["labelSelector"] == spec["selector"]
        assert name in of_kind(BASE, "PodDisruptionBudget")
        # What SIGTERM may take (`service.GRACE_S`), and the release of the Lease, fit in.
        assert pod_template(deployment)["spec"]["terminationGracePeriodSeconds"] > GRACE_S + 5


def test_no_role_uses_a_wildcard_or_reads_secrets():
    for directory in kustomizations():
        for role in of_kind(directory, "ClusterRole").values():
            for group, resource, verb in granted(role):
                assert "*" not in (group, resource, verb)
                assert resource not in ("secrets", "configmaps")


def test_there_are_viewer_and_editor_roles_for_every_queue_kind():
    roles = of_kind(BASE, "ClusterRole")
    viewer = granted(roles["gatelog-queues-viewer"]) | granted(roles["gatelog-quota-viewer"])
    editor = set().union(
        *(granted(roles[f"gatelog-{n}-editor"]) for n in ("workloads", "queues", "quota"))
    )
    for plural in (p.stem for p in (DEPLOY / "crds").glob("*s.yaml")):
        assert ("kueue.x-k8s.io", plural, "list") in viewer
        assert ("kueue.x-k8s.io", plural, "patch") in editor
    labels = roles["gatelog-queues-viewer"]["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"


def selected(selector: Json, labels: dict[str, str]) -> bool:
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    return all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions") or ())


def allowed(name: str, direction: str, directory: Path = BASE) -> set[int]:
    labels = pod_template(pods()[name])["metadata"]["labels"]
    return {
        port["port"]
        for policy in of_kind(directory, "NetworkPolicy").values()
        if selected(policy["spec"]["podSelector"], labels)
        for rule in policy["spec"].get(direction) or ()
        for port in rule["ports"]
    }


def test_network_is_closed_but_for_what_each_part_needs():
    deny = of_kind(BASE, "NetworkPolicy")["gatelog-default-deny"]["spec"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert allowed("gatelog-ingest", "egress") == {53, 443, 6443, 4222}
    assert allowed("gatelog-actuator", "egress") == {53, 443, 6443, 4222}
    assert allowed("gatelog-projector", "egress") == {53, 443, 6443, 4222, 5432}
    assert allowed("nats", "egress") == {53}
    assert allowed("gatelog", "egress", STANDALONE) == {53, 443, 6443}
    assert allowed("gatelog", "ingress", STANDALONE) == {8081, 8443}
    for name in pods():
        # Metrics, and those of deployments only.
        deployments = ("gatelog-ingest", "gatelog-projector", "gatelog-actuator", "gatelog")
        assert allowed(name, "ingress") == ({8081} if name in deployments else set())
    assert allowed("nats", "ingress", DEPLOY / "components" / "nats") == {4222}
    webhook = DEPLOY / "components" / "webhook"
    assert allowed("gatelog-ingest", "ingress", webhook) == {9443}


def test_disruption_budgets_never_block_a_drain():
    budgets = of_kind(BASE, "PodDisruptionBudget")
    assert set(of_kind(BASE, "Deployment")) <= set(budgets)
    for name, budget in budgets.items():
        deployment = of_kind(BASE, "Deployment")[name]
        assert budget["spec"]["selector"] == deployment["spec"]["selector"]
        assert budget["spec"]["maxUnavailable"] >= 1


def test_secrets_are_files_made_by_the_script(tmp_path: Path):
    directory = tmp_path / "secrets"
    command = ["sh", str(DEPLOY / "secrets.sh"), str(directory), "db.example"]
    subprocess.run(command, check=True, capture_output=True)
    first = {p.name: p.read_text() for p in directory.iterdir()}
    subprocess.run(command, check=True, capture_output=True)
    assert {p.name: p.read_text() for p in directory.iterdir()} == first
    assert directory.stat().st_mode & 0o777 == 0o700
    users = ("streams", "ingest", "projector", "actuator", "operator", "logreader")
    assert len({first[name] for name in (*users, "postgres", "reader")}) == len(users) + 2
    conf = first["passwords.conf"].splitlines()
    assert [line.split("_")[0] for line in conf if "_password: " in line] == list(users)
    assert "CONSUMER.DELETE.*.actuator-default" in first["passwords.conf"]
    subprocess.run([*command, "prod", "west_1"], check=True, capture_output=True)
    named = (directory / "passwords.conf").read_text()
    assert "actuator-prod" in named and "actuator-west_1" in named and "default" not in named
    subprocess.run(command, check=True, capture_output=True)
    assert (directory / "passwords.conf").read_text() == named, "they are remembered"
    wrong = subprocess.run([*command, "a.b"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 1 and "63 letters" in wrong.stderr
    assert "host=db.example" in first["pg_service.conf"]
    wanted: set[str] = set()
    for obj in pods().values():
        for volume in pod_template(obj)["spec"]["volumes"]:
            secret: dict[str, Any] = volume.get("secret") or {}
            wanted |= {item["key"] for item in secret.get("items") or ()}
    assert wanted <= set(first)


def test_no_image_floats():
    for overlay in OVERLAYS:
        for image in kustomization(overlay)["images"]:
            assert image["newTag"] != "latest"
    for component in COMPONENTS:
        assert kustomization(component)["kind"] == "Component"


def test_objects_are_labelled_and_namespaced():
    for obj in objects(BASE):
        assert obj["metadata"].get("namespace", OWN_NAMESPACE) == OWN_NAMESPACE
    assert kustomization(BASE)["namespace"] == OWN_NAMESPACE


SERVE = DEPLOY / "components" / "serve-own-certificates"


def test_serve_asks_about_rights_and_writes_its_own_apiservices_only():
    deployment = of_kind(SERVE, "Deployment")["gatelog-serve"]
    template = pod_template(deployment)
    (container,) = template["spec"]["containers"]
    assert container["args"] == ["serve"]
    assert template["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    found = load(BASE / "gatelog.toml", environment(container) | {"GATELOG_CONFIG": ""})
    assert found.serve.port == 8443
    service = of_kind(SERVE, "Service")[found.serve.service_name]
    assert service["metadata"]["namespace"] == found.serve.service_namespace
    assert service["spec"]["ports"][0]["targetPort"] == found.serve.port
    bindings = of_kind(SERVE, "ClusterRoleBinding") | of_kind(SERVE, "RoleBinding")
    assert {b["roleRef"]["name"] for b in bindings.values()} == {
        "system:auth-delegator",
        "extension-apiserver-authentication-reader",
        "gatelog-serve-registration",
    }
    reading = of_kind(SERVE, "RoleBinding")["gatelog-serve-authentication-reader"]
    assert reading["metadata"]["namespace"] == "kube-system"
    role = of_kind(SERVE, "ClusterRole")["gatelog-serve-registration"]
    services = of_kind(SERVE, "APIService")
    assert granted(role) == {
        ("apiregistration.k8s.io", "apiservices", verb) for verb in ("get", "patch")
    }
    assert {name for rule in role["rules"] for name in rule["resourceNames"]} == set(services)
    (policy,) = of_kind(SERVE, "NetworkPolicy").values()
    ports = {p["port"] for rule in policy["spec"]["egress"] for p in rule["ports"]}
    assert ports == {443, 6443, 5432}


def test_apiservices_and_roles_cover_what_is_served():
    from gatelog.serve.api.discovery import VERSIONS, resources

    services = of_kind(SERVE, "APIService")
    assert {(s["spec"]["group"], s["spec"]["version"]) for s in services.values()} == set(
        VERSIONS.items()
    )
    for service in services.values():
        assert not service["spec"].get("insecureSkipTLSVerify")
    roles = of_kind(SERVE, "ClusterRole")
    may = granted(roles["gatelog-ledger-viewer"]) | granted(roles["gatelog-ledger-quota-viewer"])
    may |= granted(roles["gatelog-ledger-trials"])
    for group in VERSIONS:
        for one in resources(group)["resources"]:
            for verb in one["verbs"]:
                assert (group, one["name"], verb) in may
    namespaced = {
        one["name"] for g in VERSIONS for one in resources(g)["resources"] if one["namespaced"]
    }
    assert {resource for _, resource, _ in granted(roles["gatelog-ledger-viewer"])} <= namespaced


def built(folder: str) -> list[Json]:
    """What kustomize builds of a folder of deploy/."""
    done = subprocess.run(
        [str(helm.kubectl()), "kustomize", str(DEPLOY / folder)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return parsed(done.stdout)


@pytest.mark.skipif(helm.kubectl() is None, reason="kustomize comes with kubectl")
def test_doctor_may_list_the_leases_of_kubelets_and_no_others():
    """By them it names nodes whose clock is wrong."""
    from gatelog.examine import nodes

    found = {(o["kind"], o["metadata"]["name"]): o for o in built("doctor")}
    binding = found["RoleBinding", "gatelog-doctor-node-leases"]
    home = binding["metadata"]["namespace"]
    group, resource = "coordination.k8s.io", "leases"
    assert f"/apis/{group}/v1/namespaces/{home}/{resource}" == nodes._LEASES
    assert granted(found["ClusterRole", binding["roleRef"]["name"]]) == {(group, resource, "list")}
    (subject,) = binding["subjects"]
    account = found["ServiceAccount", subject["name"]]
    assert subject["namespace"] == account["metadata"]["namespace"] == OWN_NAMESPACE
    assert not any(
        resource in rule["resources"] for rule in found["ClusterRole", "gatelog-doctor"]["rules"]
    )
    homes = {o["metadata"].get("namespace", OWN_NAMESPACE) for o in found.values()}
    assert homes == {home, OWN_NAMESPACE}


@pytest.mark.skipif(helm.kubectl() is None, reason="kustomize comes with kubectl")
def test_the_overlay_leaves_what_belongs_in_kube_system_there():
    found = built("overlays/production")
    where = {(o["kind"], o["metadata"]["name"]): o["metadata"].get("namespace", "") for o in found}
    assert where["RoleBinding", "gatelog-serve-authentication-reader"] == "kube-system"
    assert where["Deployment", "gatelog-serve"] == OWN_NAMESPACE
    assert where["Deployment", "gatelog-projector"] == OWN_NAMESPACE
    assert where["StatefulSet", "nats"] == OWN_NAMESPACE
    assert not [k for k in where if k[0] in ("Issuer", "Certificate")]
    (serve,) = (
        o for o in found if o["metadata"]["name"] == "gatelog-serve" and o["kind"] == "Deployment"
    )
    (container,) = pod_template(serve)["spec"]["containers"]
    assert not {"GATELOG_SERVE_CERT_FILE"} & set(environment(container))


UNINSTALL = DEPLOY / "uninstall"


def test_a_removal_may_do_what_it_does_and_nothing_else():
    from gatelog.removal import removing
    from gatelog.removal.released import PODS, QUEUE_KINDS

    def rights(kind: Any, *verbs: str) -> set[tuple[str, str, str]]:
        group = "" if kind.api == "/api/v1" else kind.api.split("/")[2]
        return {(group, kind.plural, verb) for verb in verbs}

    wanted = rights(PODS, "get", "list", "patch") | rights(removing._SECRETS, "delete")
    for verb in ("get", "list", "patch"):
        wanted |= {("kueue.x-k8s.io", plural, verb) for plural, _ in QUEUE_KINDS}
        wanted.add(("kueue.x-k8s.io", "workloads", verb))
    wanted.add(("kueue.x-k8s.io", "workloads", "delete"))
    for kind in (
        *removing.ADMISSION_KINDS,
        *removing.DEPLOYMENT_KINDS,
        *removing.OBJECT_KINDS,
        removing._CLAIMS,
        removing._NAMESPACES,
        removing._CRDS,
    ):
        wanted |= rights(kind, "list", "delete")
    have = granted(of_kind(UNINSTALL, "Role")["gatelog-uninstall"])
    have |= granted(of_kind(UNINSTALL, "ClusterRole")["gatelog-uninstall"])
    assert have == wanted


def test_a_removal_may_delete_by_name_all_that_is_installed_outside_of_the_namespace():
    from gatelog.removal.removing import _CRDS, ADMISSION_KINDS

    plurals = {kind.kind: kind.plural for kind in (*ADMISSION_KINDS, _CRDS)} | {
        "ClusterRole": "clusterroles",
        "ClusterRoleBinding": "clusterrolebindings",
        "RoleBinding": "rolebindings",
        "Namespace": "namespaces",
    }
    named: dict[str, set[str]] = {}
    for rule in of_kind(UNINSTALL, "ClusterRole")["gatelog-uninstall"]["rules"]:
        if rule["verbs"] == ["delete"]:
            for resource in rule["resources"]:
                named.setdefault(resource, set()).update(rule["resourceNames"])
    for directory in kustomizations():
        for obj in () if directory == UNINSTALL else objects(directory):
            if obj["kind"] in plurals:
                assert obj["metadata"]["name"] in named[plurals[obj["kind"]]], obj["metadata"]


def test_the_removal_job_only_looks_until_it_is_told_otherwise():
    template = pod_template(of_kind(UNINSTALL, "Job")["gatelog-uninstall"])
    (container,) = template["spec"]["containers"]
    assert container["args"][0] == "uninstall" and container["args"][-1] == "--dry-run"
    policy = of_kind(UNINSTALL, "NetworkPolicy")["gatelog-uninstall"]["spec"]
    assert selected(policy["podSelector"], template["metadata"]["labels"])


def test_policies_say_what_the_api_server_would_fill_in():
    """A policy's constraints are one field to server-side apply: a default that the server adds is
    a conflict for helm, which applies the same manifest after `gatelog up`.
    """
    found = [
        obj
        for file in (
            *(DEPLOY / "admission-policy").glob("*.yaml"),
            DEPLOY / "common" / "fence.yaml",
        )
        for obj in parsed(file.read_text())
        if obj["kind"] in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    ]
    assert len(found) >= 6
    for obj in found:
        said = obj["spec"]["matchConstraints"]
        assert {"matchPolicy", "namespaceSelector", "objectSelector"} <= set(said), obj["metadata"]
        assert all("scope" in rule for rule in said["resourceRules"])
        assert obj["spec"]["failurePolicy"]
