"""What ended is not what succeeded: word, mark and colour of each end. Both databases."""

from typing import Final

import pytest

from gatelog import cli
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.moments import Asked
from gatelog.serve.api import finding
from gatelog.serve.api.kinds import BY_PLURAL
from gatelog.serve.api.params import Listing
from gatelog.serve.api.selectors import Term
from gatelog.serve.api.table import rows
from gatelog.serve.console.group import group
from gatelog.serve.console.parts import PageView, state
from podgroup.model.lifecycle import STATES
from podgroup.model.names import PRIORITY_CLASS
from projector.schema.ended import ENDED
from tests.projector.support import Writer
from tests.support.toy import Toy

EXPECTED: Final = {
    "well": "Succeeded",
    "badly": "Failed",
    "taken": "Deleted",
    "never": "Deleted",
    "low": "Preempted",
    "high": "Admitted",
}


@pytest.fixture
def toy(url: str) -> Toy:
    toy = Toy(cpu=2)
    for name in ("well", "badly", "taken"):
        toy.pod(name)
        toy.run(name)
        if name != "taken":
            toy.end(name, phase="Succeeded" if name == "well" else "Failed")
    toy.delete("taken")
    toy.pod("never", cpu=9)
    toy.delete("never")
    toy.pod("low", cpu=2, labels={PRIORITY_CLASS: "low"})
    toy.run("low")
    toy.pod("high", cpu=2, labels={PRIORITY_CLASS: "high"})
    toy.delete("badly")  # that it was deleted afterwards does not make its failure another
    Writer(url).feed(toy.messages)
    return toy


def test_each_end_has_its_word_in_lists_pages_and_the_api(
    toy: Toy, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ReadModel(url, "test") as model:
        listed = {one.name: one.standing for one in model.listed("", gone=True, limit=100)}
        shown = {}
        for name, word in EXPECTED.items():
            page = str(
                group(Asked(model), PageView(at=None, query={}, now=toy.now), "ns", name).body
            )
            assert f"s-{word.lower()}" in page, name
            by_name = Listing(limit=1, fields=(Term("metadata.name", "in", (name,)),))
            (found,), _ = finding.groups_page(model, "ns", by_name)
            kind = BY_PLURAL["podgroups"]
            (row,) = rows(kind, found, "None")
            place = [column.name for column in kind.columns].index("State")
            shown[name] = row["cells"][place]
    assert (listed, shown) == (EXPECTED, EXPECTED)
    where = ["--db", url, "--cluster", "test", "--gone", "-o", "name"]
    assert cli.run(["list", "groups", "--state", "preempted", *where]) == 0
    assert capsys.readouterr().out == "ns/low\n"


def test_no_two_states_look_alike_but_those_that_mean_the_same() -> None:
    marks = {word: str(state(word)) for word in (*STATES, *ENDED)}
    assert len(set(marks.values())) == len(marks)
    signs = {word: mark.partition("</span>")[0] for word, mark in marks.items()}
    good = {signs["Succeeded"], signs["Finished"], signs["Finishing"]}
    assert not good & {signs[word] for word in ("Failed", "Preempted", "Evicted", "Deleted")}


def test_a_state_that_is_none_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list", "groups", "--state", "waiting", "--db", "sqlite:////nowhere"]) == 2
    assert "--state waiting: choose one of Composing, Queued" in capsys.readouterr().err
    assert cli.run(["top"]) == 2
    assert "kubectl gatelog" in capsys.readouterr().err
