"""`gatelog secrets`: made once, in the cluster, never changed, as deploy/secrets.sh makes them."""

import asyncio
import base64
import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gatelog.cluster.passwords import SIGNING, USERS, VERIFYING, SecretError, fill, lacking
from gatelog.shell.remedies import Installation, remedy
from runtime.jetstream.values import Message
from runtime.kube import KubeClient
from runtime.signing import Signer, Verifier
from tests.deploy.manifests import DEPLOY, objects
from tests.support.standin import SimCluster

Bare = tuple[SimCluster, KubeClient]
SYSTEM, NAME = "gatelog-system", "gatelog-nats"
PATH = f"/api/v1/namespaces/{SYSTEM}/secrets"


def problem(folder: Path, keys: dict[str, bytes], signed_with: bytes) -> str:
    """Whether an actuator that has `keys` believes what is signed with a private key."""
    (folder / "private").write_bytes(signed_with)
    (folder / "public").write_bytes(keys[VERIFYING])
    signature = Signer(str(folder / "private")).sign("decisions.a.0", "1", b"body")
    message = Message(
        subject="decisions.a.0",
        sequence=1,
        at=datetime.now(UTC),
        body=b"body",
        msg_id="1",
        signature=signature,
    )
    return Verifier(str(folder / "public")).problem(message)


def test_what_is_made_is_what_the_script_makes(tmp_path: Path) -> None:
    made = lacking({}, "default")
    subprocess.run(
        ["sh", str(DEPLOY / "secrets.sh"), str(tmp_path)], check=True, capture_output=True
    )
    by_script = (tmp_path / "passwords.conf").read_text()
    ours = made["passwords.conf"].decode()
    assert re.sub('"[0-9a-f]{48}"', "", ours) == re.sub('"[0-9a-f]{48}"', "", by_script)
    assert len({made[user] for user in USERS}) == len(USERS)
    assert problem(tmp_path, made, made[SIGNING]) == ""
    assert lacking(made, "default") == {}
    assert set(lacking(made, "other")) == {"passwords.conf"}


def test_what_is_taken_out_is_made_anew_and_the_rest_stays(tmp_path: Path) -> None:
    before = lacking({}, "default")
    without = {key: one for key, one in before.items() if key != "ingest"}
    made = lacking(without, "default")
    assert set(made) == {"ingest", "passwords.conf"} and made["ingest"] != before["ingest"]
    assert made["ingest"] in made["passwords.conf"]
    after = before | lacking({k: v for k, v in before.items() if k != SIGNING}, "default")
    assert after[SIGNING] != before[SIGNING]
    for private in (before[SIGNING], after[SIGNING]):
        assert problem(tmp_path, after, private) == "", "decisions are on their way"
    alone = after | lacking({k: v for k, v in after.items() if k != VERIFYING}, "default")
    assert alone[SIGNING] == after[SIGNING] and problem(tmp_path, alone, after[SIGNING]) == ""
    assert "is not among those" in problem(tmp_path, alone, before[SIGNING])


async def test_keys_that_do_not_fit_are_mended_by_the_lines_that_are_printed(
    bare_cluster: Bare, tmp_path: Path
) -> None:
    """The remedy named a script, where a Job fills the Secret, which leaves what is there."""
    _, kube = bare_cluster
    await kube.json("POST", "/api/v1/namespaces", body={"metadata": {"name": SYSTEM}})
    keys, other = lacking({}, "default"), lacking({}, "default")
    keys[VERIFYING] = other[VERIFYING]
    data = {key: base64.b64encode(one).decode() for key, one in keys.items()}
    await kube.json("POST", PATH, body={"metadata": {"name": NAME}, "data": data})
    assert "is not among those" in problem(tmp_path, keys, keys[SIGNING])
    assert await fill(kube, SYSTEM, NAME, "default") == []
    said = remedy("keys", Installation(how="helm"))
    (patch,) = re.findall(f"patch secret {NAME} --type=merge -p '(.*?)'`", said)
    kind = "application/merge-patch+json"
    body = json.loads(patch)
    status, _ = await kube.json("PATCH", f"{PATH}/{NAME}", body=body, content_type=kind)
    assert status == 200
    # The Job is made again by the next line, under the label that it has.
    job = next(one for one in objects(DEPLOY / "components" / "secrets") if one["kind"] == "Job")
    assert "delete job -l app.kubernetes.io/component=secrets`; `helm -n" in said
    assert job["metadata"]["labels"] == {"app.kubernetes.io/component": "secrets"}
    assert VERIFYING in await fill(kube, SYSTEM, NAME, "default")
    _, found = await kube.json("GET", f"{PATH}/{NAME}")
    now = {key: base64.b64decode(text) for key, text in found["data"].items()}
    assert problem(tmp_path, now, keys[SIGNING]) == ""


async def test_a_secret_is_filled_once_by_however_many(bare_cluster: Bare) -> None:
    _, kube = bare_cluster
    await kube.json("POST", "/api/v1/namespaces", body={"metadata": {"name": SYSTEM}})
    with pytest.raises(SecretError, match=f"there is no Secret {SYSTEM}/{NAME}"):
        await fill(kube, SYSTEM, NAME, "default")
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}}
    body["metadata"]["annotations"] = {"gatelog.io/filled-by": "gatelog-secrets"}
    status, empty = await kube.json("POST", PATH, body=body)
    assert status == 201
    done = await asyncio.gather(*(fill(kube, SYSTEM, NAME, "default") for _ in range(3)))
    assert sorted(map(len, done)) == [0, 0, len(USERS) + 3]
    _, found = await kube.json("GET", f"{PATH}/{NAME}")
    assert lacking({k: base64.b64decode(v) for k, v in found["data"].items()}, "default") == {}
    assert found["metadata"]["annotations"] == empty["metadata"]["annotations"]
    assert await fill(kube, SYSTEM, NAME, "default") == []
