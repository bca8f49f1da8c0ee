"""The table: each fault, what it does, and who must say so.

Where a cell cannot be had, `without` says why. What is said is matched with a regular expression.

Invariant: a fault leaves everything as it was, except what gatelog must mend by itself.
"""

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import psycopg
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from msgspec import Struct

from actuator.retrying import SEVERAL
from tests.deploy.manifests import DEPLOY, objects
from tests.standstill.around import (
    api_answers,
    kueue_beside,
    queue_without,
    serve_certificate,
    webhook_certificate,
)
from tests.standstill.stack import Stack
from tests.support.faults import answers, policies
from tests.support.faults.clock import set_by
from tests.support.faults.processes import disk_kept_full, frozen
from tests.support.parts import PARTS, migrate

RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LIFE_S = 3.0
"""Seconds that a part lives that is killed in a loop: enough to say that it works."""
Does = Callable[[Stack], AbstractAsyncContextManager[None]]


class Fault(Struct, frozen=True):
    """One row. `parts` are those whose every /readyz must say no; with `one`, one replica of each.

    `says`: the cause, in /readyz and doctor. `why`: what is said about a pod created meanwhile.
    """

    name: str
    does: Does
    parts: tuple[str, ...]
    says: str
    alert: str
    why: str
    one: bool = False
    silent: bool = False
    """/readyz does not answer at all."""
    everywhere: str = ""
    """What `why -A` says of it too."""
    doctor: str = ""
    """What doctor says, if not `says`."""
    quick: bool = False
    """Played in `make test` too."""
    standin: bool = False
    """The stand-in alone can do it."""
    without: str = ""
    """The channels that cannot say it, a colon, and why."""

    def lacks(self, channel: str) -> bool:
        return channel in self.without.partition(":")[0]


@asynccontextmanager
async def nats_gone(stack: Stack) -> AsyncIterator[None]:
    stack.nats_wanted = False
    await asyncio.to_thread(stack.nats.stop)
    try:
        yield
    finally:
        stack.nats.start()
        stack.nats_wanted = True


@asynccontextmanager
async def nats_full(stack: Stack) -> AsyncIterator[None]:
    async with disk_kept_full(lambda: stack.nats.process.pid):
        yield


@asynccontextmanager
async def stream_deleted(stack: Stack) -> AsyncIterator[None]:
    await asyncio.to_thread(stack.nats.stop)
    for folder in (stack.folder / "data").glob("**/streams/EVENTS"):
        shutil.rmtree(folder)
    stack.nats.start()
    try:
        yield
    finally:
        await asyncio.to_thread(migrate, stack.env("streams"), stack.folder)


@asynccontextmanager
async def nats_password(stack: Stack) -> AsyncIterator[None]:
    """The server has new passwords, the parts the old ones."""
    secrets = stack.nats.secrets
    old = {part: (secrets / part).read_text() for part in PARTS}
    conf = secrets / "passwords.conf"
    before = conf.read_text()
    text = before
    for password in old.values():
        text = text.replace(password.strip(), f"new-{password.strip()}"[: len(password.strip())])
    conf.write_text(text)
    stack.nats.reload()
    try:
        yield
    finally:
        conf.write_text(before)
        stack.nats.reload()


@asynccontextmanager
async def database_gone(stack: Stack) -> AsyncIterator[None]:
    await asyncio.to_thread(stack.postgres.signal, signal.SIGKILL)
    try:
        yield
    finally:
        await asyncio.to_thread(stack.postgres.start)


@asynccontextmanager
async def database_full(stack: Stack) -> AsyncIterator[None]:
    await asyncio.to_thread(stack.postgres.limit_files, "32768")
    try:
        yield
    finally:
        await asyncio.to_thread(stack.postgres.limit_files, "unlimited")
        if not stack.postgres.alive:
            await asyncio.to_thread(stack.postgres.start)


@asynccontextmanager
async def database_locked(stack: Stack) -> AsyncIterator[None]:
    """A session reads every table and lets none be written meanwhile. pg_dump lets them be."""
    connection = psycopg.connect(stack.postgres.url())
    try:
        await asyncio.to_thread(connection.execute, "LOCK TABLE checkpoints IN SHARE MODE")
        yield
    finally:
        await asyncio.to_thread(connection.close)


@asynccontextmanager
async def database_password(stack: Stack) -> AsyncIterator[None]:
    await asyncio.to_thread(stack.give, "another")
    try:
        yield
    finally:
        await asyncio.to_thread(stack.give, stack.password)


@asynccontextmanager
async def schema_newer(stack: Stack) -> AsyncIterator[None]:
    with psycopg.connect(stack.postgres.url(), autocommit=True) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        assert row is not None
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    try:
        yield
    finally:
        stack.as_admin(f"UPDATE alembic_version SET version_num = '{row[0]}'")


