"""Dashboards and alerts: every query runs, every metric exists, every runbook is there.

SQL is run on both databases, on a read model with a bit of everything. Expressions are run by the
real Prometheus where one is installed, and read by a parser of the language everywhere.
"""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from projector.storage.database import reader
from tests.deploy.compose import free_port
from tests.deploy.manifests import DEPLOY
from tests.metrics.reference import PAGE

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
RULES = DEPLOY / "prometheus" / "rules.yaml"
RUNBOOK = DEPLOY.parent / "docs" / "runbook.md"
PROMETHEUS = shutil.which("prometheus")
WORDS = {
    "cluster": "test",
    "namespace": "ns",
    "name": "a",
    "life": "",
}


def dashboard(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def targets(kind: str) -> list[tuple[str, str]]:
    """(where, query) of all panels of one kind of data source, and of variables."""
    found = []
    field = "expr" if kind == "prometheus" else "rawSql"
    for file in DASHBOARDS:
        read = dashboard(file)
        for panel in read["panels"]:
            for target in panel["targets"]:
                if field in target:
                    found.append((f"{file.stem}: {panel['title']}", target[field]))
        for variable in read["templating"]["list"]:
            source = (variable.get("datasource") or {}).get("type", "")
            if kind != "prometheus" and source == "grafana-postgresql-datasource":
                found.append((f"{file.stem}: ${variable['name']}", variable["query"]))
    return found


def expressions() -> list[tuple[str, str]]:
    alerts = [(a.get("alert") or a["record"], a["expr"]) for a in evaluated()]
    shown = [(w, e.replace('=~"$queue"', '=~".*"')) for w, e in targets("prometheus")]
    rows = re.findall(r"^\| [^|]+\? \| (`.+`) \|$", PAGE.read_text(), re.MULTILINE)
    page = [one for row in rows for one in re.findall(r"`([^`]+)`", row)]
    return [*alerts, *shown, *(("docs/metrics.md", one) for one in page)]


def evaluated() -> list[dict[str, Any]]:
    """All rules: alerts, and what is recorded for them."""
    (group,) = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    return list(group["rules"])


def rules() -> list[dict[str, Any]]:
    """Those that alert."""
    return [rule for rule in evaluated() if "alert" in rule]


def test_dashboards_are_whole_and_ask_their_own_data_source():
    assert {f.stem for f in DASHBOARDS} == {
        "gatelog-queues-prometheus",
        "gatelog-health-prometheus",
        "gatelog-queues-sql",
        "gatelog-health-sql",
        "gatelog-group-sql",
    }
    for file in DASHBOARDS:
        read = dashboard(file)
        assert read["uid"] == file.stem
        kind = "prometheus" if file.stem.endswith("prometheus") else "grafana-postgresql-datasource"
        ids = [panel["id"] for panel in read["panels"]]
        assert len(ids) == len(set(ids))
        variables = {v["name"] for v in read["templating"]["list"]}
        for panel in read["panels"]:
            assert panel["datasource"]["type"] == kind
            assert panel["datasource"]["uid"].strip("${}") in variables
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            for target in panel["targets"]:
                used = set(re.findall(r"\$\{?([a-z]+)(?=[:}\"])", json.dumps(target)))
                assert used <= variables, (file.stem, panel["title"])


def test_every_metric_that_is_asked_for_exists():
    known = set(re.findall(r"^\| `(gatelog_[a-z_]+)`", PAGE.read_text(), re.MULTILINE))
    for where, expression in expressions():
        for name in re.findall(r"gatelog_[a-z_]+", expression):
            plain = re.sub(r"_(bucket|sum|count)$", "", name)
            assert plain in known or name in known, f"{where}: {name}"


def test_every_alert_says_what_is_wrong_and_leads_to_what_to_do():
    headings = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        notes = rule["annotations"]
        assert len(notes["summary"].split()) > 4
        assert notes["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["alert"] in headings


def test_expressions_are_promql():
    import promql_parser

    for where, expression in expressions():
        try:
            promql_parser.parse(expression)
        except ValueError as error:
            pytest.fail(f"{where}: {error}: {expression}")
    with pytest.raises(ValueError):
        promql_parser.parse("sum by (x (gatelog_groups)")


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    if PROMETHEUS is None:
        pytest.skip("Prometheus is not installed")
    port = free_port()
    (tmp_path / "prometheus.yml").write_text("{}\n")
    command = [
        *(PROMETHEUS, f"--config.file={tmp_path}/prometheus.yml"),
        *(f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={tmp_path}/data"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).read()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < ends
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_expressions_are_run_by_prometheus(prometheus: str):
    for where, expression in expressions():
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{prometheus}/api/v1/query?{query}", timeout=20) as answer:
                assert json.load(answer)["status"] == "success"
        except urllib.error.HTTPError as error:
            pytest.fail(f"{where}: {error.read().decode()}")


def filled(query: str) -> str:
    """The statement as Grafana would send it."""
    query = query.replace("$__timeFrom()", "'2025-12-31T00:00:00Z'")
    query = query.replace("$__timeTo()", "'2026-01-02T00:00:00Z'")
    return re.sub(r"\$\{(\w+):sqlstring\}", lambda found: f"'{WORDS[found[1]]}'", query)


def test_every_statement_runs_on_both_databases(read_model: tuple[str, Any, Any]):
    url, *_ = read_model
    engine = reader(url)
    rows: dict[str, int] = {}
    with engine.connect() as connection:
        life = connection.execute(
            sa.text("SELECT id FROM groups WHERE namespace = 'ns' AND name = 'a'")
        ).scalar_one()
        for where, query in targets("sql"):
            asked = filled(query).replace("group_id = ''", f"group_id = '{life}'")
            asked = asked.replace("AND id = ''", f"AND id = '{life}'")
            assert "$" not in asked, where
            rows[where] = len(connection.execute(sa.text(asked.replace(":", r"\:"))).all())
    engine.dispose()
    quiet = {
        "Preemptions",
        "Parked",
        "Decisions without outcome",
        "What the API server refused",
        "Beginnings of the log",
        "Expected starts",
        "How queues and cohorts stand",
        "Quota, held and borrowed",
        "What came true of expected starts",
        "What failed, by reason and owner",
    }
    for where, count in rows.items():
        if not where.endswith(tuple(quiet)):
            assert count > 0, where
