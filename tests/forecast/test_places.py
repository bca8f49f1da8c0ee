"""A forecast knows places: who waits for a rack does not start before one is free."""

from pathlib import Path
from random import Random

from gatelog.forecast import present
from gatelog.forecast.playing import play
from projector.storage.database import reader
from tests.projector.support import Writer
from tests.readmodel.racks import Racks
from tests.support.databases import migrated


def test_who_waits_for_a_rack_starts_when_pods_there_have_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    toy = Racks()
    toy.run(*toy.several("g", 5))
    toy.others_take("b1", 3000)
    toy.several("h", 6)
    toy.wait(60)
    Writer(url).feed(toy.messages)
    engine = reader(url)
    with engine.connect() as connection:
        found = present.read(connection, "test", toy.now, "team")
    engine.dispose()
    assert found is not None
    (starts,) = play(found[1], Random(1)).starts.values()
    assert starts > 60, "there is quota for it at once, and no rack"
