"""What "How to add a ..." in docs/architecture.md says: a toy one is added in those files alone.

Each test copies the packages concerned, changes files that the paragraph names, as many as it says,
and nothing else, and runs a story on the copy.
"""

import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import podgroup

pytestmark = pytest.mark.timeout(400)
ROOT = Path(podgroup.__file__).parents[1]
Edit = tuple[str, str]
"""A text of a file, once in it, and what it becomes."""

LISTS = (ROOT / "docs/architecture.md").read_text()
FIRST_STEPS = (ROOT / "CONTRIBUTING.md").read_text()


def block(text: str, language: str) -> str:
    """Return the first block of code in a language, without its indentation."""
    return textwrap.dedent(text.split(f"```{language}\n")[1].split("```")[0]).strip() + "\n"


RULE = block("   " + FIRST_STEPS.replace("   ```python", "```python"), "python")
"""The rule of CONTRIBUTING.md."""
LISTED: tuple[Edit, ...] = (
    ("    finish,\n", "    finish,\n    greet,\n"),
    ("    report.RULE,\n", "    report.RULE,\n    greet.RULE,\n"),
)


def named(title: str) -> tuple[int, set[str]]:
    """Return how many files a paragraph of the page asks for, and those and folders it names."""
    (found,) = re.findall(rf"^\*\*{re.escape(title)}\*\* \((\d).*?(?=\n\n|\Z)", LISTS, re.M | re.S)
    text = LISTS.split(f"**{title}**")[1].split("\n\n")[0]
    return int(found), set(re.findall(r"`([a-z_/]+(?:\.py)?)`", text))


def added(
    folder: Path,
    new: Mapping[str, str],
    changed: Mapping[str, Sequence[Edit]],
    *titles: str,
    besides: int = 0,
) -> None:
    """Copy the packages of these files to a folder, with new files and changes.

    `titles` are of the paragraphs that are followed, the last of which says how many files it
    takes, but for `besides`: files that it names for some cases only.
    """
    told: set[str] = set()
    for title in titles:
        size, files = named(title)
        told |= files
    given = {*new, *(name for name, edits in changed.items() if edits)}
    assert len(given) == size + besides, (titles, given)
    assert {f for f in given if not {f, f.rpartition("/")[0]} & told} == set()
    for package in {name.partition("/")[0] for name in (*new, *changed)}:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for name, text in new.items():
        (folder / name).write_text(text)
    for name, edits in changed.items():
        text = (folder / name).read_text()
        for old, better in edits:
            assert old in text, f"{name}: {old!r}"
            text = text.replace(old, better, 1)
        (folder / name).write_text(text)


def printed(folder: Path, *arguments: str) -> list[str]:
    """Run Python on the copy and return the lines that it prints."""
    run = subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": f"{folder}:{ROOT}"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


GREETED = """
from tests.support.toy import Toy

toy = Toy()
toy.arrives({"metadata": {"name": "a"}})
decision = next(d for d in toy.decisions if d.rule == "greet")
print(decision.message)
"""


def test_a_rule_is_its_module_and_its_line_in_the_list(tmp_path: Path) -> None:
    new = {"podgroup/rules/greet.py": RULE}
    added(tmp_path, new, {"podgroup/rules/__init__.py": LISTED}, "Rule")
    story = f"""{GREETED}
from projector.upkeep import migrate
from tests.deploy.reference import rules
from tests.projector.support import Writer

print("| `greet` | it is admitted | says so |" in rules())
migrate.upgrade("sqlite:///model.sqlite3")
Writer("sqlite:///model.sqlite3").feed(toy.messages).store.close()
"""
    assert printed(tmp_path, "-c", story) == ["welcome", "True"]
    asked = ("history", "ns/a", "--full", "--cluster", "test", "--db", "sqlite:///model.sqlite3")
    told = printed(tmp_path, "-m", "gatelog", *asked)
    assert ["greet: Greeted: welcome" in line for line in told if "greet" in line] == [True]


