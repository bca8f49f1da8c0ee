"""`gatelog bundle`: what helps is in it, and no secret, wherever somebody may have put one."""

import asyncio
import base64
import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gatelog.bundle.scrubbing import GONE, Scrubber, scrubber
from podgroup.model import names
from runtime.settings import NatsSettings, Settings
from simcluster import Settings as SimSettings
from simcluster import SimCluster
from tests.projector.support import busy_toy
from tests.replay.conftest import Ran
from tests.replay.support import Played, played_in

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]
SYSTEM = "gatelog-system"
PLANTED = (
    *("pl4nted-url", "pl4nted-nats", "pl4nted-log", "pl4nted-bearer", "pl4nted-env"),
    *("pl4nted-annotation", "pl4nted phrase", "pl4nted-file", "pl4nted-query", "pl4nted-metric"),
    *("pl4nted-token", "pl4nted-pgpass", "pl4nted-kube", "plantedmounted", "planted-phrase"),
)
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEpl4nted\n-----END PRIVATE KEY-----"
LOG = f"""{{"event": "started", "part": "ingest", "password": "pl4nted-log"}}
{{"event": "refused", "error": "cannot reach nats://u:pl4nted-nats@nats:4222: no"}}
{{"event": "header", "line": "Authorization: Bearer pl4nted-bearer"}}
{{"event": "asked", "url": "https://x.example/a?token=pl4nted-query&x=1"}}
{{"event": "said", "text": "it is pl4nted-file, they say, and pl4nted-token"}}
{{"event": "key", "pem": {json.dumps(PEM)}}}
{{"event": "said", "text": "the log server heard plantedmounted from ingest"}}
{{"event": "said", "text": "opened with passphrase planted-phrase"}}
{{"event": "caught_up", "position": 77}}
"""


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Played]:
    """A log and a read model with secrets in annotations."""
    toy = busy_toy()
    toy.pod(
        "odd",
        "odd",
        annotations={names.GROUP_TOTAL_COUNT: "pl4nted phrase", "kueue.x-k8s.io/x": PLANTED[5]},
    )
    server, found = played_in(tmp_path, f"sqlite:///{tmp_path}/live.sqlite3", toy)
    yield found
    asyncio.run(server.stop())


async def installed(cluster: SimCluster) -> None:
    """Pods of gatelog as they are after a start, with secrets where people put them."""
    await cluster.create("", "namespaces", {"metadata": {"name": SYSTEM}})
    data = {"ingest": base64.b64encode(b"plantedmounted\n").decode()}
    await cluster.create(
        "", "secrets", {"metadata": {"name": "gatelog-nats"}, "data": data}, SYSTEM
    )
    labels = {"app.kubernetes.io/name": "gatelog", "app.kubernetes.io/component": "ingest"}
    for name, more in (("gatelog-ingest-1", labels), ("stranger", {})):
        container = {
            "name": "ingest",
            "image": "gatelog:1",
            "env": [{"name": "GATELOG_DATABASE_URL", "value": "postgresql://u:pl4nted-url@h/d"}],
        }
        volumes = [{"name": "nats", "secret": {"secretName": "gatelog-nats"}}]
        meta = {"name": name, "labels": more, "annotations": {"note": PLANTED[5]}}
        await cluster.create(
            "",
            "pods",
            {"metadata": meta, "spec": {"containers": [container], "volumes": volumes}},
            SYSTEM,
        )
        cluster.api.logs[SYSTEM, name, "ingest", False] = LOG


def read(file: Path) -> tuple[dict[str, str], bytes]:
    """Return the texts of an archive by name, and all of it as bytes, unpacked."""
    texts: dict[str, str] = {}
    everything = b""
    with tarfile.open(file) as archive:
        for member in archive.getmembers():
            source = archive.extractfile(member)
            assert source is not None
            data = source.read()
            if member.name.endswith(".gz"):
                data = gzip.decompress(data)
            texts[member.name.partition("/")[2]] = data.decode()
            everything += member.name.encode() + data
    return texts, everything


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(text='gatelog_up{url="nats://u:pl4nted-metric@h"} 1\n')


