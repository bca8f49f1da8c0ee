"""What "How to add a ..." in docs/architecture.md says: a toy one is added in those files alone."""

import shutil
import subprocess
import sys
from pathlib import Path

import podgroup

ROOT = Path(podgroup.__file__).parents[1]
RULE = '''"""Rule: a pod is pinned to a node by its name, and is told so.

Invariant: it is said once for each admission.
"""

from podgroup.commands import EmitEvent, KubeEvent
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.view import Group


def greet(ctx: RuleContext, group: Group) -> Conclusions:
    """Greet the first pod of a group that was admitted just now."""
    first, holding = ctx.members(group).first(), group.quota.holding
    if first is None or holding is None or holding.seq != ctx.here.position:
        return
    event = KubeEvent(type="Normal", reason="Greeted", message="welcome")
    command = EmitEvent(target=pod_ref(ctx.pod(first)), events=(event,))
    yield ctx.decision(group, "greet", "Greeted", "welcome", command)


RULE = Rule(name="greet", run=greet, docs=(RuleDoc("greet", "it is admitted", "says so"),))
'''
STORY = """
from tests.deploy.reference import rules
from tests.support.toy import Toy

toy = Toy()
toy.pod("a", "g", 1)
print([d.message for d in toy.decisions if d.rule == "greet"])
print("| `greet` |  | it is admitted | says so |" in rules())
"""


def test_a_rule_is_its_module_and_its_line_in_the_list(tmp_path: Path) -> None:
    core = tmp_path / "podgroup"
    shutil.copytree(ROOT / "podgroup", core, ignore=shutil.ignore_patterns("__pycache__"))
    (core / "rules" / "greet.py").write_text(RULE)
    listed = core / "rules" / "__init__.py"
    text = listed.read_text()
    text = text.replace("    finish,\n", "    finish,\n    greet,\n", 1)
    listed.write_text(text.replace("    report.RULE,\n", "    report.RULE,\n    greet.RULE,\n", 1))
    run = subprocess.run(
        [sys.executable, "-c", STORY],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.stdout.split("\n")[:2] == ["['welcome']", "True"], run.stderr
