"""The track record: how long groups waited that were like one that waits, as an upper limit."""

from gatelog.forecast import present
from gatelog.forecast.estimating import LIKELY, Estimate, limited
from gatelog.forecast.record import Asked, Waited, Waits
from gatelog.forecast.spans import ENOUGH
from gatelog.readmodel.overtaking import of_its_size
from projector.storage.database import reading
from tests.projector.support import Writer
from tests.support.toy import Toy

CPU = (("cpu", 10_000),)


def waits(*seconds: float, asked: Asked, over: bool = True) -> list[Waited]:
    return [Waited(asked, one, over) for one in seconds]


def test_of_its_size_is_from_half_to_twice() -> None:
    assert [taken for taken in range(25) if of_its_size(10, taken)] == list(range(5, 21))


def test_who_asks_for_as_much_in_the_same_queue_says_how_long() -> None:
    wide = Asked("cq", 0, CPU)
    known = waits(*range(100, 1000, 100), asked=Asked("cq", 0, (("cpu", 8_000), ("memory", 1))))
    others = [
        *waits(*[5000.0] * 20, asked=Asked("cq", 0, (("cpu", 30_000),))),
        *waits(*[1.0] * 20, asked=Asked("cq", 0, (("cpu", 1_000),))),
        *waits(*[1.0] * 20, asked=Asked("cq", 0, (("memory", 1),))),
        *waits(*[1.0] * 20, asked=Asked("other", 0, CPU)),
    ]
    found = Waits(known + others)
    assert found.within(wide, 0.5, 0.0) == 500
    assert found.within(wide, LIKELY, 0.0) == 900
    assert found.within(wide, 0.5, 450.0) == 700 - 450, "of those that waited for longer"
    still = Waits([*known, *waits(*[950.0] * 9, asked=wide, over=False)])
    assert (still.within(wide, 0.5, 0.0) or 0) > 900, "those that wait still wait for longer"


def test_of_its_priority_where_enough_are_known() -> None:
    low, high = Asked("cq", 0, CPU), Asked("cq", 100, CPU)
    some = waits(*[10.0] * ENOUGH, asked=high)
    assert Waits(some).within(low, 0.5, 0.0) == 10, "others are better than none"
    more = Waits([*some, *waits(*[900.0] * ENOUGH, asked=low)])
    assert (more.within(low, 0.5, 0.0), more.within(high, 0.5, 0.0)) == (900, 10)


def test_few_say_nothing() -> None:
    asked = Asked("cq", 0, CPU)
    assert Waits(waits(*[10.0] * (ENOUGH - 1), asked=asked)).within(asked, 0.5, 0.0) is None
    assert Waits(waits(*[10.0] * 50, asked=asked, over=False)).within(asked, 0.5, 0.0) is None


def test_where_plays_have_no_upper_limit_the_record_has(url: str) -> None:
    """Two thirds of the wide groups of a week had no upper limit, though many like them started."""
    toy = Toy(cpu=10)
    for number in range(ENOUGH + 3):
        toy.pod(f"wide-{number}", cpu=9)
    for number in range(ENOUGH + 1):
        toy.run(f"wide-{number}")
        toy.wait(600)
        toy.end(f"wide-{number}")
    toy.pod("small", cpu=1)
    toy.pod("small-2", cpu=1)
    Writer(url).feed(toy.messages)
    with reading(url) as connection:
        read = present.read(connection, "test", toy.now, "team")
    assert read is not None
    begin = read[1]
    last, small = (str(toy.group(name).id) for name in (f"wide-{ENOUGH + 2}", "small-2"))
    assert toy.gated(f"wide-{ENOUGH + 2}") and toy.gated("small-2")
    limit = begin.by_record(last, LIKELY)
    assert limit is not None and 600 < limit < 30 * 3600 * 24
    assert begin.by_record(small, LIKELY) is None, "none of its size is known"
    one = limited(begin, Estimate(group=last, expected_s=60.0), (50.0, 70.0, 90.0))
    assert one.latest_s == limit and one.expected_s == 60
    late = Estimate(group=last, expected_s=2 * limit)
    assert limited(begin, late, (2 * limit, 3 * limit)).latest_s == 3 * limit
    for kept in (Estimate(group=last, expected_s=60.0, latest_s=90.0), Estimate(group=last)):
        assert limited(begin, kept, (60.0,)) == kept
    assert limited(begin, Estimate(group=small, expected_s=60.0), (60.0,)).latest_s is None
