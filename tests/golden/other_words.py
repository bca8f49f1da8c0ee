"""Another release, played: every text is worded otherwise, and structures have one field more.

`python -m tests.golden.other_words TARGET LOG…` folds logs by such a release, each into
`TARGET/NAME.sqlite3`.

Theory. What a log said must not change with the release that reads it. So a release is made of this
one whose every text differs, but for the sentences that are frozen (`podgroup.fold.sentences`), and
whose structures of log and model have a field that came later. Modules are rewritten as they are
imported, in a process of their own.

Invariant: a text that is no prose (a reason, a key, a name) stays as it is.
"""

import ast
import asyncio
import re
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Final

FROZEN: Final = ("podgroup.fold.sentences", "podgroup.model.interning")
"""The fold's sentences, and a module whose texts are code."""
_PROSE: Final = re.compile(r"[A-Za-z]{2,}[,:;]? [a-z]{2,}")
_STRUCTS: Final = re.compile(r"(?:^|\.)(?:Struct|Command|View|Marked|Record|_Event)$")
LATER: Final = "zz_later"


class OtherWords(ast.NodeTransformer):
    """Marks each prose text, docstrings excepted."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and _PROSE.search(node.value):
            return ast.copy_location(ast.Constant(f"{node.value}, as is said later"), node)
        return node


class OneFieldMore(ast.NodeTransformer):
    """Adds a field with a default to each structure that is written by the names of its fields."""

    def __init__(self, tree: ast.Module) -> None:
        found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        self.bases = {ast.unparse(base) for node in found for base in node.bases}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        structure = any(_STRUCTS.search(ast.unparse(base)) for base in node.bases)
        by_place = any(word.arg == "array_like" for word in node.keywords)
        if structure and not by_place and node.name not in self.bases:
            node.body.extend(ast.parse(f"{LATER}: int = 0").body)
        return node


class Rewritten(SourceFileLoader):
    """A module of the core as the other release has it."""

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        tree = ast.parse(Path(self.path).read_bytes())
        if fullname not in FROZEN:
            tree = OtherWords().visit(tree)
        if fullname.startswith(("podgroup.log", "podgroup.model")):
            tree = OneFieldMore(tree).visit(tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    """Finds modules of the core."""

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "podgroup":
            return None
        spec = PathFinder.find_spec(fullname, path)  # type: ignore[arg-type]
        if spec is not None and spec.origin and spec.origin.endswith(".py"):
            spec.loader = Rewritten(fullname, spec.origin)
        return spec


def main(target: Path, logs: list[Path]) -> None:
    """Fold logs by the other release."""
    assert not any(name.partition(".")[0] == "podgroup" for name in sys.modules)
    sys.meta_path.insert(0, Finder())
    from podgroup.model.objects import PodView
    from podgroup.model.reasons import REASONS
    from projector.upkeep import migrate
    from tests.golden import rows

    assert LATER in PodView.__struct_fields__
    assert any("as is said later" in reason.says for reason in REASONS)
    for log in logs:
        url = f"sqlite:///{target}/{log.name}.sqlite3"
        migrate.upgrade(url)
        asyncio.run(rows.folded(log, url))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
