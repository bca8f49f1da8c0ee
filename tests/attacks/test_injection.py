"""What a user writes into names, owners and messages does nothing to who reads an answer.

A spreadsheet calculates no formula, a terminal gets no control character and no change of
direction, a row of CSV is one line, and Parquet and JSON have the text as it is.
"""

import csv
import io
import json
import unicodedata
from pathlib import Path

import pytest

from tests.attacks.conftest import Attack
from tests.support.processes import pod
from tests.support.realcluster import kubeconfig

WAYS = ["policy"] if kubeconfig() is None else ["webhook", "policy"]
pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.parametrize("setup", WAYS, indirect=True, scope="module"),
]

EVIL = 'a"b,c\n+d\r\x00\x1b]0;owned\x07\u202e\u2028e'
KINDS = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\u2028=1")
"""What a spreadsheet may take for a formula; Kubernetes takes any text as an owner's kind."""
ESCAPES = ("\x1b", "\x07", "\x00", "\r", "\u202e", "\u2028")


async def failed(attack: Attack) -> list[str]:
    """Have a pod fail for each of the kinds; the owners as the read model is to name them."""
    names = []
    for number, kind in enumerate(KINDS):
        body = pod(f"evil-{number}", cpu="1", script="run=50ms,fail=3")
        owner = {"apiVersion": "x.example/v1", "kind": kind, "name": EVIL, "uid": f"u-{number}"}
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        made = await attack.api.call("POST", attack.base, body)
        names.append("{kind}/{name}".format(**made["metadata"]["ownerReferences"][0]))

    async def all_told() -> bool:
        query = "SELECT owner FROM pods WHERE namespace = ? AND ended_at IS NOT NULL"
        return len(attack.stack.sql(query, attack.namespace)) == len(KINDS)

    await attack.api.until("all are told as failed", all_told)
    return names


async def test_no_answer_has_what_a_user_wrote_act(attack: Attack, tmp_path: Path) -> None:
    owners = await failed(attack)
    out = attack.stack.command("usage", "--failures", "-o", "csv").stdout
    rows = [row for row in csv.reader(io.StringIO(out)) if row[0] == attack.namespace]
    assert len(rows) == len(KINDS)
    assert len(out.split("\n")) == len(list(csv.reader(io.StringIO(out)))) + 1, "a row is a line"
    for row in rows:
        assert row[1].startswith(("'", "\\n", "\ufffd")), row
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row), row
    one = f"{attack.namespace}/evil-0"
    forms = [
        ["usage", "--failures"],
        ["usage", "--failures", "-o", "csv"],
        ["usage", "--failures", "-o", "json"],
        ["usage", "--failures", "-o", "yaml"],
        ["why", one],
        ["history", one],
        ["sql", f"SELECT owner FROM pods WHERE namespace = '{attack.namespace}'"],
        ["sql", f"SELECT owner FROM pods WHERE namespace = '{attack.namespace}'", "-o", "json"],
    ]
    for words in forms:
        done = attack.stack.command(*words)
        assert done.returncode == 0, done.stderr
        for text in (done.stdout, done.stderr):
            assert not any(escape in text for escape in ESCAPES), words
            assert not any(unicodedata.category(c) == "Cc" for c in text if c not in "\n\t"), words
    said = json.loads(attack.stack.command("usage", "--failures", "-o", "json").stdout)
    told = {row["owner"] for row in said["rows"] if row["namespace"] == attack.namespace}
    assert told == set(owners), "programs get the text as it is"
    parquet = pytest.importorskip("pyarrow.parquet")
    done = attack.stack.command("export", f"{tmp_path}/lake", "--format", "parquet")
    assert done.returncode == 0, done.stderr
    found = [
        row["owner"]
        for file in Path(tmp_path, "lake").rglob("pods/**/*.parquet")
        for row in parquet.read_table(file, columns=["namespace", "owner"]).to_pylist()
        if row["namespace"] == attack.namespace
    ]
    assert sorted(found) == sorted(owners)
