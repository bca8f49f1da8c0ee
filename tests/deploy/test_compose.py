"""docker-compose.yml: what it says, and that its commands do what they should as real processes."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from runtime.settings_source import describe, load
from tests.deploy.compose import World, argv, document, services
from tests.deploy.manifests import DEPLOY
from tests.deploy.schemas import crd, plurals, problems
from tests.deploy.test_manifests import BASE, bound
from tests.support.processes import KUEUE, TOKEN, Api, Child, Simulator, make_queue, pod

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

OURS = ("migrate", "ingest", "project", "actuate")
NAMESPACE = "team"


def test_the_commands_are_those_of_the_program():
    assert [argv(name) for name in OURS] == [["gatelog", name] for name in OURS]


def test_every_variable_is_a_setting_and_its_value_a_good_one():
    known = {doc.variable for doc in describe()}
    for name in OURS:
        environment = services()[name]["environment"]
        ours = {k: v for k, v in environment.items() if k.startswith("GATELOG_")}
        assert set(ours) <= known, name
        assert set(environment) - set(ours) <= {"PGSERVICEFILE", "PGSERVICE"}
        load(None, ours)


def test_nothing_is_published_beyond_this_machine():
    for name, service in services().items():
        for port in service.get("ports") or ():
            assert str(port).startswith("127.0.0.1:"), name
        assert "network_mode" not in service


def test_what_is_waited_for_is_declared():
    for name in OURS:
        for other, how in services()[name]["depends_on"].items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services()[other]
            else:
                assert (other, how["condition"]) == ("migrate", "service_completed_successfully")
    assert "migrate" in services()["project"]["depends_on"]
    assert services()["migrate"]["restart"] == "no"


def test_secrets_are_files_and_no_password_stands_in_the_file():
    declared = document()["secrets"]
    used = {secret for service in services().values() for secret in service.get("secrets") or ()}
    assert used == set(declared)
    for service in services().values():
        for key, value in (service.get("environment") or {}).items():
            if "PASSWORD" in key:
                assert key.endswith("_FILE")
            for path in re.findall(r"/run/secrets/([\w.-]+)", str(value)):
                assert path in service["secrets"]


def test_our_containers_are_confined():
    for name in OURS:
        service = services()[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["user"].endswith("65532:65532}")
    for service in services().values():
        assert not service["image"].endswith(":latest")


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[Simulator]:
    """A cluster without Kueue's kinds."""
    nodes = '[{"name": "n1", "labels": {"pool": "a"}, "cpu": "64", "memory": "64Gi", "pods": 110}]'
    child = Simulator(tmp_path, "--kubelet", "scripted", "--no-kueue", "--nodes", nodes)
    child.start()
    yield child
    child.stop()


@pytest.fixture
def database(postgres_database: str) -> Iterator[str]:
    """The database of the test, owned by a role called gatelog."""
    import psycopg

    url = sa.make_url(postgres_database)
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'gatelog'").fetchone()
        if found is None:
            connection.execute("CREATE ROLE gatelog LOGIN")
        connection.execute(f'ALTER DATABASE "{url.database}" OWNER TO gatelog')
    yield url.set(username="gatelog", password=None).render_as_string()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{url.database}" OWNER TO CURRENT_USER')


@pytest.fixture
def world(tmp_path: Path, simulator: Simulator, database: str) -> World:
    return World(tmp_path, simulator.kubeconfig, database)


@pytest.fixture
def nats(world: World) -> Iterator[Child]:
    world.prepare_nats()
    child = Child("nats", world.command("nats"), {}, world.folder)
    child.start()
    try:
        world.until_healthy("nats")
        yield child
    finally:
        child.stop()


def queued(name: str, group: str, total: int) -> dict:
    """A pod as deploy/admission-policy leaves it; the stand-in evaluates no policies."""
    body = pod(name, group, total, script="run=300ms,succeed")
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


async def install_crds(api: Api) -> None:
    """As `kubectl apply -k deploy/crds` would."""
    for plural in plurals():
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await api.call("POST", path, crd(plural))


def environment(world: World, name: str) -> list[str]:
    """`env` in front of a command: only what compose gives it, nothing of this process."""
    return ["env", "-i", *(f"{k}={v}" for k, v in world.environment(name).items())]


@pytest.mark.slow("every container of the compose file as a process")
@pytest.mark.timeout(180)
async def test_the_commands_take_a_group_from_gate_to_finish(
    world: World, nats: Child, simulator: Simulator
):
    children = {
        name: Child(name, [*environment(world, name), *world.command(name)], {}, world.folder)
        for name in OURS
    }
    try:
        async with Api(simulator.url, TOKEN) as api:
            await install_crds(api)
            assert world.check("postgres")
            migrate = children["migrate"]
            migrate.start()
            assert migrate.process is not None
            assert migrate.process.wait(60) == 0, migrate.tail()
            for name in OURS[1:]:
                children[name].start()
            for name in OURS[1:]:
                try:
                    world.until_healthy(name)
                except AssertionError as error:
                    raise AssertionError(f"{error}\n{children[name].tail()}") from None
            await make_queue(api, NAMESPACE, cpu="3")
            for number in range(4):  # one too many
                body = queued(f"train-{number}", "train", 3)
                await api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
            await follow(api, children)
            await only_what_roles_allow(api)
        columns = "name, state, pods_succeeded, pods_excess"
        assert read(world.database, f"SELECT {columns} FROM groups") == [
            ("train", "Finished", 3, 1)
        ]
        assert len(read(world.database, "SELECT 1 FROM admissions")) == 1
        for name in OURS[1:]:
            child = children[name]
            child.stop(patience_s=30)
            assert child.process is not None
            assert child.process.returncode == 0, child.tail()
    finally:
        for child in children.values():
            child.stop()