@asynccontextmanager
async def rights_gone(part: str, stack: Stack) -> AsyncIterator[None]:
    await stack.api.call("DELETE", f"{RBAC}/gatelog-{part}")
    if stack.sim is not None:
        await answers.do(stack.api, drop_watches=True)  # a real server ends them after minutes
    try:
        yield
    finally:
        for obj in objects(DEPLOY / "base"):
            if obj["kind"] == "ClusterRoleBinding" and obj["metadata"]["name"] == f"gatelog-{part}":
                await stack.bind(obj)


async def _several_pods(stack: Stack) -> None:
    """Make so many pods that one of two actuators fails with several."""
    for _ in range(2 * SEVERAL):
        await stack.pod()


@asynccontextmanager
async def ungating_refused(stack: Stack) -> AsyncIterator[None]:
    """A policy refuses that gates go, as one that names another account would."""
    if stack.sim is not None:
        text = "ValidatingAdmissionPolicy 'gates' with binding 'gates' denied request: not you"
        rule = {"status": 403, "method": "PATCH", "path": "/pods/", "text": text}
        async with answers.answering(stack.api, rule):
            await _several_pods(stack)
            yield
        return
    async with policies.ungating_refused(stack.api):
        await _several_pods(stack)
        yield


@asynccontextmanager
async def key_unknown(stack: Stack) -> AsyncIterator[None]:
    keys = stack.nats.secrets / "decision-keys.pem"
    before = keys.read_bytes()
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    keys.write_bytes(other.public_bytes(serialization.Encoding.PEM, form))
    await asyncio.sleep(6)  # the file is looked at every five seconds
    try:
        yield
    finally:
        keys.write_bytes(before)


@asynccontextmanager
async def key_absent(stack: Stack) -> AsyncIterator[None]:
    key = stack.nats.secrets / "decision-key.pem"
    away = key.with_name("away.pem")
    key.rename(away)
    try:
        yield
    finally:
        away.rename(key)


@asynccontextmanager
async def key_wrong(stack: Stack) -> AsyncIterator[None]:
    key = stack.nats.secrets / "decision-key.pem"
    before = key.read_bytes()
    key.write_text("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n")
    try:
        yield
    finally:
        key.write_bytes(before)


@asynccontextmanager
async def absent(part: str, stack: Stack) -> AsyncIterator[None]:
    await asyncio.gather(*(asyncio.to_thread(child.stop) for child in stack.parts.of(part)))
    try:
        yield
    finally:
        for child in stack.parts.of(part):
            child.start()


@asynccontextmanager
async def clocks_apart(stack: Stack) -> AsyncIterator[None]:
    """Both projectors run on a clock that is ahead of all others; it is set right at the end."""
    clock = stack.folder / "clock"
    clock.write_text("660", encoding="ascii")
    for child in stack.parts.of("projector"):
        await asyncio.to_thread(child.stop)
        child.argv = set_by(clock, "project")
        child.start()
    for name in ("projector-1", "projector-2"):
        while (await stack.readyz(name))[0] != 200:
            await asyncio.sleep(0.2)
    try:
        yield
    finally:
        clock.write_text("0", encoding="ascii")


@asynccontextmanager
async def stopped(part: str, stack: Stack) -> AsyncIterator[None]:
    with frozen(*(child.pid for child in stack.parts.of(part))):
        yield


@asynccontextmanager
async def killed_in_a_loop(part: str, stack: Stack) -> AsyncIterator[None]:
    over = asyncio.Event()

    async def loop() -> None:
        while not over.is_set():
            for child in stack.parts.of(part):
                await asyncio.to_thread(child.kill)
                child.start()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), LIFE_S)

    killing = asyncio.create_task(loop())
    try:
        yield
    finally:
        over.set()
        await killing


ALL = ("ingest", "projector", "actuator")
STOPPED, REPLICA = "GatelogPartNotReady", "GatelogReplicaNotReady"
NATS = r"NATS|not connected|nats"

FORGED = "GatelogForgedDecision|GatelogForgedDecision, GatelogPartNotReady"
"""A message that is not believed is said in any case, beside a standstill as well."""

