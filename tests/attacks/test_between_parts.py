"""Between the parts: what somebody does who has the log password of one of them.

The server is a real one with the configuration that is shipped; decisions are signed as the
manifests have it; the actuator is `run_actuator` with its own account, on the stand-in or on the
API server that GATELOG_TEST_KUBECONFIG names, there with the token of its own ServiceAccount.
"""

import asyncio
import json
import subprocess
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import nats as client
import pytest

from actuator.bootstrap import run_actuator
from podgroup.log import subjects
from podgroup.log.codec import encode_decision
from podgroup.log.events import Decision
from podgroup.model.commands import DeletePod, ObjectRef
from runtime.health import Checks
from runtime.jetstream import Bus, connect
from runtime.settings import (
    ActuatorSettings,
    KubernetesSettings,
    Settings,
    StreamSettings,
)
from runtime.signing import Signer
from simcluster.client import Client
from simcluster.settings import Settings as SimSettings
from tests.actuator.commands import decision, pod, pod_ref
from tests.support import realcluster
from tests.support.processes import Api, server_of, write_kubeconfig
from tests.support.shippednats import ShippedNats
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

DECISIONS = "decisions.default.0"
USERS = ("ingest", "projector", "actuator", "operator", "logreader")
CLUSTERS = ("default", "west_1")
OWN = {"ingest": "watch", "projector": "projector", "actuator": "actuator", "operator": "operator"}


class Attacker:
    """Somebody with the password of one user and a client of their own."""

    def __init__(self, server: ShippedNats, user: str) -> None:
        self.server = server
        self.user = user
        self.complaints: list[str] = []

    async def __aenter__(self) -> "Attacker":
        async def note(error: Exception) -> None:
            self.complaints.append(str(error).lower())

        self.nc = await client.connect(
            f"nats://127.0.0.1:{self.server.port}",
            user=self.user,
            password=(self.server.secrets / self.user).read_text(),
            inbox_prefix=f"_INBOX.{self.user}".encode(),
            error_cb=note,
            allow_reconnect=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.nc.close()

    async def may(self, subject: str, body: Any = b"", **more: Any) -> bool:
        """Publish; tell whether the server let it through."""
        self.complaints.clear()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.nc.publish(subject, data, **more)
        await self.nc.flush()
        await asyncio.sleep(0.02)
        return not any("permissions violation" in each for each in self.complaints)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ShippedNats]:
    found = ShippedNats(tmp_path, CLUSTERS)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
async def bus(server: ShippedNats) -> AsyncIterator[Bus]:
    """As `streams`, who makes what `gatelog migrate` does."""
    one = await connect(server.settings("streams"), "migrate", deadline_s=20)
    await one.ensure_streams(StreamSettings())
    consumer = subjects.actuator_consumer("default")
    await one.ensure_consumer("DECISIONS", consumer, subjects.decisions("default"), 15)
    yield one
    await one.close()


class Target:
    """The API server that the actuator writes to, and a namespace there."""

    def __init__(self, admin: Client, kubeconfig: Path, namespace: str) -> None:
        self.admin = admin
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    async def victim(self, name: str = "victim") -> ObjectRef:
        """A pod that the actuator may delete, as far as the fence goes."""
        made = await self.admin.create("pods", pod(name), self.namespace)
        uid = made["metadata"]["uid"]
        return ObjectRef(kind="Pod", namespace=self.namespace, name=name, uid=uid)

    async def alive(self, name: str = "victim") -> bool:
        """Whether nobody has deleted it."""
        found = (await self.admin.list("pods", self.namespace))["items"]
        there = {p["metadata"]["name"]: p["metadata"] for p in found}
        return name in there and "deletionTimestamp" not in there[name]


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    namespace, place = f"team-{uuid.uuid4().hex[:6]}", realcluster.kubeconfig()
    config, space = tmp_path / "kubeconfig", {"metadata": {"name": namespace}}
    if place is None:
        async with (
            SimCluster(SimSettings(scheduler=False)) as cluster,
            Client(cluster.url, cluster.token) as admin,
        ):
            await admin.create("namespaces", space)
            yield Target(admin, cluster.kubeconfig(config), namespace)
        return
    async with Api(*server_of(place)) as api:
        await realcluster.give_rights(api)
        token = await realcluster.token_of(api, "gatelog-actuator")
    write_kubeconfig(place, config, token=token)
    async with Client(*server_of(place), verified=False) as admin:
        await admin.create("namespaces", space)
        yield Target(admin, config, namespace)
        for one in (await admin.list("pods", namespace))["items"]:
            free = {"metadata": {"finalizers": None}}
            await admin.patch("pods", one["metadata"]["name"], free, namespace)
        await admin.delete("namespaces", namespace)


