"""A StatefulSet that runs and waits for more pods has no start to come."""

from pathlib import Path

from podgroup.model.ids import GroupID
from tests.forecast.test_forecast import BRIEF_S, forecast_of
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.owned import Owners


def test_of_what_grows_no_start_is_forecast(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    toy, writer = Owners(cpu=2), Writer(url)
    toy.scale("web", 2)
    toy.scale("web", 3)
    toy.pod("waits", cpu=2)
    made = forecast_of(url, toy, writer, budget_s=BRIEF_S)
    (one,) = made.forecast.estimates
    assert made.world.groups[GroupID(one.group)].name == "waits" and one.position == 1
