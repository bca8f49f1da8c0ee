"""A rule, its module and what it decides bear one name."""

import ast
from collections.abc import Iterator
from pathlib import Path

from podgroup import rules

FOLDER = Path(rules.__file__).parent
MODULES = {
    path.stem: ast.parse(path.read_text())
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem != "__init__"
}
HELPERS = [ast.parse(path.read_text()) for path in sorted(FOLDER.glob("helpers/*.py"))]


def name_of(module: str) -> str:
    """`yield` is a word of the language."""
    return module.removesuffix("_")


def test_each_module_is_in_the_list_under_its_name() -> None:
    listed = {rule.name for rule in rules.RULES} | {
        doc.name for rule in rules.RULES for doc in rule.docs
    }
    assert listed == {name_of(module) for module in MODULES}
    for rule in rules.RULES:
        names = {doc.name for doc in rule.docs}
        assert names <= {rule.name, "preempt", "relocate"}, names


def named(tree: ast.Module) -> Iterator[str]:
    """The names under which a module decides: itself, or through helpers that ask for one."""
    place = {"decision": 1, "decision_apart": 0}
    for helper in HELPERS:
        for known in helper.body:
            if isinstance(known, ast.FunctionDef):
                asked = [argument.arg for argument in known.args.args]
                if "rule" in asked:
                    place[known.name] = asked.index("rule")
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(attr=what) | ast.Name(id=what):
                if what in place:
                    given = call.args[place[what]]
                    assert isinstance(given, ast.Constant), ast.unparse(call)
                    yield str(given.value)


def test_what_a_module_decides_bears_its_name() -> None:
    decided = 0
    for module, tree in MODULES.items():
        for name in named(tree):
            assert name == name_of(module)
            decided += 1
    assert decided > 40
