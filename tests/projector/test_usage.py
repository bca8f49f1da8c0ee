"""What was used, held, wasted and waited for: by hand, and that all sums agree. Both databases."""

import asyncio
import csv
import io
import itertools
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatelog import cli
from gatelog.readmodel import usage as sums
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rates import Rates
from projector import tables
from projector.schema.dialect import POSTGRES, SQLITE
from projector.storage.database import writer
from projector.times import utc_text
from tests.golden import rows as golden
from tests.projector import test_views
from tests.projector.test_views import ask
from tests.replay.questions import filled

T = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)
END = T + timedelta(hours=3)
WAYS = (
    *("namespace", "queue", "localqueue", "flavor", "group", "hour", "day", "label:team"),
    "label:example.com/user",
)
Sums = dict[tuple[str, str, str], int]
"""(resource, what, why) -> amounts times microseconds."""


def at(minutes: float) -> datetime:
    return T + timedelta(minutes=minutes)


def summed(url: str, by: str, since: datetime, until: datetime, cluster: str = "c") -> Sums:
    """The total of one way to divide a period, by what became of it."""
    return totals(asked(url, by, "", since, until, cluster))


def together(
    url: str, by: str, step: str, since: datetime, until: datetime, cluster: str
) -> tuple[Sums, Sums]:
    """The totals by key and by hour or day, of one statement."""
    rows = asked(url, by, step, since, until, cluster)
    return (
        totals([row for row in rows if row["begins"] is None]),
        totals([row for row in rows if row["begins"] is not None]),
    )


def asked(
    url: str, by: str, step: str, since: datetime, until: datetime, cluster: str
) -> list[dict[str, Any]]:
    with ReadModel(url, cluster) as model:
        dialect = POSTGRES if model.dialect == "postgresql" else SQLITE
        given: dict[str, Any] = {"since": since, "until": until, "limit": 1_000_000}
        given |= {"cut": sums.first_cut(step or by, since, until), "key": by.partition(":")[2]}
        return model.dicts(sums.query(by, dialect, step=step), given)


def totals(rows: list[dict[str, Any]]) -> Sums:
    found: Sums = defaultdict(int)
    shares, _ = sums.added_up(rows, None)
    for share in shares:
        found[share.resource, "running", ""] += share.spent.running
        found[share.resource, "waited", ""] += share.spent.waited
        found[share.resource, "unadmitted", ""] += share.spent.unadmitted
        for what, parts in (("held", share.spent.held), ("wasted", share.spent.wasted)):
            for why, amount in parts.items():
                found[share.resource, what, why] += amount
    return {key: amount for key, amount in found.items() if amount}


def by_the_hour(url: str, cluster: str, since: datetime, until: datetime) -> Sums:
    """The same from view v_usage_hourly, whose hours begin and end with the period."""
    query = sa.text(
        "SELECT resource, what, why, sum(resource_hours) AS hours FROM v_usage_hourly "
        "WHERE cluster = :cluster AND hour >= :since AND hour < :until GROUP BY 1, 2, 3"
    )
    given: dict[str, Any] = {"cluster": cluster, "since": since, "until": until}
    if url.startswith("sqlite"):
        given |= {key: utc_text(given[key]) for key in ("since", "until")}
    engine = writer(url)
    with engine.connect() as connection:
        rows = connection.execute(query, given).all()
    engine.dispose()
    found = {}
    for resource, what, why, hours in rows:
        factor = 1000 if resource == "cpu" else 1
        if amount := round(Fraction(str(hours)) * factor * 3600 * 10**6):
            found[resource, what, why] = amount
    return found