def test_the_list_is_edited_as_the_first_steps_say() -> None:
    for _, edited in LISTED:
        assert f"`{edited.split()[-1]}`" in FIRST_STEPS


SETTING = """    greeting: Annotated[str, Meta(max_length=63)] = ""
    \"\"\"What each group is greeted with; empty: with nothing.\"\"\"
    pods_ready_timeout_s:"""
POLITE = (
    ('message="welcome"', "message=ctx.world.policy.greeting"),
    ('"Greeted", "welcome"', '"Greeted", ctx.world.policy.greeting'),
)


def test_a_setting_that_rules_read_is_a_field_of_the_policy_and_passed_on(tmp_path: Path) -> None:
    rule = RULE
    for old, better in POLITE:
        assert old in rule
        rule = rule.replace(old, better)
    field = '    greeting: str = ""\n    pods_ready_timeout_s: int'
    passed = "        greeting=settings.greeting,\n        workloads="
    setting: dict[str, Sequence[Edit]] = {
        "runtime/settings.py": (("    pods_ready_timeout_s:", SETTING),),
        "podgroup/model/policy.py": (("    pods_ready_timeout_s: int", field),),
        "projector/storage/opening.py": (("        workloads=", passed),),
    }
    added(tmp_path, {}, setting, "Setting", "Setting that rules read")
    (tmp_path / "podgroup/rules/greet.py").write_text(rule)
    listed = tmp_path / "podgroup/rules/__init__.py"
    for old, better in LISTED:
        listed.write_text(listed.read_text().replace(old, better, 1))
    story = """
from projector.storage.opening import policy_of
from runtime.settings_source import load
from tests.deploy.reference import PARTS, chart_schema
from tests.support.toy import Toy

toy = Toy(policy=policy_of(load(None, {"GATELOG_QUEUEING_GREETING": "hello"}).queueing))
toy.arrives({"metadata": {"name": "a"}})
print(next(d for d in toy.decisions if d.rule == "greet").message)
print("greeting" in str(chart_schema()), any("greeting" in part() for part in PARTS.values()))
"""
    assert printed(tmp_path, "-c", story) == ["hello", "True True"]


METRIC = """        ("gatelog_greetable", "Groups that may be greeted.", (), greetable),
        ("gatelog_pods","""
COUNTED = '''def greetable(world: World) -> dict[Labels, int]:
    """Return how many groups may be greeted."""
    return {(): len(world.groups)}


def pods('''


def test_a_metric_is_a_row_and_its_function(tmp_path: Path) -> None:
    edits = (('        ("gatelog_pods",', METRIC), ("def pods(", COUNTED))
    added(tmp_path, {}, {"projector/measures/gauges.py": edits}, "Metric")
    story = """
from projector.measures.gauges import declare
from runtime.metrics import Metrics
from tests.support.toy import Toy

toy = Toy()
toy.pod("a")
metrics = Metrics()
declare(metrics, lambda: toy.world)
print(*[line for line in metrics().decode().splitlines() if line.startswith("gatelog_greetable")])
"""
    assert printed(tmp_path, "-c", story) == ["gatelog_greetable 1.0"]


COMMAND = '''class GreetPod(Command, tag="GreetPod", frozen=True, kw_only=True):
    """Write nothing but a greeting."""

    about: ClassVar[About] = About("Pod", "greet {pods}", "good")


class EmitEvent('''
CARRIED_OUT = """        case GreetPod():
            return Verdict(status="applied", message="hello")
        case EmitEvent():
            return"""


