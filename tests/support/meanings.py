"""What each setting means: the text below its field in `runtime.settings`, which Python drops.

Invariant: every setting has one.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from typing import get_type_hints

from runtime import settings
from runtime.settings_source import describe


@cache
def meanings() -> dict[str, str]:
    """The meaning of each setting, by its path."""
    below = {}
    tree = ast.parse(inspect.getsource(settings))
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for pair in pairwise(kind.body):
            match pair:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    below[kind.name, name] = " ".join(text.split())
    kinds = {"": settings.Settings} | get_type_hints(settings.Settings)
    return {doc.path: below[kinds[doc.section].__name__, doc.name] for doc in describe()}