def agree(url: str, since: datetime, until: datetime, cluster: str = "c") -> Sums:
    """Assert that all ways to divide a period come to the same, and return it."""
    found = [summed(url, by, since, until, cluster) for by in WAYS]
    for way, one in zip(WAYS, found, strict=True):
        assert one == found[0], way
    for by, step in (("queue", "hour"), ("label:team", "day")):
        assert together(url, by, step, since, until, cluster) == (found[0], found[0]), (by, step)
    half = since + (until - since) / 3
    parts = [summed(url, "queue", *period, cluster) for period in ((since, half), (half, until))]
    for key in {*found[0], *parts[0], *parts[1]}:
        assert parts[0].get(key, 0) + parts[1].get(key, 0) == found[0].get(key, 0), key
    return found[0]


def put(connection: sa.Connection, table: Any, **given: Any) -> None:
    test_views.put(connection, table, **{"cluster": "c"} | given)


def group(connection: sa.Connection, **given: Any) -> None:
    put(connection, tables.groups, namespace="ns", queue="lq", created_at=T, **given)


def pod(connection: sa.Connection, uid: str, group_id: str = "g", **given: Any) -> None:
    values: dict[str, Any] = {
        "name": uid,
        "namespace": "ns",
        "role": "r",
        "gated": False,
        "finalizer": False,
        "labels": {"team": "red", "workflows.argoproj.io/workflow": "w1"},
        "requests": {"cpu": 2000},
        "created_at": T,
    }
    put(connection, tables.pods, uid=uid, group_id=group_id, **(values | given))


def story(url: str) -> None:
    """A gang of two with two cores each holds quota for two hours; one pod fails, is replaced."""
    engine = writer(url)
    with engine.begin() as connection:
        group(connection, id="g", name="train", kind="group", state="Running")
        put(
            connection,
            tables.admissions,
            group_id="g",
            number=1,
            cluster_queue="cq",
            flavors={"r": {"cpu": "spot"}},
            resources={"spot": {"cpu": 4000}},
            admitted_at=at(10),
            released_at=at(130),
            release_reason="Finished",
        )
        put(connection, tables.roles, group_id="g", name="r", count=2, requests={"cpu": 2000})
        pod(
            connection,
            "good",
            ungated_at=at(11),
            started_at=at(20),
            ended_at=at(130),
            phase="Succeeded",
            fate="kept",
        )
        pod(
            connection,
            "bad",
            ungated_at=at(11),
            started_at=at(20),
            ended_at=at(50),
            phase="Failed",
            fate="replaced",
        )
        pod(
            connection,
            "again",
            created_at=at(55),
            ungated_at=at(60),
            started_at=at(70),
            failed_at=at(120),
            deleted_at=at(121),
            ended_at=at(130),
            phase="Succeeded",
            fate="kept",
        )
        pod(connection, "spare", gated=True, fate="excess", created_at=at(60), gone_at=at(66))
        quota = {"spot": {"cpu": 6000}}
        put(connection, tables.quotas, cluster_queue="cq", seq=1, at=at(-600), nominal=quota)
        put(connection, tables.quotas, cluster_queue="cq", seq=9, at=at(60), nominal={})
    engine.dispose()


def minutes(found: Sums) -> dict[tuple[str, str], float]:
    """Core-minutes by what and why."""
    return {key[1:]: amount / 1000 / 60e6 for key, amount in found.items()}


def test_by_hand(url: str) -> None:
    story(url)
    found = minutes(agree(url, at(-30), at(210)))
    assert found == {
        ("waited", ""): 2 * (11 + 11 + 5 + 6),
        ("held", "starting"): 2 * (9 + 9 + 10),
        ("running", ""): 2 * (110 + 50),
        ("wasted", "failed"): 2 * 30,
        ("held", "terminating"): 2 * 10,
        # Admitted and its gates still there; and from the failure until another pod was let in.
        ("held", "incomplete"): 4 * 1 + 2 * 10,
    }
    taken = sum(amount for (what, _), amount in found.items() if what != "waited")
    assert taken == 4 * 120, "all that the admission held, and nothing else"
    hourly = by_the_hour(url, "c", at(-30), at(210))
    assert {key: pytest.approx(value, abs=1e6) for key, value in hourly.items()} == summed(
        url, "hour", at(-30), at(210)
    )


