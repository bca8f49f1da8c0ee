"""The pictures of docs/looking-forward.md: `python -m tests.deploy.pictures`.

Two teams with a queue each, jobs in waves for a day that ends now. Every picture is made by the
command that the page names, in a folder of its own; times in them are those of their making.
"""

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.forecasting import Load, jobs, queues
from gatelog import cli
from tests.whatif.logs import log_of

HERE = Path(__file__).parents[2] / "docs" / "pictures"
PICTURES = ("what-if.svg", "forecast.svg", "usage.svg")
HOURS = 26.0
"""How long jobs come; the last of them are still to come now."""
AHEAD = timedelta(hours=3)
LOAD = Load("", hours=HOURS, waves=True, busy=0.85, spread=0.7, urgent=0.05, preempt=True)


def made(folder: Path, now: datetime, load: Load = LOAD) -> list[list[str]]:
    """Return the commands, with what they read; the log is written. The first makes the model."""
    begin = now + AHEAD - timedelta(hours=load.hours)
    head, *lines = jobs(load).splitlines()
    rows = []
    for line in lines:
        submit, rest = line.split(",", 1)
        rows.append(f"{(begin + timedelta(seconds=float(submit))).isoformat()},{rest}")
    trace, objects, log = folder / "jobs.csv", folder / "queues.yaml", folder / "day.jsonl.gz"
    trace.write_text("\n".join([head, *rows]) + "\n")
    objects.write_text(queues(load))
    log_of(trace, objects, log)
    model = folder / "day.sqlite3"
    of_log = ["what-if", str(log), "--since", begin.isoformat(), "--until", now.isoformat()]
    of_model = ["--db", str(model), "--cluster", "what-if"]
    usage = str(folder / PICTURES[2])
    change = ["--set", "clusterqueue/blue:cpu=50", "--set", "clusterqueue/red:cpu=30"]
    return [
        [*of_log, "--db", str(model)],
        [*of_log, *change, "--picture", str(folder / PICTURES[0])],
        ["forecast", *of_model, "--dry-run", "--picture", str(folder / PICTURES[1])],
        ["usage", "--by", "queue", "--since", "1d", *of_model, "--picture", usage],
    ]


def main() -> int:
    """Make them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for words in made(folder, datetime.now(UTC)):
            if code := cli.run(words):
                return code
        for name in PICTURES:
            (HERE / name).write_text((folder / name).read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
