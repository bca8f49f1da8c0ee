"""Every recording of a real cluster as rows: groups, roles, pods and gates agree with its outcome.

Both databases; each recording is a cluster of its own in one database.
"""

from collections import Counter
from typing import Any

import sqlalchemy as sa

from podgroup.engine import Then, new_world, step
from podgroup.fold.records import apply_record
from podgroup.log.journal import At
from projector import tables
from projector.replay.sink import Sink
from projector.storage.database import reader
from tests.support.recordings import OUTCOMES, batches, outcome


def test_rows_agree_with_what_was_left(url: str) -> None:
    for name in OUTCOMES:
        sink = Sink(url, name, "kueue")
        world = new_world(name, "kueue")
        for position, at, batch in batches(name):
            # Kueue decided there: what we would decide is left out, what we say of it is not.
            for record in step(world, position, at, batch, Then({})).said_now:
                apply_record(world, At(position, at), record)
            sink.write(world, at, [])
        sink.close()
    engine = reader(url)
    with engine.connect() as connection:
        for name in OUTCOMES:
            check(connection, name, outcome(name))
    engine.dispose()


def rows(connection: sa.Connection, table: sa.Table, cluster: str) -> list[Any]:
    return list(connection.execute(sa.select(table).where(table.c.cluster == cluster)).all())


def check(connection: sa.Connection, name: str, wanted: dict[str, Any]) -> None:
    pods = rows(connection, tables.pods, name)
    live = {pod.name: pod for pod in pods if pod.gone_at is None}
    assert {
        pod.name: {
            "phase": pod.phase,
            "gated": pod.gated,
            "finalizer": pod.finalizer,
            "terminating": pod.deleted_at is not None,
            "bound": bool(pod.node),
        }
        for pod in live.values()
    } == wanted["pods"], name
    gone = {pod.name for pod in pods if pod.gone_at is not None}
    assert gone - set(live) == set(wanted["deleted"]) - set(live), name

    groups = {group.id: group for group in rows(connection, tables.groups, name)}
    by_workload = {g.workload_name: g for g in groups.values() if g.gone_at is None}
    roles = rows(connection, tables.roles, name)
    for workload, found in wanted["workloads"].items():
        group = by_workload[workload]
        mine = [role for role in roles if role.group_id == group.id]
        assert sorted(role.count for role in mine if role.count) == found["counts"], workload
        assert group.queue == found["queue"]
        finished = found["conditions"].get("Finished")
        assert (group.state in ("Finishing", "Finished")) == bool(finished), (name, workload)
        if finished:
            assert group.reason == finished[1]
        elif found["conditions"].get("Admitted", ["False"])[0] == "True":
            assert group.state in ("Admitted", "Running", "Evicted"), (name, workload, group.state)
            assert group.cluster_queue

    for group in groups.values():
        ours = [pod for pod in pods if pod.group_id == group.id]
        there = [pod for pod in ours if pod.gone_at is None]
        mine = [role for role in roles if role.group_id == group.id]
        counted = Counter(pod.phase for pod in there)
        assert group.pods_seen == len(ours) == sum(role.pods_seen for role in mine)
        assert group.pods_running == counted["Running"]
        assert group.pods_gated == sum(pod.gated for pod in there)
        assert group.pods_succeeded >= counted["Succeeded"]
        assert group.pods_failed >= counted["Failed"]

    by_uid = {pod.uid: pod for pod in pods}
    gates = rows(connection, tables.gates, name)
    assert {gate.pod_uid for gate in gates} == set(by_uid)
    for gate in gates:
        pod = by_uid[gate.pod_uid]
        if gate.gate == "kueue.x-k8s.io/admission":
            assert (gate.removed_at is None) == pod.gated, (name, pod.name)
            assert gate.removed_by == ("" if pod.gated else "kueue")
            if not pod.gated:
                assert gate.added_at <= gate.removed_at
                assert pod.ungated_at == gate.removed_at
