"""Taking secrets out of texts that strangers are to read.

Theory. Two ways that mend each other's gaps. What this process can know to be a secret (passwords
in URLs of the settings, contents of the files that settings and libpq name, values of variables
that are called like secrets, of the Secrets that gatelog's pods mount) is replaced wherever it
is and however it is quoted. What others may have written into a message is found by form: user
information of URLs, what follows the word password, token or the like, Authorization headers, JSON
Web Tokens, PEM blocks, NKeys, keys of clouds.

Invariant: a text that went through `text` holds no known secret, and passing it twice changes
nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import msgspec

from runtime.settings import Settings

GONE = "***"
SHORTEST = 4
"""Characters of a value below which it is no secret: replacing it would blank half of a text."""
_MOST_BYTES = 64 * 1024
_WORDS = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])pass(?![a-z])|pwd|token|secret|credentials?"
    r"|authorization|cookie|seed|signature|(?<![a-z])sig(?![a-z])"
    r"|(?:api|private|access|client|account|shared|storage)[-_]?key(?:[-_]?(?:id|data))?)"
)
_IS_SECRET = re.compile(_WORDS, re.IGNORECASE)
_FILES = (
    *("password_file", "credentials", "nkey_seed", "tls_key", "key_file", "signing_key_file"),
    *("token_file", "kubeconfig"),
)
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_NAMING_FILES = ("PGPASSFILE", "PGSERVICEFILE", "KUBECONFIG")
_COLONS = 3
"""Colons in a line of a password file of libpq, at least."""
_PASSWORDS = re.compile(r"://[^\s/:@]*:([^\s,]+)@")
"""Passwords of URLs, of any characters: SQLAlchemy takes an unquoted / in a password."""
_PASSWORDS_WITH_COMMAS = re.compile(r"://[^\s/:@]*:([^\s@]+)@")
"""Passwords with a comma, which in a list of URLs ends a URL."""
_NAMED = re.compile(rf"(?im)([\w.-]*{_WORDS}[\w-]*)[\"']?[ \t]*[:=][ \t]*[\"']?([^\s\"',}}]+)")
_NO_PASSWORDS = (
    "is|was|of|for|in|from|and|or|not|with|without|by|to|the|a|an|has|must|may|cannot|can|as|at|on"
    "|file|files|authentication|failed|wrong|missing|empty|given|set|changed|needed|expired"
)
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL), GONE),
    (re.compile(r"(?<=://)[^\s/:@\"'<>]*:[^\s,\"'<>]+(?=@)"), GONE),  # with / or @ in it, too
    (re.compile(r"(?<=://)[^\s/@\"'<>]+(?=@)"), GONE),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}"), rf"\1 {GONE}"),
    (
        re.compile(
            rf"(?i)([A-Za-z0-9_.-]*{_WORDS}[A-Za-z0-9_-]*\\?[\"']?\s*(?::(?!//)|=)\s*)"
            r"(?:(\\?\")(?:[^\"\\]|\\[^\"])*\\?\"|(')[^']*'|[^\s,;&}\"'\]]+)"
        ),
        rf"\1\2\3{GONE}\2\3",
    ),
    (
        re.compile(
            r"(?i)(\bpass(?:word|wd|phrase|code)\s+(?:is\s+|was\s+)?)"
            rf"(?!(?:{_NO_PASSWORDS})\b)[^\s,;&}}\]\\\"':=*]+"
        ),
        rf"\1{GONE}",
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), GONE),
    (re.compile(r"\bS[ACNOUX][A-Z2-7]{54,58}\b"), GONE),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[a-z]_[A-Za-z0-9]{20,}\b"), GONE),
)


class Scrubber:
    """Replaces secrets by `GONE`; `known` are values to replace wherever they occur."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._values = frozenset(known)
        forms = {
            form for value in self._values if len(value) >= SHORTEST for form in _written(value)
        }
        # The longest first: one secret may be the beginning of another.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def knowing(self, contents: Iterable[str]) -> "Scrubber":
        """Return a scrubber that also knows the secrets in contents of files of secrets."""
        return Scrubber(self._values.union(*map(_of_content, contents)))

    def text(self, given: str) -> str:
        """Return a text without secrets."""
        if self._known is not None:
            given = self._known.sub(GONE, given)
        for form, put in _FORMS:
            given = form.sub(put, given)
        return given

    def value(self, given: object) -> object:
        """Return a document (of dicts, lists and texts) without secrets, its keys as they are."""
        match given:
            case str():
                return self.text(given)
            case dict():
                return {
                    key: GONE
                    if isinstance(item, str) and item and _IS_SECRET.search(str(key))
                    else self.value(item)
                    for key, item in given.items()
                }
            case list() | tuple():
                return [self.value(item) for item in given]
            case _:
                return given


def scrubber(settings: Settings, environ: Mapping[str, str] | None = None) -> Scrubber:
    """Return a scrubber that knows the secrets this process can know."""
    return Scrubber(_known(settings, os.environ if environ is None else environ))


def _known(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    for value in _texts(msgspec.to_builtins(settings)):
        yield from _of_urls(value)
    for name, value in environ.items():
        if name in _NAMING_FILES:
            for path in value.split(os.pathsep):
                yield from _lines(path)
        elif _IS_SECRET.search(name) and not name.endswith(("_FILE", "_PATH")):
            yield value
        else:
            yield from _of_urls(value)
    for path in (_ACCOUNT, str(Path.home() / ".kube" / "config"), str(Path.home() / ".pgpass")):
        yield from _lines(path)
    for section in msgspec.to_builtins(settings).values():
        if isinstance(section, dict):
            for name in _FILES:
                yield from _lines(section.get(name) or "")


def _texts(tree: object) -> Iterator[str]:
    match tree:
        case str():
            yield tree
        case dict():
            for item in tree.values():
                yield from _texts(item)
        case list() | tuple():
            for item in tree:
                yield from _texts(item)
        case _:
            return


def _of_urls(text: str) -> Iterator[str]:
    for secret in (*_PASSWORDS.findall(text), *_PASSWORDS_WITH_COMMAS.findall(text)):
        yield secret
        yield unquote(secret)
    for part in text.split(",") if "://" in text else ():
        try:
            found = urlsplit(part.strip())
        except ValueError:
            continue
        secret = found.password if found.password is not None else found.username
        if secret and "@" in found.netloc:
            yield secret
            yield unquote(secret)


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of a file of secrets."""
    if not path:
        return
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return  # not there, or not ours to read: then nothing here can show it
    yield from _of_content(text)


def _of_content(text: str) -> Iterator[str]:
    """Yield the secrets in the content of a file of secrets.

    Of `name = value` and `"name": "value"` the values with names of secrets, of lines with colons
    (a password file of libpq) the last part, else whole lines.
    """
    named = _NAMED.findall(text)
    yield from (value for _, value in named)
    for line in () if named else map(str.strip, text.splitlines()):
        if not line.startswith(("-----", "[", "#")):
            yield line.rpartition(":")[2] if line.count(":") >= _COLONS else line


def _written(value: str) -> set[str]:
    """Return the forms of a value in a text: as it is, in a URL, in JSON."""
    in_json = msgspec.json.encode(value).decode()[1:-1]
    return {value, quote(value, safe=""), quote(value), in_json}
