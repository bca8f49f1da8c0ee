"""How many overtook a group that waits, and what became of others of its size. Both databases."""

from datetime import UTC, datetime, timedelta

from gatelog.forecast.beside import note
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.overtaking import MOST, Record, sentences
from gatelog.readmodel.starts import FIRST, OFF, sentence, unknown
from tests.projector.support import Writer
from tests.support.toy import Toy

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def wide_and_small() -> Toy:
    """A wide group ran once; now one waits, and three small ones that came later started."""
    toy = Toy(cpu=10)
    toy.pod("wide-1", cpu=9)
    toy.run("wide-1")
    toy.pod("wide-2", cpu=8)
    toy.wait(600)
    toy.end("wide-1")
    toy.run("wide-2")
    toy.pod("wide-3", cpu=9)
    toy.wait(10)
    for number in range(2):
        toy.pod(f"small-{number}", cpu=1)
        toy.run(f"small-{number}")
    return toy


def test_a_group_that_is_overtaken_says_so_with_the_record_of_its_size(url: str) -> None:
    toy = wide_and_small()
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        found = explain(model, model.groups("ns", "wide-3")[0], toy.now)
        first = explain(model, model.groups("ns", "wide-2")[0], toy.now)
        then = explain(model, model.groups("ns", "wide-2")[0], toy.now - timedelta(60), past=True)
    assert found.record is not None and first.record is None and then.record is None
    assert (found.record.overtakers, found.record.smaller, found.record.alike) == (2, 2, 2)
    assert 599 < found.record.longest_s < 620
    said = {one.label: one.text for one in lines(found, toy.now)}
    assert said["overtaken"] == "by 2 smaller groups that came after it"
    assert said["record"].startswith("2 groups of its size waited 5 m")
    assert said["expected"] == OFF


def test_before_the_first_forecast_it_is_said_that_it_comes(url: str) -> None:
    toy = wide_and_small()
    Writer(url).feed(toy.messages)
    note(url, "test")
    with ReadModel(url, "test") as model:
        found = explain(model, model.groups("ns", "wide-3")[0], toy.now)
    assert {one.label: one.text for one in lines(found, toy.now)}["expected"] == FIRST


def test_records_in_words() -> None:
    assert sentences(Record(overtakers=1, smaller=0)) == [
        ("overtaken", "by 1 group that came after it, 0 of them smaller"),
        ("record", "no group of its size was admitted here yet"),
    ]


def test_of_as_many_as_are_looked_at_it_says_at_least() -> None:
    (said,) = sentences(Record(overtakers=MOST, smaller=MOST))[:1]
    assert said == ("overtaken", "by at least 500 smaller groups that came after it")


def test_what_is_not_known_is_one_line() -> None:
    soon = NOON + timedelta(minutes=5)
    since = NOON - timedelta(hours=1)
    assert sentence(soon, None, "", NOON, "smaller jobs") == (
        "starts in about 5 min; no safe upper limit: smaller jobs keep overtaking it"
    )
    assert sentence(None, None, "", NOON) == "not within 30 days: others keep overtaking it"
    assert unknown(None, None, since, NOON) == OFF
    assert unknown(NOON, None, since, NOON) == FIRST
    late = unknown(since - timedelta(1), 50, since, NOON)
    assert late == "no estimate: the latest forecast is 25 h old", "they may be made once a day"
    assert unknown(NOON, 3, since, NOON).startswith("no estimate yet: 3 of 20 groups have ended")
    assert unknown(NOON, 50, since, NOON) == "no estimate: too many wait to play when each starts"
    assert unknown(since, 50, NOON, NOON).startswith("no estimate yet: it came after")
    old = NOON + timedelta(hours=2)
    assert unknown(NOON, 50, since, old) == "no estimate: the latest forecast is 2 h old"
