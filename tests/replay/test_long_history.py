"""The questions of `gatelog ask` on a longer history: found by index, whatever lies around them.

Fifty thousand events in twelve weeks or so: enough that PostgreSQL, after ANALYZE, reads an index
where it is cheaper and all of a table where that is. The million is in `python -m bench queries`.
"""

from bench.generated import CLUSTER, fill
from bench.questions import ask, history_scans, pages, plan
from projector.storage.database import reader
from tests.replay.questions import answers, asked

EVENTS = 50_000


def test_no_question_reads_all_of_history(postgres_database: str) -> None:
    made = fill(postgres_database, EVENTS)
    assert made.events >= EVENTS and made.rows["history"] > EVENTS / 2
    engine = reader(postgres_database)
    sizes = pages(engine)
    assert sum(size for name, size in sizes.items() if name.startswith("history_")) > 500
    for name, query in asked("postgresql"):
        scans = list(history_scans(plan(engine, query), sizes))
        assert scans == [], query
        if "v_expected_starts" in query or "v_estimates_tried" in query:
            continue  # the projection does not fill these: `gatelog forecast` does
        # What the small history answers is among the answers.
        assert ask(engine, query)[1] >= min(1, answers()[name].count("\n") - 1), query
    everything = plan(engine, "SELECT kind, count(*) FROM history GROUP BY kind")
    assert list(history_scans(everything, sizes)), "the check can fail"
    with engine.connect() as connection:
        clusters = connection.exec_driver_sql("SELECT DISTINCT cluster FROM groups").scalars()
        assert list(clusters) == [CLUSTER]
    engine.dispose()
