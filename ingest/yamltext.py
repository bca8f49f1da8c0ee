"""YAML and JSON as people write them into annotations: text -> plain data, with every place known.

Theory. YAML is read from libyaml's events, without its constructors, so nothing in a text can make
it grow (aliases and tags are refused) or call anything, and every value has the line and column it
began at. Plain scalars are resolved as in YAML 1.2, whose core schema is that of JSON.

KEP-976 writes its example of pod-group-sets as a flow sequence of flow mappings, with a value in
block style inside. That is not YAML. Since the KEP is what people copy from, such a document is
taken all the same: the outer brackets are read as an enclosure, and the text inside each pair of
outer braces as a block mapping of its own, less the commas that end its lines. Line and column stay
those of the text.

Invariant: pure; a text of n bytes costs work of order n, or is refused.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

MAX_DEPTH: Final[int] = 40
MAX_VALUES: Final[int] = 50_000

Path = tuple[str | int, ...]
"""Where a value is: keys and indices from the root."""

_INT: Final = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, Any]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip

_SPLIT: Final = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TextError(ValueError):
    """A text that cannot be read; `line` and `column` count from 1, `path` leads to the place."""

    def __init__(self, line: int, column: int, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.path = path


class _SyntaxError(TextError):
    """A text that is no YAML at all."""


class Document(msgspec.Struct, frozen=True):
    """Plain data, and the place of each key or item: path -> (line, column), both from 1."""

    data: Any
    places: dict[Path, tuple[int, int]]

    def position_of(self, path: Path) -> tuple[int, int]:
        """Return the place of a value, or of the nearest value around it; (0, 0) if none."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (0, 0))


def read(text: str) -> Document:
    """Return the document in a text.

    Raises:
        TextError: the text is not YAML, JSON or KEP-976's mixture, or too deep or large, or it
            uses aliases or tags, or has a key twice.
    """
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return _yaml_or_mixed(text)
    try:
        # JSON may be indented with tabs, and there are none inside of its strings.
        return _yaml(text.replace("\t", " "))
    except _SyntaxError:
        # JSON that libyaml does not take (surrogate escapes): the data is known, places are not.
        return Document(data, {})


def documents(text: str) -> Iterator[tuple[str, int]]:
    """Yield the text of each YAML document, and how many lines are before it."""
    start = before = 0
    for mark in [*_SPLIT.finditer(text), None]:
        end = mark.start() if mark is not None else len(text)
        yield text[start:end], before
        if mark is not None:
            before += text.count("\n", start, mark.end())
            start = mark.end()


