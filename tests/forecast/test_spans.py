"""How long things last: by hand, and what a draw may be."""

from random import Random

from gatelog.forecast.estimating import middle, quantile
from gatelog.forecast.spans import ENOUGH, Run, Runtimes, Spans

Q = ("cq", "ns", "lq")


def drawn(spans: Spans, beyond_s: float = 0.0, count: int = 4000) -> list[float]:
    random = Random(1)
    return [spans.draw(random, beyond_s) for _ in range(count)]


def test_each_end_seen_is_as_likely_as_a_longer_one_than_all() -> None:
    found = drawn(Spans([10, 20, 30]))
    shares = [sum(low < x <= high for x in found) / len(found) for low, high in
              ((0, 10), (10, 20), (20, 30), (30, 1e9))]  # fmt: skip
    assert all(abs(share - 0.25) < 0.03 for share in shares)


def test_what_lasts_still_makes_longer_ones_likelier() -> None:
    """Of 10, 20+, 30 and one longer than all: 1/4 ends at 10, and half of the rest at 30."""
    found = drawn(Spans([10, 30], [20]))
    assert abs(found.count(10) / len(found) - 0.25) < 0.03
    assert abs(found.count(30) / len(found) - 0.375) < 0.03


def test_what_lasts_already_ends_later() -> None:
    spans = Spans([10, 20, 30])
    assert min(drawn(spans, 25)) == 30
    assert min(drawn(spans, 30)) > 30
    assert min(drawn(spans, 5000)) > 5000
    assert min(drawn(Spans(()), 700)) > 700


def test_the_narrowest_kind_of_which_enough_is_known() -> None:
    def runs(label: str, held_s: float, count: int) -> list[Run]:
        return [Run((Q, label, ((1, (("cpu", 1000),)),)), held_s, True) for _ in range(count)]

    known = Runtimes(runs("red", 10, ENOUGH) + runs("blue", 99, ENOUGH - 1))
    shape = ((1, (("cpu", 1000),)),)
    assert drawn(known.of((Q, "red", shape))).count(99) == 0
    assert drawn(known.of((Q, "blue", shape))).count(10) > 0, "too few: what the queue had"
    assert drawn(known.of((Q, "red", ((2, ()),)))).count(99) == 0, "its label, whatever its shape"
    assert known.count == 2 * ENOUGH - 1


def test_the_middle_of_plays_is_in_the_middle() -> None:
    ten = [float(second) for second in (3, 1, 2, 9, 4, 8, 5, 7, 6, 10)]
    assert middle(ten, 10) == 5.5
    assert middle(ten[:9], 9) == 5
    # In four of ten plays it does not start, in five: whether it does is even.
    assert middle(sorted(ten)[:6], 10) == 5.5
    assert middle(sorted(ten)[:5], 10) is None
    # The next of ten draws is below the largest of them in ten of eleven, below the second in nine.
    assert quantile(ten, 10, 0.9) == 10
