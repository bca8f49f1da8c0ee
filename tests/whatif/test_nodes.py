"""What-if with other nodes: who waited for a rack starts where there is one more."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatelog import cli
from tests.readmodel.racks import Racks
from tests.whatif.logs import log_of_toy


@pytest.mark.parametrize(
    "change", [("--nodes", "f=2"), ("--set", "node/a1:cpu=8", "--set", "node/a2:cpu=8")]
)
def test_more_or_larger_nodes_let_start_who_waited_for_a_rack(
    change: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = Racks()
    toy.run(*toy.several("g", 5))
    toy.others_take("b1", 3000)
    waits = toy.several("h", 6)
    toy.wait(3600)
    toy.end(*[f"g{number}" for number in range(5)])
    toy.run(*waits)
    toy.wait(600)
    toy.end(*waits)
    log = tmp_path / "log.jsonl.gz"
    log_of_toy(toy, log)

    def waited(*words: str) -> Any:
        assert cli.run(["what-if", str(log), "--since", "2000-01-01", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    found = waited(*change)
    assert [found[name]["waits"][0]["p99_s"] for name in ("then", "same")] == [3600.22, 3600.22]
    assert found["what_if"]["waits"][0]["p99_s"] < 60
    assert [one["group"] for one in found["moved"]["gain_most"]] == ["ns/h"]
