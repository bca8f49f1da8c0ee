"""A group that holds quota while its pods have failed says so wherever it is shown (U2)."""

import msgspec

from gatelog.examine import stuck
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.moments import Asked
from gatelog.serve.api import finding
from gatelog.serve.console import views
from gatelog.viacluster import answers
from projector.schema.pending import IDLE_MESSAGE, IDLE_REASON
from tests.projector.support import NOW, Writer
from tests.support.toy import Toy


def test_it_says_so_everywhere_and_no_longer_once_it_has_a_replacement(url: str) -> None:
    toy, writer = Toy(cpu=4), Writer(url)
    for index in range(2):
        toy.pod(f"p{index}", "gang", 2)
    toy.run("p0", "p1")
    toy.end("p0", "p1", phase="Failed")
    writer.feed(toy.messages)
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "gang")
        assert (group.state, group.reason, group.message) == ("Admitted", IDLE_REASON, IDLE_MESSAGE)
        life = finding.life(model, "ns", "gang")
        assert life is not None
        assert finding.podgroup(life).status.reason == IDLE_REASON
        said = [one.text for one in lines(explain(model, group, NOW), NOW)]
        assert said[0] == IDLE_MESSAGE and "make new ones" in " ".join(said)
        plugin = answers.why(
            msgspec.json.decode(msgspec.json.encode(finding.podgroup(life))),
            msgspec.json.decode(msgspec.json.encode(finding.explained(model, life))),
            None,
        )
        seen = views.Seen(at=None, query={}, now=NOW)
        queue = str(views.queue(Asked(model), seen, "cq").body)
        page = str(views.group(Asked(model), seen, "ns", "gang").body)
        doctor = stuck.examine(model, NOW)[-1]
        for text in (plugin, queue, page):
            assert IDLE_MESSAGE in text
        assert "ns/gang in ClusterQueue cq for" in doctor.detail
        (row,) = model.dicts("SELECT * FROM v_idle_holders", {})
        assert row["resources"] == {"f": {"cpu": 2000}} and row["idle_seconds"] > 0
        before = len(toy.messages)
        toy.pod("p2", "gang", 2)
        writer.feed(toy.messages[before:])
        assert model.idle() == [] and model.groups("ns", "gang")[0].reason != IDLE_REASON
