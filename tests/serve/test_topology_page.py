"""The page of topologies: what racks and nodes have free, who has the rest, then and now."""

import json
from pathlib import Path

from tests.projector.support import Writer
from tests.readmodel.racks import Racks
from tests.serve import pages
from tests.serve.test_console import get, moment, served
from tests.support.databases import migrated


async def test_racks_and_nodes_are_boxes_with_who_has_places(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    toy = Racks()
    toy.wait(5)
    before = toy.now
    toy.wait(60)
    toy.run(*toy.several("g", 5))
    toy.renode("b2", unschedulable=True)
    Writer(url).feed(toy.messages)
    async for address in served(url):
        status, text, _ = await get(f"{address}/topology")
        assert (status, pages.problems(text)) == (200, [])
        assert "7 of 12 cpu free on 3 nodes; whole nodes: 1 (1 in one rack)" in text
        assert "3 of 8 cpu free" in text
        assert "b2 cordoned" in text
        assert "/groups/ns/g" in text
        status, text, _ = await get(f"{address}/topology?in=a")
        assert status == 200
        assert "node a1" in text
        assert "node b1" not in text
        status, text, _ = await get(address + moment("/topology", before, format="json"))
        (one,) = json.loads(text)["topologies"]
        assert one["domain"]["free"]["cpu"] == 16_000
        assert "FROM placements" in (await get(f"{address}/topology?format=sql"))[1]
        assert (await get(f"{address}/topology?in=z"))[0] == 404