@pytest.fixture
async def actuator(server: ShippedNats, bus: Bus, target: Target) -> AsyncIterator[Checks]:
    keys = str(server.secrets / "decision-keys.pem")
    settings = Settings(
        nats=server.settings("actuator"),
        streams=StreamSettings(create=False),
        kubernetes=KubernetesSettings(kubeconfig=str(target.kubeconfig)),
        actuator=ActuatorSettings(decision_keys_file=keys),
    )
    stop, checks = asyncio.Event(), Checks()
    task = asyncio.create_task(run_actuator(settings, stop, checks=checks))
    try:
        yield checks
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await task


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    try:
        async with asyncio.timeout(30):
            while not await condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within 30 s: {what}") from None


async def gone(target: Target, name: str) -> bool:
    return not await target.alive(name)


async def refused_at_least(checks: Checks, count: int) -> bool:
    return await refused(checks) >= count


async def refused(checks: Checks) -> int:
    page = checks.metrics().decode() if checks.metrics is not None else ""
    for line in page.splitlines():
        if line.startswith("gatelog_actuator_refused_messages_total "):
            return int(float(line.split()[1]))
    return 0


@pytest.mark.parametrize("user", USERS)
async def test_nobody_makes_a_way_to_where_they_may_not_speak(
    server: ShippedNats, bus: Bus, user: str
) -> None:
    to_decisions = {"src": ">", "dest": DECISIONS}
    mirror = {"name": "EVIL", "sources": [{"name": "EVENTS"}], "republish": to_decisions}
    async with Attacker(server, user) as evil:
        assert await evil.may(DECISIONS, b"x") is (user == "projector")
        republishing = {"name": "EVIL", "subjects": ["evil"], "republish": to_decisions}
        assert not await evil.may("$JS.API.STREAM.CREATE.EVIL", republishing)
        assert not await evil.may("$JS.API.STREAM.CREATE.EVIL", mirror)
        changed = {"name": "EVENTS", "subjects": ["events.>"], "republish": to_decisions}
        assert not await evil.may("$JS.API.STREAM.UPDATE.EVENTS", changed)
        for source in OWN.values():
            may = await evil.may(f"events.default.0.{source}", b"{}")
            assert may is (source == OWN.get(user)), source
        # What answers with the bytes of a message, and so could carry a forged one.
        assert not await evil.may("$JS.API.DIRECT.GET.EVENTS", {"seq": 1}, reply=DECISIONS)
        push = {"name": "p", "deliver_subject": DECISIONS, "ack_policy": "none"}
        made = await evil.may("$JS.API.CONSUMER.CREATE.EVENTS.p", {"config": push})
        named = await evil.may("$JS.API.CONSUMER.CREATE.EVENTS.p.events.>", {"config": push})
        pulled = await evil.may("$JS.API.CONSUMER.MSG.NEXT.EVENTS.p", b"1", reply=DECISIONS)
        if user in ("ingest", "actuator"):
            assert not (made or named or pulled)
        if user != "projector":
            traced = {"Nats-Trace-Dest": DECISIONS}
            own = f"events.default.0.{OWN[user]}" if user in OWN else "$JS.API.STREAM.INFO.EVENTS"
            assert not await evil.may(own, b"{}", headers=traced)
        # Nobody hears another's answers, or decisions that are not handed to them.
        for subject in ("_INBOX.>", "_INBOX.projector.>", "decisions.>", ">"):
            if subject == f"_INBOX.{user}.>":
                continue
            evil.complaints.clear()
            await evil.nc.subscribe(subject)
            await evil.nc.flush()
            await asyncio.sleep(0.02)
            assert any("permissions violation" in each for each in evil.complaints), subject


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_nobody_but_actuators_touches_their_consumer(
    server: ShippedNats, bus: Bus, cluster: str
) -> None:
    consumer = subjects.actuator_consumer(cluster)
    for user in USERS:
        async with Attacker(server, user) as evil:
            own = user == "actuator"
            for verb in ("CREATE", "DELETE", "MSG.NEXT"):
                subject = f"$JS.API.CONSUMER.{verb}.DECISIONS.{consumer}"
                assert await evil.may(subject) is (own and verb == "MSG.NEXT"), (user, verb)
            changed = f"$JS.API.CONSUMER.CREATE.DECISIONS.{consumer}.decisions.{cluster}.0"
            assert not await evil.may(changed), user
            # What readers make for themselves is theirs.
            reads = user in ("projector", "operator", "logreader")
            assert await evil.may("$JS.API.CONSUMER.DELETE.DECISIONS.mine") is reads