def field_of(path: Path) -> str:
    """Return a path as people write it, `[1].template.spec.containers[0].name`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def _yaml_or_mixed(text: str) -> Document:
    try:
        return _yaml(text)
    except _SyntaxError as error:
        parts = _enclosed(text)
        if parts is None:
            raise
        strict = error
    try:
        found = Document([], {(): (1, 1)})
        for index, part in enumerate(parts):
            one = _yaml(part)
            found.data.append(one.data)
            found.places.update({(index, *path): place for path, place in one.places.items()})
        return found
    except _SyntaxError as error:
        # Both readings failed: the reading that came further knows better what was meant.
        reached = (error.line, error.column), (strict.line, strict.column)
        raise (error if reached[0] >= reached[1] else strict) from None


def _yaml(text: str) -> Document:
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise _SyntaxError(line, column, str(error.problem or error.context)) from None
    except yaml.reader.ReaderError as error:
        line, column = _position(text, error.position)
        raise _SyntaxError(line, column, f"character {error.character!r} is not allowed") from None
    except (UnicodeEncodeError, RecursionError) as error:
        raise _SyntaxError(1, 1, f"is no text that can be read: {error}") from None
    return Document(builder.root, builder.places)


def _position(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


class _Builder:
    """Builds data from events without recursion: `stack` holds open nodes, `path` leads there."""

    def __init__(self) -> None:
        self.root: Any = None
        self.places: dict[Path, tuple[int, int]] = {}
        self.stack: list[Any] = []
        self.path: list[str | int] = []
        self.keys: list[str | None] = []
        self.documents = 0
        self.values = 0

    def feed(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    raise self._error(event, "must be one document: remove what follows '---'")
            case yaml.AliasEvent():
                raise self._error(event, "aliases (*name) are not taken: write the value out")
            case yaml.ScalarEvent():
                self._no_frills(event)
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._no_frills(event)
                self._open(event, {})
            case yaml.SequenceStartEvent():
                self._no_frills(event)
                self._open(event, [])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.stack.pop()
                self.keys.pop()
                if self.path:
                    self.path.pop()
            case _:
                pass  # beginnings and ends of the stream and of documents

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            key = event.value
            if key in self.stack[-1]:
                raise self._error(event, f"key {key!r} is there twice", (*self.path, key))
            self.keys[-1] = key
            self.places[(*self.path, key)] = _place(event)
            return
        self._put(event, _resolved(event.value) if event.implicit[0] else event.value)

    def _open(self, event: Any, empty: Any) -> None:
        if self._wants_key():
            raise self._error(event, "a key must be a plain word or a text in quotes")
        if len(self.stack) >= MAX_DEPTH:
            raise self._error(event, f"is nested more than {MAX_DEPTH} levels deep")
        inner = self._put(event, empty)
        self.stack.append(empty)
        self.keys.append(None)
        if inner is not None:
            self.path.append(inner)

    def _wants_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1], dict) and self.keys[-1] is None

    def _put(self, event: Any, value: Any) -> str | int | None:
        """Put a value where it belongs; return the last step of its path, None for the root."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise self._error(event, f"has more than {MAX_VALUES} values")
        if not self.stack:
            self.root = value
            self.places[()] = _place(event)
            return None
        around = self.stack[-1]
        step: str | int
        if isinstance(around, dict):
            step = self.keys[-1] or ""
            self.keys[-1] = None
            around[step] = value
        else:
            step = len(around)
            around.append(value)
            self.places[(*self.path, step)] = _place(event)
        return step

    def _no_frills(self, event: Any) -> None:
        if event.anchor:
            raise self._error(event, "anchors (&name) are not taken: write the value out")
        if event.tag is not None and event.tag != "!":
            raise self._error(event, f"tag {event.tag!r} is not taken: write a plain value")

    def _error(self, event: Any, message: str, path: Path = ()) -> TextError:
        return TextError(*_place(event), message, path)


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _resolved(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word


_PIECES: Final = re.compile(
    r"""(?P<quoted>(?<![^\s\[{,:-])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'))"""
    r"""|(?P<idle>(?:(?<=\s)|^)\#[^\n]*|\s+)"""
    r"""|(?P<mark>[\[\]{},])|(?P<rest>[^\s\[\]{},"'\#]+|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_LINE_END: Final = re.compile(r"[ \t\r]*(?:$|[\n#}])")
_PAIRS: Final[dict[str, str]] = {"[": "]", "{": "}"}
_MAX_PARTS: Final[int] = 64


def _enclosed(text: str) -> list[str] | None:
    """Return the texts between the outer braces of `[{...}, {...}]`, None for another form.

    Before each part stand as many line ends and spaces as lead to it, so that its lines and columns
    are those of the text.
    """
    parts: list[list[str]] = []
    brackets: list[str] = []
    closed = False
    for piece in _PIECES.finditer(text):
        depth, mark = len(brackets), piece["mark"]
        if depth < 2:  # outside of the outer braces
            if piece["idle"]:
                continue
            if closed or mark is None or mark not in ("{,]" if depth else "["):
                return None
        if mark in _PAIRS:
            brackets.append(mark)
            if depth == 1:
                parts.append([_lead(text, piece.end())])
            if depth <= 1:
                continue
        elif mark in ("]", "}"):
            if _PAIRS[brackets.pop()] != mark:
                return None
            closed = depth == 1
            if depth <= 2:
                continue
        if depth <= 1:
            continue
        ends_line = depth == 2 and mark == "," and _LINE_END.match(text, piece.end())
        parts[-1].append(" " if ends_line else piece.group())
        if len(parts) > _MAX_PARTS:
            return None
    return ["".join(part) for part in parts] if closed else None


def _lead(text: str, end: int) -> str:
    line, column = _position(text, end)
    return "\n" * (line - 1) + " " * (column - 1)