async def follow(api: Api, children: dict[str, Child]) -> None:
    """Watch the Workload to its end: no version of it may break a rule of our CRD."""
    versions: list[dict] = []

    async def over() -> bool:
        path = f"{KUEUE}/namespaces/{NAMESPACE}/workloads/train"
        found = await api.call("GET", path, ok=())
        if found.get("kind") != "Workload":
            return False
        version = found["metadata"]["resourceVersion"]
        if not versions or versions[-1]["metadata"]["resourceVersion"] != version:
            versions.append(found)
        conditions = found.get("status", {}).get("conditions", [])
        done = any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
        pods = await api.pods(NAMESPACE)
        return done and not any(p["metadata"].get("finalizers") for p in pods.values())

    try:
        await api.until("the group's Workload to be finished", over, 40)
    except AssertionError as error:
        tails = "\n".join(child.tail() for child in children.values())
        raise AssertionError(f"{error}\n{tails}") from None
    before = None
    for found in versions:
        assert problems("workloads", found, before) == []
        before = found


async def only_what_roles_allow(api: Api) -> None:
    """Every request the parts made is one that their ClusterRoles grant."""
    made = (await api.call("GET", "/_sim/stats"))["requests"]
    asked = {(request["resource"], request["verb"]) for request in made}
    ours = {"customresourcedefinitions", "namespaces", "pods"}
    ours |= {"clusterqueues", "localqueues", "resourceflavors"}
    asked -= {(resource, "create") for resource in ours}
    granted = bound(BASE, "gatelog-ingest") | bound(BASE, "gatelog-actuator")
    assert asked <= {(resource, verb) for _, resource, verb in granted}
    for written in ("patch", "delete"):
        assert ("pods", written) in asked
    assert {("workloads", "create"), ("workloads/status", "patch"), ("events", "create")} <= asked


def read(url: str, statement: str) -> list[tuple]:
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


@pytest.mark.slow("every container of the compose file as a process")
@pytest.mark.timeout(60)
async def test_each_part_may_publish_its_own_facts_only(world: World, nats: Child):
    """The users of nats.conf: who may say what, with the real server."""

    async def may(user: str, subject: str) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.nats_port)
        login = {"user": user, "pass": world.secrets.joinpath(user).read_text(), "verbose": False}
        lines = (f"CONNECT {json.dumps(login)}", f"PUB {subject} 2", "{}", "PING", "")
        writer.write("\r\n".join(lines).encode())
        answer = await reader.readuntil(b"PONG\r\n")
        writer.close()
        assert b"Authorization" not in answer
        return b"Permissions Violation" not in answer

    sources = {"ingest": "watch", "projector": "projector", "actuator": "actuator"}
    for user in (*sources, "streams", "operator", "logreader"):
        own = sources.get(user, user if user == "operator" else "")
        for source in (*sources.values(), "operator"):
            assert await may(user, f"events.c.0.{source}") is (source == own), (user, source)
        assert await may(user, "decisions.c.0") is (user == "projector")
        assert await may(user, "parked.c.0") is (user in ("projector", "actuator"))
        for verb in ("CREATE", "UPDATE"):
            assert await may(user, f"$JS.API.STREAM.{verb}.EVENTS") is (user == "streams")
            assert not await may(user, f"$JS.API.STREAM.{verb}.OTHER")
        for verb in ("DELETE", "PURGE", "MSG.DELETE"):
            assert not await may(user, f"$JS.API.STREAM.{verb}.EVENTS")
        assert not await may(user, "$JS.API.DIRECT.GET.EVENTS")
        name = "DECISIONS" if user == "actuator" else "EVENTS"
        assert await may(user, f"$JS.API.STREAM.INFO.{name}")
        readers = ("projector", "operator", "logreader")
        assert await may(user, "$JS.API.CONSUMER.CREATE.EVENTS.x.events.>") is (user in readers)
    for user in ("operator", "logreader"):
        assert not await may(user, "$JS.API.CONSUMER.DELETE.DECISIONS.actuator-default")
        assert not await may(user, "$JS.API.CONSUMER.MSG.NEXT.DECISIONS.actuator-default")


def test_the_database_is_found_through_a_service_file(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
):
    """`postgresql:///name` and PGSERVICEFILE, as in deploy/base; the file need not be 0600."""
    from projector.storage.database import reader

    url = sa.make_url(database)
    text = (DEPLOY / "base" / "gatelog.toml").read_text()
    assert 'url = "postgresql:///gatelog"' in text
    file = tmp_path / "pg_service.conf"
    file.write_text(f"[gatelog]\nhost={url.query['host']}\nuser=gatelog\npassword=unused\n")
    file.chmod(0o644)
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", "gatelog")
    engine = reader(f"postgresql:///{url.database}")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT current_user")).scalar_one() == "gatelog"
    engine.dispose()