CLOSED = (
    *(f"$JS.API.STREAM.{verb}.{{stream}}" for verb in ("DELETE", "PURGE", "MSG.DELETE", "UPDATE")),
    *(f"$JS.API.STREAM.{verb}.{{stream}}" for verb in ("SNAPSHOT", "RESTORE", "LEADER.STEPDOWN")),
    *("$JS.API.STREAM.PEER.REMOVE.{stream}", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES"),
    *(f"$JS.API.CONSUMER.{verb}.{{stream}}.{{consumer}}" for verb in ("PAUSE", "UNPIN", "RESET")),
    *("$JS.API.CONSUMER.LEADER.STEPDOWN.{stream}.{consumer}", "$JS.API.CONSUMER.LIST.{stream}"),
    *("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{consumer}", "$JS.API.CONSUMER.NAMES.{stream}"),
    *("$JS.API.META.LEADER.STEPDOWN", "$JS.API.ACCOUNT.PURGE.$G", "$JS.API.SERVER.REMOVE"),
    *("$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.0.RELOAD", "$SYS.ACCOUNT.$G.CONNS"),
    *("$JS.EVENT.ADVISORY.evil", "$JS.FC.{stream}.{consumer}.1.2", "$KV.any.key", "evil"),
)
"""Subjects that no part may publish on: what forgets, copies, moves or holds up the log."""
SOURCES = {"ingest": "ingest", "projector": "projector", "actuator": "actuator"}


@pytest.mark.parametrize("user", USERS)
async def test_nobody_makes_the_log_forget_and_nobody_answers_for_another(
    server: ShippedNats, bus: Bus, user: str
) -> None:
    consumer = subjects.actuator_consumer("default")
    async with Attacker(server, user) as evil:
        for stream in ("EVENTS", "DECISIONS", "PARKED"):
            for closed in dict.fromkeys(CLOSED):
                subject = closed.format(stream=stream, consumer=consumer)
                assert not await evil.may(subject), (user, subject)
        ack = f"$JS.ACK.DECISIONS.{consumer}.1.1.1.1.1"
        assert await evil.may(ack) is (user == "actuator"), "who acks takes a decision away"
        assert not await evil.may("$JS.ACK.EVENTS.any.1.1.1.1.1")
        for part in SOURCES.values():
            said = await evil.may(f"health.default.{part}", b"{}")
            assert said is (SOURCES.get(user) == part), "who is ready says so itself"
        parks = await evil.may("parked.default.0", b"{}")
        assert parks is (user in ("projector", "actuator"))
        reads = user in ("operator", "logreader")
        for stream, readers in (("EVENTS", "ingest projector"), ("DECISIONS", "projector")):
            may = await evil.may(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": 1})
            assert may is (reads or user in readers.split()), (user, stream)


async def test_answers_led_among_the_decisions_are_nobodys(
    server: ShippedNats, bus: Bus, actuator: Checks, target: Target
) -> None:
    """Where an answer goes is no matter of permissions: what comes so is set aside, in the open."""
    victim = await target.victim()
    forged = encode_decision(decision(DeletePod(target=victim)))
    async with Attacker(server, "ingest") as evil:
        assert await evil.may("events.default.0.watch", forged, reply=DECISIONS)
        assert await evil.may("$JS.API.STREAM.MSG.GET.EVENTS", {"seq": 1}, reply=DECISIONS)
    async with Attacker(server, "operator") as evil:
        # An operator may read, so that the very bytes can be led there.
        await evil.may("events.default.0.operator", forged)
        pull = {"name": "p", "filter_subject": "events.default.0.operator", "ack_policy": "none"}
        create = "$JS.API.CONSUMER.CREATE.EVENTS.p.events.default.0.operator"
        config = json.dumps({"stream_name": "EVENTS", "config": pull}).encode()
        answer = await evil.nc.request(create, config, timeout=10)
        assert "error" not in json.loads(answer.data), answer.data
        await evil.may("$JS.API.CONSUMER.MSG.NEXT.EVENTS.p", b"1", reply=DECISIONS)
        # nats-server 2.15 hands out only to somebody who listens, and a stream is nobody.
        await asyncio.sleep(0.5)
    await until(lambda: refused_at_least(actuator, 2), "what came to be refused")
    assert await target.alive()
    assert (await bus.stream_state("PARKED")).messages == await refused(actuator)


async def test_only_what_the_projector_signed_is_carried_out(
    server: ShippedNats, bus: Bus, actuator: Checks, target: Target, tmp_path: Path
) -> None:
    """Even with the projector's own account: the key is not in the log server."""
    victim, other = await target.victim(), await target.victim("other")
    signer = Signer(str(server.secrets / "decision-key.pem"))
    strange_key = tmp_path / "strange.pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(strange_key)]
    subprocess.run(command, check=True, capture_output=True)
    stranger = Signer(str(strange_key))
    projector = await connect(server.settings("projector"), "projector", deadline_s=20)

    def body(found: Decision) -> bytes:
        return encode_decision(found)

    forged = body(decision(DeletePod(target=victim), 1))
    signed = body(decision(DeletePod(target=other), 2))
    good = signer.sign(DECISIONS, "good", signed)
    for number, (payload, msg_id, signature) in enumerate(
        (
            (forged, "m1", ""),
            (forged, "m2", "nonsense"),
            (forged, "m3", stranger.sign(DECISIONS, "m3", forged)),
            (forged, "m4", good),
            (signed, "m5", good),
            (signed, "m6", signer.sign("decisions.other.0", "m6", signed)),
            (signed, "m7", good.replace(".", ".1", 1)),
        )
    ):
        await projector.publish(DECISIONS, payload, msg_id, signature=signature)
        await until(lambda n=number: refused_at_least(actuator, n + 1), f"{msg_id} to be refused")
    assert await target.alive()
    assert await target.alive("other")
    await projector.publish(DECISIONS, signed, "good", signature=good)
    await until(lambda: gone(target, "other"), "what is signed to be carried out")
    assert await refused(actuator) == 7
    parked = await bus.stream_state("PARKED")
    assert parked.messages == 7
    reader = await connect(server.settings("logreader"), "reader", deadline_s=20)
    said = await reader.last("EVENTS", "events.default.0.actuator")
    assert said is not None
    first = await reader.at_or_after("EVENTS", 1, "events.default.0.actuator")
    assert first is not None
    (event,) = msgspec.json.decode(first.body)["events"]
    assert (event["type"], event["reason"]) == ("decision_refused.v1", "it is not signed")
    await reader.close()
    await projector.close()


async def test_an_old_message_that_is_stored_again_is_refused(
    server: ShippedNats,
    bus: Bus,
    actuator: Checks,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = await target.victim()
    body = encode_decision(decision(DeletePod(target=victim)))
    signer = Signer(str(server.secrets / "decision-key.pem"))
    with monkeypatch.context() as then:
        import time

        now = time.time()
        then.setattr(time, "time", lambda: now - 3600)
        old = signer.sign(DECISIONS, "old", body)
    projector = await connect(server.settings("projector"), "projector", deadline_s=20)
    await projector.publish(DECISIONS, body, "old", signature=old)
    await until(lambda: refused_at_least(actuator, 1), "it to be refused")
    assert await target.alive()
    await projector.close()


async def test_keys_change_without_a_restart_and_without_a_gap(
    server: ShippedNats, bus: Bus, actuator: Checks, target: Target, tmp_path: Path
) -> None:
    """Both keys are known for a while; then the old one is not any more."""
    new_key = tmp_path / "new.pem"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(new_key)]
    subprocess.run(make, check=True, capture_output=True)
    print_it = ["openssl", "pkey", "-in", str(new_key), "-pubout"]
    public = subprocess.run(print_it, check=True, capture_output=True).stdout
    keys = server.secrets / "decision-keys.pem"
    before = keys.read_bytes()
    projector = await connect(server.settings("projector"), "projector", deadline_s=20)

    async def carried_out(signer: Signer, name: str) -> bool:
        body = encode_decision(decision(DeletePod(target=await target.victim(name)), 1))
        count = await refused(actuator)
        sign = signer.sign(DECISIONS, name, body)
        await projector.publish(DECISIONS, body, name, signature=sign)

        async def settled() -> bool:
            return await refused(actuator) > count or await gone(target, name)

        await until(settled, name)
        return await gone(target, name)

    old, new = Signer(str(server.secrets / "decision-key.pem")), Signer(str(new_key))
    assert await carried_out(old, "a")
    assert not await carried_out(new, "b")
    keys.write_bytes(before + public)
    await asyncio.sleep(5.1)
    assert await carried_out(new, "c")
    assert await carried_out(old, "d")
    keys.write_bytes(public)
    await asyncio.sleep(5.1)
    assert not await carried_out(old, "e")
    assert await carried_out(new, "f")
    await projector.close()


async def test_a_part_says_what_to_do_where_the_streams_are_not_made(
    server: ShippedNats, target: Target
) -> None:
    settings = Settings(
        nats=server.settings("actuator"),
        streams=StreamSettings(create=False),
        kubernetes=KubernetesSettings(kubeconfig=str(target.kubeconfig)),
    )
    stop, checks = asyncio.Event(), Checks()
    task = asyncio.create_task(run_actuator(settings, stop, checks=checks))
    said = ""
    async with asyncio.timeout(20):
        while "gatelog migrate" not in said:
            said = str(await checks.readiness())
            await asyncio.sleep(0.05)
    stop.set()
    await task


def test_a_pod_of_another_name_is_no_way_out() -> None:
    """The reference is a name and not a path: what the fence lets through stays where it is."""
    from actuator.fence import forbidden

    command = DeletePod(target=pod_ref("x/../../kube-system/pods/dns"))
    assert forbidden(command, labels_of_checks=False)