FAULTS = (
    Fault("NATS gone", nats_gone, ALL, NATS, STOPPED, NATS),
    Fault("NATS' disk full", nats_full, ("ingest",), "stores nothing", STOPPED, "stores nothing",
          one=True),
    Fault("stream EVENTS deleted", stream_deleted, ("ingest", "projector"),
          "no stream EVENTS|stores nothing", STOPPED, "no stream EVENTS|stores nothing", one=True),
    Fault("passwords of NATS changed", nats_password, ALL, "[Aa]uthorization|NATS", STOPPED, NATS),
    Fault("database gone", database_gone, ("projector",), "database: .*(refused|connection)",
          STOPPED, "cannot read|refused", doctor="refused", quick=True),
    Fault("database full", database_full, ("projector",), "database:", STOPPED,
          "database|cannot read|refused", doctor="database", one=True),
    Fault("database locked by a backup", database_locked, ("projector",),
          "database: no answer|timeout", STOPPED, "no projector runs", one=True,
          doctor="no projector runs|last write"),
    Fault("password of the database changed", database_password, ("projector",),
          "password authentication", STOPPED, "password authentication"),
    Fault("schema newer than the image", schema_newer, ("projector",), "newer than this", REPLICA,
          "", one=True, doctor="9999",
          without="why: the projector that leads goes on, so nothing is held up"),
    Fault("rights of ingest gone", partial(rights_gone, "ingest"), ("ingest",),
          "may not|forbidden|403", STOPPED, "ingest"),
    Fault("rights of the actuator gone", partial(rights_gone, "actuator"), ("actuator",),
          "may not patch pods", "GatelogGatesNotRemoved", "refused .*403",
          everywhere="GateNotRemoved"),
    Fault("a policy refuses each ungating", ungating_refused, ("actuator",),
          "no gate could be removed", "GatelogGatesNotRemoved",
          "admitted .* ago; the gate could not be removed: refused .*(403|422)", one=True,
          quick=True, everywhere="GateNotRemoved", doctor="gates: .*(403|422).*denied"),
    Fault("signing key unknown to the actuators", key_unknown, ("actuator",),
          "no decision is believed", FORGED,
          "no actuator has answered|not among those", one=True, doctor="believed|no actuator"),
    Fault("clocks of projector and NATS 11 minutes apart", clocks_apart, ("actuator",),
          "no decision is believed", FORGED,
          "no actuator has answered|not among those|clocks", one=True,
          doctor="believed|no actuator"),
    Fault("signing key absent", key_absent, ("projector",), "signing_key_file", REPLICA, "",
          one=True, quick=True, without="why: the projector that leads has read it"),
    Fault("signing key of the wrong kind", key_wrong, ("projector",), "Ed25519", REPLICA, "",
          one=True, without="why: the projector that leads has read it"),
    *(Fault(f"{part} absent", partial(absent, part), (part,), "", f"Gatelog{part.title()}Absent",
            f"no {part} runs", silent=True, doctor=f"no {part} runs", quick=part == "actuator")
      for part in PARTS),
    *(Fault(f"{part} stopped (SIGSTOP)", partial(stopped, part), (part,), "",
            f"Gatelog{part.title()}Absent", f"no {part} runs", silent=True,
            doctor=f"no {part} runs") for part in PARTS),
    *(Fault(f"{part} killed in a loop", partial(killed_in_a_loop, part), (part,), "",
            f"Gatelog{part.title()}Absent", f"no {part} runs|{part} starts and ends", silent=True,
            doctor=f"{part}") for part in PARTS),
    Fault("API server answers 503", partial(api_answers, 503), ("ingest", "projector"),
          "503", STOPPED, "503",
          standin=True, one=True, doctor="503", without="why: no pod can be created meanwhile"),
    Fault("API server answers 429", partial(api_answers, 429), ("ingest", "projector"),
          "429", STOPPED, "429",
          standin=True, one=True, doctor="429", without="why: no pod can be created meanwhile"),
    Fault("certificate of the webhook expired", webhook_certificate, ("ingest",),
          "certificate .* expired", STOPPED, "certificate .* expired"),
    Fault("certificate of serve expired", serve_certificate, ("serve",),
          "certificate .* expired", "", "",
          without="doctor, why, alert: no gate waits for serve; the API server finds the "
          "aggregated API unavailable, doctor its Deployment not ready"),
    Fault("Kueue's own pod integration on", kueue_beside, (), "", "", "",
          doctor="pod integration is on",
          without="/readyz, why, alert: an administrator alone may read Kueue's settings; asked by "
          "another account doctor warns, and gatelog up does not start"),
    *(Fault(f"ClusterQueue without {field}", partial(queue_without, field), (), "", "", what,
            doctor=field, quick=field == "namespaceSelector",
            without="/readyz, alert: a queue's owner wrote it so, gatelog works")
      for field, what in (
          ("resourceGroups", "spec.resourceGroups of ClusterQueue"),
          ("namespaceSelector", r"an empty one \({}\) selects all"),
      )),
)  # fmt: skip

ON_A_REAL_SERVER = {
    # It lets open watches go on for minutes, or ends one: the leader works, or neither does.
    "rights of ingest gone": {
        "one": True,
        "alert": f"{REPLICA}|{STOPPED}",
        "without": "why: the leader goes on",
    },
}
"""What of a fault is otherwise where the API server is not the stand-in."""