async def test_nothing_secret_is_in_it_wherever_it_was(
    gatelog: Gatelog, planted: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "pl4nted-token")
    monkeypatch.setenv("PGPASSWORD", "pl4nted-env")
    passfile = tmp_path / "pgpass"
    passfile.write_text("h:5432:d:u:pl4nted-pgpass\n")
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    key = tmp_path / "webhook.key"
    key.write_text("pl4nted-file\n")
    out_log = tmp_path / "up.log"
    out_log.write_text(LOG + "it was pl4nted-pgpass and pl4nted-env and pl4nted-kube\n")
    app = web.Application()
    app.router.add_get("/metrics", _metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    target = tmp_path / "case.tar.gz"
    async with SimCluster(
        SimSettings(token="pl4nted-kube", scheduler=True, kubelet="scripted")
    ) as cluster:
        await installed(cluster)
        await _running(cluster)
        kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        code, out, err = await asyncio.to_thread(
            gatelog,
            *("bundle", str(target), "--group", "ns/odd", "--kubeconfig", kubeconfig),
            *planted.options,
            *("--set", f"health.port={port}", "--log-file", str(out_log)),
            *("--set", f"webhook.key_file={key}", "--set", f"webhook.cert_file={key}"),
            *("--set", "archive.url=s3://u:pl4nted-url@bucket/x"),
        )
        assert cluster.server.stats["get", "pods/log", 200] == 1
    await runner.cleanup()
    assert (code, err) == (0, ""), err
    assert target.stat().st_mode & 0o777 == 0o600
    texts, everything = read(target)
    assert "look through it before you send it" in texts["README.txt"]
    for secret in (*PLANTED, "MIIEpl4nted", "pl4nted"):
        for form in (secret, base64.b64encode(secret.encode()).decode(), json.dumps(secret)[1:-1]):
            assert form.encode() not in everything, (form, everything.find(form.encode()))
    assert set(texts) >= {
        *("README.txt", "version.json", "settings.json", "doctor.json", "metrics.txt"),
        *("parts.json", "logs/gatelog-ingest-1.ingest.log", "logs/up.log", "group.jsonl.gz"),
    }, out
    assert not any("stranger" in name for name in texts)
    assert '"position": 77' in texts["logs/gatelog-ingest-1.ingest.log"]
    assert GONE in texts["metrics.txt"] and "gatelog_up" in texts["metrics.txt"]
    settings = json.loads(texts["settings.json"])
    assert settings["health.port"] == {"value": port, "given": True}
    assert settings["archive.url"]["value"] == f"s3://{GONE}@bucket/x"
    findings = json.loads(texts["doctor.json"])
    assert {"settings", "database", "log", "cluster"} <= {f["area"] for f in findings}
    assert json.loads(texts["parts.json"])["pods"][0]["containers"][0]["image"] == "gatelog:1"
    log = [json.loads(line) for line in texts["group.jsonl.gz"].splitlines()]
    assert log[0]["pseudonymised"] is True and len(log) > 3
    for name in ('"odd"', "ns/odd", "late"):
        assert name not in texts["group.jsonl.gz"]


async def _running(cluster: SimCluster) -> None:
    """Wait until the stand-in's kubelet has started the containers, which then have logs."""
    async with asyncio.timeout(20):
        while not all(
            (pod.get("status") or {}).get("containerStatuses")
            for pod in cluster.objects("", "pods", SYSTEM)
        ):
            await asyncio.sleep(0.02)


def test_what_cannot_be_had_is_named(gatelog: Gatelog, tmp_path: Path) -> None:
    target = tmp_path / "case.tar.gz"
    words = ("--state-dir", str(tmp_path / "none"), "--kubeconfig", str(tmp_path / "no"))
    code, out, err = gatelog("bundle", str(target), *words)
    assert (code, err) == (0, "")
    texts, _ = read(target)
    assert set(texts) == {"README.txt", "version.json", "settings.json", "doctor.json"}
    for lacking in ("metrics.txt: health.port is off", "cluster: ", "group.jsonl.gz: "):
        assert f"without {lacking}" in out and f"  {lacking}" in texts["README.txt"]
    assert not (tmp_path / "none").exists()
    code, _, err = gatelog("bundle", str(target), *words)
    assert code == 2 and "--force replaces it" in err
    code, _, err = gatelog("bundle", str(tmp_path / "no" / "folder" / "x.tar.gz"), *words)
    assert code == 1 and "cannot write" in err


def test_without_a_name_it_takes_the_group_that_waits_longest(
    gatelog: Gatelog, planted: Played, tmp_path: Path
) -> None:
    target = tmp_path / "case.tar.gz"
    words = ("--kubeconfig", str(tmp_path / "no"))
    assert gatelog("bundle", str(target), *words, *planted.options)[0] == 0
    texts = read(target)[0]
    assert "group.jsonl.gz" in texts, texts["README.txt"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgresql://me:s3cret@db/x", f"postgresql://{GONE}@db/x"),
        ("dbname=x password='a b' host=h", f"dbname=x password='{GONE}' host=h"),
        ('{"api_key": "abc", "n": 1}', f'{{"api_key": "{GONE}", "n": 1}}'),
        ("token: eyJhbGciOi.eyJzdWIi.c2ln", f"token: {GONE}"),
        ("got eyJhbGciOi.eyJzdWIi.c2ln here", f"got {GONE} here"),
        (f"a {PEM} b", f"a {GONE} b"),
        ("pods wait for quota; cpu=3, memory: 4Gi", "pods wait for quota; cpu=3, memory: 4Gi"),
        ("see https://host/path@2", "see https://host/path@2"),
        (
            "the passphrase is hunter, or password Tr0ub",
            f"the passphrase is {GONE}, or password {GONE}",
        ),
        ("password authentication failed for user x", "password authentication failed for user x"),
        ("to postgresql://me:s3/cr@t@db/x: no", f"to postgresql://{GONE}@db/x: no"),
        ("nats://a:b/c@one:1,nats://d:e@two:2", f"nats://{GONE}@one:1,nats://{GONE}@two:2"),
        ("DB_PASS=hunter2 bypass=no", f"DB_PASS={GONE} bypass=no"),
        ("AccountKey=abc/d==;BlobEndpoint=x", f"AccountKey={GONE};BlobEndpoint=x"),
        ("GET /x?se=1&sig=a%2Fb&n=2", f"GET /x?se=1&sig={GONE}&n=2"),
        ("Cookie: session=abc", f"Cookie: {GONE}"),
    ],
)
def test_forms_of_secrets(text: str, left: str) -> None:
    found = Scrubber().text(text)
    assert found == left
    assert Scrubber().text(found) == found


def test_what_the_process_knows_is_found_in_every_writing(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("fi/le+pw\n")
    settings = Settings(nats=NatsSettings(password_file=str(file), url="nats://tok%2Fen@h:1"))
    known = {
        "DB_PASSWORD": 'q"uote',
        "HOME_DIR": "kept",
        "X": "x",
        "DSN": "postgresql://u:s/l4sh@h",
        "OTHER": "postgresql://u:c,o/mma@h",
    }
    found: Any = scrubber(settings, known)
    for secret in ("s/l4sh", "s%2Fl4sh", "c,o/mma"):
        assert found.text(f"<{secret}>") == f"<{GONE}>", secret
    for secret in ("fi/le+pw", "fi%2Fle%2Bpw", "tok%2Fen", "tok/en", 'q"uote', 'q\\"uote'):
        assert found.text(f"<{secret}>") == f"<{GONE}>", secret
    assert found.text("kept x") == "kept x"
    assert found.value({"password": "a", "n": ["tok/en"]}) == {"password": GONE, "n": [GONE]}