def test_a_rule_with_a_command_is_two_files_more(tmp_path: Path) -> None:
    new = {"podgroup/rules/greet.py": RULE.replace("EmitEvent", "GreetPod")}
    changed = {
        "podgroup/rules/__init__.py": LISTED,
        "podgroup/model/commands.py": (
            ("class EmitEvent(", COMMAND),
            ("    | EmitEvent\n", "    | EmitEvent\n    | GreetPod\n"),
        ),
        "actuator/execute.py": (
            ("    FinishGroup,\n", "    FinishGroup,\n    GreetPod,\n"),
            ("        case EmitEvent():\n            return", CARRIED_OUT),
        ),
    }
    added(tmp_path, new, changed, "Rule", "Rule with a command")
    story = f"""{GREETED}
import asyncio
import msgspec
from actuator.execute import execute
from gatelog.readmodel import phrases
from podgroup.log.events import Decision

read = msgspec.json.decode(msgspec.json.encode(decision), type=Decision)
print(read.command.action, read == decision)

class Emitter:
    async def emit(self, decision): pass

print(asyncio.run(execute(None, Emitter(), read)).message)
"""
    assert printed(tmp_path, "-c", story) == ["welcome", "GreetPod True", "hello"]


GREETING = '''"""`gatelog greet`: say hello."""

EXAMPLES = "gatelog greet"


def greet() -> int | None:
    """Say hello."""
    print("hello")
    return None
'''
PLUGIN = '''@app.command("greet")
def greet() -> None:
    """Say hello to the API server."""
    print("hello, API server")


@app.command("why")
'''


def test_a_command_is_its_module_and_its_line_and_of_kubectl_one_file_more(
    tmp_path: Path,
) -> None:
    changed = {
        "gatelog/cli.py": (
            (
                "COMMANDS = {\n",
                'COMMANDS = {\n    "greet": Command("greet:greet", ASK, "Say hello."),\n',
            ),
        ),
        "gatelog/viacluster/app.py": (('@app.command("why")\n', PLUGIN),),
    }
    new = {"gatelog/commands/greet.py": GREETING}
    added(tmp_path, new, changed, "Command of the CLI", besides=1)
    assert printed(tmp_path, "-m", "gatelog", "greet") == ["hello"]
    assert printed(tmp_path, "-m", "gatelog", "--via-cluster", "greet") == ["hello, API server"]


def test_a_column_is_in_its_table_and_its_writer(tmp_path: Path) -> None:
    changed = {
        "projector/tables/groups.py": (
            (
                'groups = Table(\n    "groups",\n    metadata,\n    cluster(),\n',
                'groups = Table(\n    "groups",\n    metadata,\n    cluster(),\n'
                '    count("greetings", "How often it was greeted"),\n',
            ),
        ),
        "projector/writing/rows.py": (
            ("        namespace=group.namespace,\n", "        namespace=group.namespace,\n"
             "        greetings=7,\n"),
        ),
        "migrations/env.py": (),  # copied as it is
    }  # fmt: skip
    added(tmp_path, {}, changed, "Column that people see")
    story = """
import sqlite3
from projector.upkeep import migrate
from tests.projector.support import Writer
from tests.support.toy import Toy

toy = Toy()
toy.pod("a", "g", 1)
migrate.upgrade("sqlite:///model.sqlite3")
Writer("sqlite:///model.sqlite3").feed(toy.messages).store.close()
print(*sqlite3.connect("model.sqlite3").execute("SELECT name, greetings FROM groups"))
"""
    assert printed(tmp_path, "-c", story) == ["('g', 7)"]


KIND = '''class GreetingView(View, tag_field="kind", tag="Greeting", frozen=True, kw_only=True):
    """A Greeting: a word."""

    uid: str
    name: str
    resource_version: str
    namespace: str = ""
    word: str = ""


QueueObject = (
    GreetingView
    | LocalQueueView
'''
WIRE = '''class GreetingWire(ObjectWire, frozen=True):
    """A Greeting."""

    word: str = ""


def greeting_view(wire: GreetingWire) -> objects.GreetingView:
    """Return the view of a Greeting."""
    meta = wire.metadata
    return objects.GreetingView(
        uid=meta.uid, name=meta.name, resource_version=meta.resource_version, word=wire.word
    )


def namespace_view('''
ROW = """        Watched(
            "Greeting",
            ("/apis/example.com/v1/greetings",),
            "",
            _objects("Greeting", GreetingWire, greeting_view),
        ),
        Watched("Workload","""


