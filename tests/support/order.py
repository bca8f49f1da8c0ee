"""The order in which test files run: those that take long first.

A worker takes whole files (`--dist loadfile`), in the order of collection. A long file that is
begun last runs alone, with the other workers idle; begun first, short ones fill the gaps.

    pytest --junitxml=found.xml && python -m tests.support.order found.xml

prints `SECONDS` anew. Old figures cost a little time and nothing else.

Invariant: the tests of a file stay together, in their order.
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

LEAST_S = 10

SECONDS = {
    "tests/serve/test_kubectl.py": 45,
    "tests/serve/test_console.py": 45,
    "tests/serve/test_plugin.py": 30,
    "tests/serve/test_bad_requests.py": 25,
    "tests/serve/test_door.py": 15,
    "tests/e2e/test_ha.py": 120,
    "tests/e2e/test_rebuild.py": 110,
    "tests/e2e/test_kill.py": 100,
    "tests/cli/test_up.py": 55,
    "tests/cli/test_demo.py": 50,
    "tests/e2e/test_stopping.py": 45,
    "tests/e2e/test_restore.py": 30,
    "tests/e2e/test_checks.py": 20,
    "tests/projector/test_usage.py": 20,
    "tests/ingest/test_handover.py": 15,
    "tests/cli/test_replay.py": 50,
    "tests/e2e/test_nats_cluster.py": 45,
    "tests/e2e/test_busy.py": 45,
    "tests/replay/test_parked.py": 45,
    "tests/e2e/test_bad_input.py": 43,
    "tests/e2e/test_busy_replayed.py": 40,
    "tests/replay/test_archive.py": 38,
    "tests/chaos/test_chaos.py": 38,
    "tests/actuator/test_loop.py": 28,
    "tests/e2e/test_huge.py": 28,
    "tests/e2e/test_hands.py": 25,
    "tests/e2e/test_conformance.py": 24,
    "tests/e2e/test_conformance_kueue.py": 24,
    "tests/projector/test_shards.py": 22,
    "tests/projector/test_backlog.py": 20,
    "tests/replay/test_rebuild.py": 19,
    "tests/replay/test_export.py": 18,
    "tests/e2e/test_behind.py": 18,
    "tests/deploy/test_compose.py": 17,
    "tests/e2e/test_bad_messages.py": 16,
    "tests/projector/test_projection.py": 16,
    "tests/actuator/test_crash.py": 14,
    "tests/replay/test_verify.py": 14,
    "tests/projector/test_store.py": 13,
    "tests/ingest/test_endtoend.py": 13,
    "tests/metrics/test_scrape.py": 12,
    "tests/bench/test_soak.py": 12,
    "tests/projector/test_damage.py": 12,
    "tests/projector/test_epochs.py": 11,
    "tests/projector/test_crash.py": 11,
    "tests/runtime/test_work.py": 11,
    "tests/replay/test_fetching.py": 11,
    "tests/replay/test_past.py": 11,
    "tests/ingest/test_chaos.py": 10,
}
"""What a file takes, in seconds, where that is `LEAST_S` or more."""


def weight(file: str) -> int:
    """Seconds of a file, 0 for a short one."""
    return SECONDS.get(file, 0)


def measured(report: Path) -> dict[str, int]:
    """Seconds by file, of a junit.xml; the longest first."""
    found: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        found[case.get("classname", "").replace(".", "/") + ".py"] += float(case.get("time", "0"))
    return {
        file: round(s)
        for file, s in sorted(found.items(), key=lambda each: -each[1])
        if s >= LEAST_S
    }


if __name__ == "__main__":
    for name, seconds in measured(Path(sys.argv[1])).items():
        print(f'    "{name}": {seconds},')
