"""`--picture`: drawings that stand for themselves, and say what the table says."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from gatelog.pictures import axes, spent, starts, svg
from gatelog.whatif.courses import COLUMNS, Courses
from tests.deploy.pictures import HERE, PICTURES
from tests.whatif.files import jobs, queues
from tests.whatif.test_trace import refused, what_if

SVG = "{http://www.w3.org/2000/svg}"
PAGE = Path(__file__).parents[2] / "docs" / "looking-forward.md"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def words(text: str) -> str:
    """All that is written in a picture; it has a title, a description and both colours."""
    tree = ElementTree.fromstring(text)
    assert tree.get("role") == "img"
    assert tree.findtext(f"{SVG}title")
    assert tree.findtext(f"{SVG}desc")
    assert "prefers-color-scheme: dark" in str(tree.findtext(f"{SVG}style"))
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    return "\n".join(str(each.text) for each in tree.iter(f"{SVG}text"))


def test_what_if_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--trace", jobs(tmp_path), "--objects", queues(tmp_path))
    picture = tmp_path / "more & more.svg"
    change = ("--set", "clusterqueue/research:cpu=4")
    found = what_if(capsys, *given, *change, "--picture", picture)
    assert found["what_if"]["waits"][0]["p50_s"] == 100
    said = words(picture.read_text())
    assert "research: cores of f" in said
    assert "3 m 20 s / 6 m 40 s, 10 groups" in said
    assert "1 m 40 s / 3 m 20 s, 10 groups" in said
    assert "ends in .svg" in refused(capsys, *given, "--picture", tmp_path / "x.png")
    assert "there is no folder" in refused(capsys, *given, "--picture", tmp_path / "no" / "x.svg")


def test_use_over_time_is_kept_in_bounded_steps() -> None:
    random, courses, at, whole = Random(3), Courses[str](), 0.0, 0.0
    for _ in range(3000):
        seconds, amount = random.random() * 40, random.randint(0, 9)
        courses.add("a", at, seconds, amount)
        at += seconds
        whole += amount * seconds
    means = courses.means("a", at)
    assert COLUMNS / 2 <= len(means) <= COLUMNS
    assert sum((end - begin) * value for begin, end, value in means) == pytest.approx(whole)
    assert means[-1][1] == pytest.approx(at)


def test_a_forecast_is_drawn() -> None:
    def row(number: int, **given: object) -> dict[str, object]:
        times = {name: NOW + timedelta(minutes=number) for name in ("expected_at", "latest_at")}
        names = {"namespace": "a", "name": f"g<{number}>", "cluster_queue": "red"}
        base = {"position": number, "earliest_at": NOW, "never": "", "said": "starts in a while"}
        return {**names, **base, **times, **given}

    rows = [row(number) for number in range(1, 31)]
    stuck = {"never": "the queue is stopped", "said": "does not start while the queue is stopped"}
    rows.append(row(0, cluster_queue="blue", expected_at=None, latest_at=None, **stuck))
    said = words(starts.draw(rows, NOW).render())
    assert "1. a/g<1>" in said
    assert "a/g<30>" not in said
    assert "18 more wait" in said
    assert "does not start while the queue is stopped" in said
    assert words(starts.draw([], NOW).render())


def test_usage_is_drawn() -> None:
    row = {"key": "red", "resource": "cpu", "unit": "core-h", "taken": 7, "waited": 2.5}
    parts = {"running": 4, "held": 2, "wasted": 1, "unadmitted": 0}
    quota = {"cluster_queue": "cq", "flavor": "f", "resource": "cpu", "quota": 9, "taken": 7}
    sheet = spent.draw("queue", NOW, NOW, [row | parts], [quota | {"idle": 2}])
    said = words(sheet.render())
    assert "cpu, in core-h" in said
    assert "2.00 idle" in said
    assert "waited 2.50" in sheet.render()


@pytest.mark.parametrize("most", [0.0, 0.3, 1, 7, 40, 4096, 3.7e12])
def test_ticks_are_few_and_within(most: float) -> None:
    for found in (axes.amounts(most), axes.spans(most)):
        assert found[0] == 0
        assert found[-1] <= most * (1 + 1e-9)
        assert len(found) <= axes.MOST + 1
    times = axes.times(NOW, NOW + timedelta(seconds=min(most, 1e8)))
    assert all(0 <= at <= max(1.0, most) for at, _ in times)


def test_the_page_shows_what_the_commands_drew() -> None:
    page = PAGE.read_text()
    for name in PICTURES:
        assert f"](pictures/{name})" in page
        assert words((HERE / name).read_text())
    assert "python -m tests.deploy.pictures" in page
    assert svg.SUFFIX == ".svg"