def test_the_command_tells_cost_and_idle_quota(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story(url)
    rates = tmp_path / "rates.toml"
    rates.write_text('currency = "EUR"\n[rates]\ncpu = 0.5\n[flavors.spot]\ncpu = 0.06\n')
    period = ["--since", "2026-03-01T22:00:00Z", "--until", "2026-03-02T02:00:00Z"]
    common = ["usage", *period, "--db", url, "--cluster", "c", "--rates", str(rates)]
    assert cli.run([*common, "--by", "queue", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = told["rows"]
    assert (row["key"], row["unit"], told["currency"]) == ("cq", "core-h", "EUR")
    assert row["taken"] == pytest.approx(8) and row["cost"] == pytest.approx(8 * 0.06)
    assert row["cost_of_wasted"] == pytest.approx(0.06)
    # Six cores for an hour and a half: nobody had one core-hour of them, on balance.
    (quota,) = told["quota"]
    assert (quota["quota"], quota["taken"]) == (pytest.approx(9), pytest.approx(8))
    assert quota["idle"] == pytest.approx(1)
    assert quota["cost_of_idle"] == pytest.approx(0.06)
    with_quota = writer(url)
    with with_quota.begin() as connection:
        put(
            connection,
            tables.quotas,
            cluster_queue="q2",
            seq=2,
            at=at(0),
            nominal={"f": {"cpu": 1}},
        )
        put(connection, tables.quotas, cluster_queue="q2", seq=3, at=at(60), nominal={})
    with_quota.dispose()
    assert cli.run([*common, "--by", "queue", "-o", "csv"]) == 0
    mine, other = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (mine["queue"], mine["quota"], mine["idle"]) == ("cq", "9.000000", "1.000000")
    assert (other["queue"], other["taken"], other["cost"]) == ("q2", "0.000000", "0.0000")
    assert (other["quota"], other["idle"], other["cost_of_idle"]) == ("0.001000",) * 2 + ("0.0005",)
    assert cli.run([*common, "--by", "flavor"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].split() == [
        *("cq", "spot", "cpu", "core-h", "9.00", "8.00", "1.00", "0.00", "0.06"),
    ]
    assert told["total"][0]["running"] == row["running"]

    assert cli.run([*common, "--by", "label:team", "-o", "csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (line["label:team"], line["running"], line["cost"]) == ("red", "5.333333", "0.4800")

    assert cli.run([*common, "--by", "label:workflows.argoproj.io/workflow", "-o", "csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert line["label:workflows.argoproj.io/workflow"] == "w1"

    assert cli.run([*common, "--by", "group", "-o", "csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (line["group"], line["running"], line["wasted"]) == ("ns/train", "5.333333", "1.000000")

    assert cli.run([*common, "--by", "user", "--user-label", "team"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:3] == ["USER", "RESOURCE", "UNIT"]
    assert out[1].split() == [
        *("red", "cpu", "core-h", "5.33", "1.67", "1.00", "1.10", "0.00"),
        *("0.48", "0.10", "0.06"),
    ]
    assert out[2].startswith("(all)")


ABSURD = 2**63 - 1
"""Amount of `cpu: 1e300`, which a log holds where nothing refused it."""


def came_past_admission(connection: sa.Connection) -> None:
    """Three pods that were never admitted run for an hour; one of them joins a group that is."""
    group(connection, id="sly", name="sly", kind="single", cluster_queue="cq")
    past = {"started_at": at(30), "created_at": at(30), "ended_at": at(90)}
    pod(connection, "sly", "sly", requests={"cpu": ABSURD}, phase="Failed", **past)
    pod(connection, "sly-2", "sly", requests={"cpu": 3000}, phase="Succeeded", **past)
    pod(connection, "join", "g", requests={"cpu": ABSURD}, fate="excess", **past)
    pod(connection, "queued", "sly", requests={"cpu": ABSURD}, gated=True, gone_at=at(60))


def test_what_was_never_admitted_is_in_no_total(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story(url)
    before = minutes(agree(url, at(-30), at(210)))
    engine = writer(url)
    with engine.begin() as connection:
        came_past_admission(connection)
    engine.dispose()
    found = minutes(agree(url, at(-30), at(210)))
    most = 1_000_000
    apart = {"unadmitted": 60 * (3 + 2 * most), "waited": before["waited", ""] + 60 * most}
    assert found == before | {(what, ""): amount for what, amount in apart.items()}
    hourly = by_the_hour(url, "c", at(-30), at(210))
    assert hourly["cpu", "unadmitted", ""] == pytest.approx(apart["unadmitted"] * 6e10)

    rates = tmp_path / "rates.toml"
    rates.write_text("[rates]\ncpu = 0.5\n")
    period = ["--since", "2026-03-01T22:00:00Z", "--until", "2026-03-02T02:00:00Z"]
    common = ["usage", *period, "--db", url, "--cluster", "c", "--rates", str(rates), "-o"]
    assert cli.run([*common, "csv", "--by", "queue"]) == 0
    out, err = capsys.readouterr()
    (line,) = csv.DictReader(io.StringIO(out))
    assert (line["taken"], line["idle"], line["cost"]) == ("8.000000", "1.000000", "4.0000")
    assert float(line["unadmitted"]) == 2_000_003
    assert "a pod asked for more cpu than any node has: counted as 1M" in err
    assert cli.run([*common, "json", "--by", "namespace"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"][0]["unadmitted"] == 2_000_003 and told["total"][0]["taken"] == 8

    columns = "sum(resource_hours) AS ran, sum(unadmitted_hours) AS apart, max(pods) AS pods"
    (day,) = ask(url, f"SELECT {columns} FROM v_namespace_cost")
    assert float(day["ran"]) == pytest.approx((320 + 60) / 60)
    assert float(day["apart"]) == pytest.approx(2_000_003)
    (pods,) = ask(url, f"SELECT {columns} FROM v_pod_usage_daily")
    assert float(pods["ran"]) == pytest.approx(float(day["ran"]))


def test_what_ran_before_its_admission_is_apart_until_then(url: str) -> None:
    story(url)
    engine = writer(url)
    with engine.begin() as connection:
        early = tables.pods.update().where(tables.pods.c.uid == "good")
        connection.execute(early.values(ungated_at=None, started_at=at(0)))
    engine.dispose()
    found = minutes(agree(url, at(-30), at(210)))
    assert found["unadmitted", ""] == 2 * 10
    assert found["running", ""] == 2 * (120 + 50)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[rates]\ncpu = -1\n", "rates.cpu is -1"),
        ("[rates]\ncpu = 'much'\n", "rates"),
        ("[rate]\ncpu = 1\n", "rate"),
        ("cpu =\n", "rates.toml"),
    ],
)
def test_bad_rates_are_refused_with_their_place(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(text)
    assert cli.run(["usage", "--rates", str(path)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("by", ["team", "label:", "label:$x", "label:a b"])
def test_bad_keys_are_refused(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["usage", "--by", by]) == 2
    assert f"--by {by}" in capsys.readouterr().err


def test_rates_of_flavors_go_before_those_of_all() -> None:
    row = {"key": "a", "resource": "memory", "what": "running", "why": "", "amount": 2**31}
    rows = [row | {"flavor": f, "micros": 3_600_000_000} for f in ("spot", "", "odd")]
    rates = Rates(rates={"memory": 3}, flavors={"spot": {"memory": 1}, "odd": {"cpu": 1}})  # type: ignore[dict-item]
    (share,), unpriced = sums.added_up(rows, rates)
    assert share.cost == 2 * (1 + 3 + 3) and unpriced == []


SAMPLE = [path for i, path in enumerate(golden.logs("v1")) if i % 25 == 3]


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_all_sums_agree_on_logs(url: str) -> None:
    some = 0
    for path in [golden.HERE / "v1" / "demo.jsonl.gz", *SAMPLE]:
        cluster = path.name.partition(".")[0]
        asyncio.run(golden.folded(path, url))
        first = ask(url, f"SELECT min(created_at) AS t FROM pods WHERE cluster = '{cluster}'")
        if first[0]["t"] is None:
            continue
        begin = datetime.fromisoformat(str(first[0]["t"])).replace(minute=0, second=0)
        begin = begin.replace(microsecond=0)
        end = begin + timedelta(hours=2)
        found = agree(url, begin, end, cluster)
        hourly = by_the_hour(url, cluster, begin, end)
        assert hourly.keys() == found.keys()
        assert all(abs(hourly[key] - found[key]) <= 1e6 for key in found)
        some += len(found)
    assert some > 10


def test_all_sums_agree_on_the_history_of_the_questions(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/questions.sqlite3"
    filled(url).dispose()
    found = agree(
        url, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), "default"
    )
    assert {what for _, what, _ in found} == {"running", "held", "wasted", "waited"}


def test_a_gate_taken_off_before_the_pod_was_made_says_that_clocks_differ(url: str) -> None:
    engine = writer(url)
    with engine.begin() as connection:
        group(connection, id="g", name="train", kind="group")
        pod(connection, "p", created_at=at(80), ungated_at=at(60), phase="Pending")
    engine.dispose()
    assert agree(url, at(0), at(240))


moments = st.one_of(st.none(), st.integers(-60, 260).map(at))
pods = st.fixed_dictionaries(
    {
        "created_at": st.integers(-60, 200).map(at),
        "ungated_at": moments,
        "started_at": moments,
        "failed_at": moments,
        "deleted_at": moments,
        "ended_at": moments,
        "gone_at": moments,
        "gated": st.booleans(),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        "fate": st.sampled_from(["", "kept", "excess", "replaced", "lost"]),
        "labels": st.sampled_from([{}, {"team": "red"}, {"team": "blue", "example.com/user": "x"}]),
        "requests": st.sampled_from([{"cpu": 1500}, {"cpu": 1, "memory": 3 * 2**40 + 1}, {}]),
        "group_id": st.sampled_from(["g", "h"]),
    }
)
held = st.tuples(
    st.integers(-60, 200).map(at),
    moments,
    st.sampled_from(["Finished", "Preempted", "Deactivated"]),
)


@given(st.lists(pods, max_size=6), st.lists(held, max_size=3))
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_all_sums_agree_whatever_the_rows_say(
    url: str, some: list[dict[str, Any]], admissions: list[Any]
) -> None:
    engine = writer(url)
    with engine.begin() as connection:
        for table in (tables.groups, tables.roles, tables.pods, tables.admissions):
            connection.execute(sa.delete(table))
        group(connection, id="g", name="train", kind="group", cluster_queue="cq")
        group(connection, id="h", name="alone", kind="single", cluster_queue="other")
        asked = {"cpu": 1500, "memory": 5}
        put(connection, tables.roles, group_id="g", name="r", count=2, requests=asked)
        for number, one in enumerate(some):
            pod(connection, f"p{number}", **one)
        for number, (begin, end, reason) in enumerate(admissions, 1):
            put(
                connection,
                tables.admissions,
                group_id="g",
                number=number,
                cluster_queue="cq",
                flavors={"r": {"cpu": "spot", "memory": "any", "pods": "spot"}},
                resources={"spot": {"cpu": 3000, "pods": 2}, "any": {"memory": 10**12}},
                admitted_at=begin,
                released_at=end,
                release_reason=reason if end else "",
            )
    engine.dispose()
    agree(url, at(-60), END)
    lives = ask(
        url,
        "SELECT pod_uid, resource, from_at, to_at FROM v_usage_spans WHERE why <> 'incomplete' "
        "AND resource <> 'pods' ORDER BY pod_uid, resource, from_at",
    )
    for one, two in itertools.pairwise(lives):
        if (one["pod_uid"], one["resource"]) == (two["pod_uid"], two["resource"]):
            assert one["to_at"] == two["from_at"], "a life has no gap and no overlap"
