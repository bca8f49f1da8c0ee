"""CEL as admission policies use it: expressions over one request, and the objects they make.

Theory: cel-python evaluates the language; what the API server adds is done here. ``Object{...}``
and ``JSONPatch{...}`` in mutations become plain maps before an expression is compiled, since their
field names are all that matters. Variables are evaluated when first asked for, as the server does,
so that one which cannot be evaluated harms no expression that does not ask. cel-python evaluates
both sides of ``&&`` and ``||``; the server does not look at the second where the first settles it,
as a policy counts on whose first question is who asks, so operands are evaluated apart.

Invariant: an expression sees a request and can change nothing.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from simcluster import quantity
from simcluster.errors import Obj

_TYPE = re.compile(r"\b(?:Object(?:\.\w+)*|JSONPatch)\s*\{")
_QUOTED = re.compile(_TYPE.pattern + r"\s*[\"']")
_NAMES = ("request", "object", "oldObject", "params", "authorizer", "variables")
_FIELD = re.compile(r"([{,]\s*)([A-Za-z_]\w*)(\s*):(?!:)")
_WORDS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\|\||&&|.""", re.DOTALL)


class CelError(Exception):
    """An expression that cannot be compiled, or has no value for this request."""


class Expression:
    """One expression, compiled."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._settles, self._operands = _operands(text)
        if not self._operands:
            self._program = _program(text)
            self._named = [name for name in _NAMES if re.search(rf"\b{name}\b", text)]

    def value(self, names: dict[str, Any]) -> Any:
        """Its value as cel-python has it. Raises ``CelError``."""
        from celpy.evaluation import CELEvalError

        try:
            return self._result(names)
        except CELEvalError as error:
            why = next((str(a) for a in error.args if isinstance(a, str)), str(error))
            raise CelError(f"expression '{self.text}' resulted in error: {why}") from None

    def _result(self, names: dict[str, Any]) -> Any:
        from celpy.celtypes import BoolType
        from celpy.evaluation import CELEvalError

        if not self._operands:
            return self._program.evaluate({name: names[name] for name in self._named})
        failed = None
        for operand in self._operands:
            try:
                if bool(operand._result(names)) is self._settles:
                    return BoolType(self._settles)
            except CELEvalError as error:  # a later operand may settle it all the same
                failed = failed or error
        if failed is not None:
            raise failed
        return BoolType(not self._settles)

    def holds(self, names: dict[str, Any]) -> bool:
        """Whether it is true. Raises ``CelError``."""
        return bool(self.value(names))

    def plain(self, names: dict[str, Any]) -> Any:
        """Its value as JSON has it. Raises ``CelError``."""
        from celpy.adapter import CELJSONEncoder

        return json.loads(json.dumps(self.value(names), cls=CELJSONEncoder))


@functools.lru_cache(maxsize=1024)
def _operands(text: str) -> tuple[bool, tuple[Expression, ...]]:
    """Return the operands of the outermost ``||`` or ``&&``, and which value of one settles it."""
    text = text.strip()
    closed = (at for at, word, depth in _words(text) if word == ")" and not depth)
    if text.startswith("(") and next(closed, 0) == len(text) - 1:
        return _operands(text[1:-1])
    if len(_split(text, "?")) == 1:
        for operator, settles in (("||", True), ("&&", False)):
            if len(parts := _split(text, operator)) > 1:
                return settles, tuple(map(Expression, parts))
    return False, ()


def _split(text: str, operator: str) -> list[str]:
    """Cut a text at an operator that is in no brackets and no quotes."""
    begin, parts = 0, []
    for at, word, depth in _words(text):
        if word == operator and not depth:
            parts.append(text[begin:at])
            begin = at + len(word)
    return [*parts, text[begin:]]


def _words(text: str) -> Iterator[tuple[int, str, int]]:
    """Go over what is quoted, operators and characters: where, what, and in how many brackets."""
    depth = 0
    for found in _WORDS.finditer(text):
        word = found.group()
        depth += (word in "([{") - (word in ")]}")
        yield found.start(), word, depth


@functools.lru_cache(maxsize=1024)
def _program(text: str) -> Any:
    import celpy
    from celpy.celparser import CELParseError

    environment = celpy.Environment()
    if _QUOTED.search(text):
        raise CelError("compilation failed: fields of Object{...} are named without quotes")
    if made := _TYPE.search(text):
        head, rest = text[: made.start()], _TYPE.sub("{", text[made.start() :])
        text = head + _FIELD.sub(r'\1"\2"\3:', rest)
    try:
        return environment.program(environment.compile(text), functions=_functions())
    except CELParseError as error:
        raise CelError(f"compilation failed: {error}") from None


@functools.cache
def _functions() -> dict[str, Any]:
    """What the server adds to the language, as far as it is here.

    ``authorizer.group(g).resource(r)...check(verb).allowed()`` over a ``access.Check``, and
    ``quantity(text).isGreaterThan(quantity(text))``, `split` and `trim` of texts, and `sum`.
    """
    from celpy.celtypes import BoolType, IntType, ListType, StringType

    def asking(field: str) -> Any:
        return lambda check, value: msgspec.structs.replace(check, **{field: str(value)})

    fields = ("group", "resource", "subresource", "namespace", "name")
    found = {field: asking(field) for field in fields} | {"check": asking("verb")}
    found["quantity"] = lambda text: quantity.parse(str(text))
    found["isGreaterThan"] = lambda one, other: BoolType(one > other)
    found["split"] = lambda text, by: ListType(map(StringType, str(text).split(str(by))))
    found["trim"] = lambda text: StringType(str(text).strip())
    found["sum"] = lambda numbers: IntType(sum(map(int, numbers)))
    return found | {"allowed": lambda check: BoolType(check.allowed())}


def bindings(
    request: Obj,
    new: Obj | None,
    old: Obj | None,
    params: Obj | None = None,
    authorizer: Any = None,
) -> "Names":
    """What expressions see of a request, but for variables; ``authorizer``: a ``access.Check``."""
    seen = {"request": request, "object": new, "oldObject": old, "params": params}
    return Names(seen, {"authorizer": authorizer, "variables": None})


class Names(dict[str, Any]):
    """Values by name, made of JSON when first asked for: most conditions ask for the user alone."""

    def __init__(self, seen: Obj, found: Obj) -> None:
        super().__init__(found)
        self.seen = seen

    def __missing__(self, name: str) -> Any:
        from celpy.adapter import json_to_cel

        value = self[name] = json_to_cel(_json(self.seen[name]))
        return value


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def with_variables(names: Names, variables: list[Obj]) -> Names:
    """The same with ``variables``, each evaluated once, when it is asked for."""
    from celpy.celtypes import MapType, StringType

    expressions = {v["name"]: Expression(v["expression"]) for v in variables}
    found = Names(names.seen, names)

    class Lazy(MapType):
        def __missing__(self, key: Any) -> Any:
            if str(key) not in expressions:
                raise KeyError(key)
            value = self[StringType(key)] = expressions[str(key)].value(found)
            return value

        def get(self, key: Any, default: Any = None) -> Any:
            return self[key]

    found["variables"] = Lazy()
    return found