def test_a_watched_kind_is_its_view_its_translation_and_its_row(tmp_path: Path) -> None:
    changed = {
        "podgroup/model/objects.py": (
            ("QueueObject = (\n    LocalQueueView\n", KIND),
            ("QUEUE_KINDS: Final[Mapping[str, QueueKind]] = {\n",
             "QUEUE_KINDS: Final[Mapping[str, QueueKind]] = {\n"
             '    "Greeting": QueueKind(GreetingView),\n'),
            ("Kind = Literal[\n", 'Kind = Literal[\n    "Greeting",\n'),
        ),
        "ingest/translate/queues.py": (("def namespace_view(", WIRE),),
        "ingest/kinds.py": (
            ("    FlavorWire,\n", "    FlavorWire,\n    GreetingWire,\n    greeting_view,\n"),
            ('        Watched("Workload",', ROW),
        ),
    }  # fmt: skip
    added(tmp_path, {}, changed, "Watched kind")
    story = """
import msgspec
from ingest.kinds import watched_kinds
from ingest.translate.queues import GreetingWire
from podgroup.log.events import ObjectApplied, ObjectDeleted
from tests.support.toy import Toy

raw = b'''{"metadata": {"uid": "u", "name": "hi", "resourceVersion": "900000",
"creationTimestamp": "2026-01-01T00:00:00Z"}, "word": "hello"}'''
rows = {row.kind: row for row in watched_kinds("")}
found = rows["Greeting"].translator
wire = msgspec.json.decode(raw, type=GreetingWire)
toy = Toy()
for event in (found._applied(wire, raw, ""), found._deleted(wire, raw)):
    toy.do(msgspec.json.decode(msgspec.json.encode(event), type=ObjectApplied | ObjectDeleted))
    print([one.word for one in toy.world.objects_of("Greeting").values()])
"""
    assert printed(tmp_path, "-c", story) == ["['hello']", "[]"]


DEVICES = "    devices: Annotated[bool, Means(read=True)] = False\n"
GREETING_FIELD = """    greeting: Annotated[
        str, Means(at_once=True, read=True, by=Write.STATUS, shared=Shared.VALUE)
    ] = ""
"""


def test_a_field_of_a_view_is_in_the_view_and_its_translation(tmp_path: Path) -> None:
    changed = {
        "podgroup/model/objects.py": ((DEVICES, DEVICES + GREETING_FIELD),),
        "ingest/translate/pods.py": (
            ('    node_name: str = ""\n', '    node_name: str = ""\n    greeting: str = ""\n'),
            (
                "        devices=bytes(spec.",
                "        greeting=spec.greeting,\n        devices=bytes(spec.",
            ),
        ),
    }
    added(tmp_path, {}, changed, "Field of a view")
    story = """
import msgspec
from ingest.translate.pods import PodWire, pod_view
from podgroup.log.events import PodApplied
from ingest.decisive import known_of
from msgspec.structs import replace
from podgroup.model.interning import renewed, shared
from podgroup.model.objects import PodView
from podgroup.state.changes import rules_read

raw = b'''{"metadata": {"uid": "u", "name": "a", "namespace": "ns", "resourceVersion": "1",
"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"greeting": "hello"}}'''
view = shared(pod_view(msgspec.json.decode(raw, type=PodWire), raw, "kueue"))
read = msgspec.json.decode(msgspec.json.encode(PodApplied(pod=view)), type=PodApplied)
print(read.pod.greeting)
other = replace(view, greeting="good" + str(len(raw)))
print(known_of(PodApplied(pod=view)) == known_of(PodApplied(pod=other)))
print(rules_read(view) == rules_read(other))
again = replace(other, greeting="good" + str(len(raw)))
print(renewed(other, view).greeting is shared(again).greeting)
"""
    assert printed(tmp_path, "-c", story) == ["hello", "False", "False", "True"]
