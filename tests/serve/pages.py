"""Reading pages as browsers and those who help people read them do: accessibility, by rule.

Checked is what can be without a browser: names, labels, order of headings, landmarks, tables,
references to other hosts, inline styles and scripts. Contrast is worked out from the style sheet.
"""

import re
from html.parser import HTMLParser
from importlib.resources import files

VOID = {"input", "br", "meta", "link", "hr"}


class Tree(HTMLParser):
    """Elements in order: (tag, attributes, own text), and problems of nesting."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self.stack: list[int] = []
        self.problems: list[str] = []
        self.inside: dict[int, list[str]] = {}
        self.feed(text)
        self.close()
        if self.stack:
            self.problems.append(f"{self.elements[self.stack[-1]][0]} is not closed")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        index = len(self.elements)
        self.elements.append((tag, {k: v or "" for k, v in attrs}, []))
        self.inside[index] = [self.elements[i][0] for i in self.stack]
        if tag not in VOID:
            self.stack.append(index)

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.elements[self.stack[-1]][0] != tag:
            self.problems.append(f"</{tag}> closes nothing")
            return
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        for index in self.stack:
            self.elements[index][2].append(data)


def problems(text: str) -> list[str]:
    """What is wrong with a page, in words; nothing if it is well."""
    tree = Tree(text)
    found = [*tree.problems]
    if not text.startswith("<!doctype html>"):
        found.append("no doctype")
    tags = [tag for tag, _, _ in tree.elements]
    for tag in ("html", "main", "header", "nav", "footer", "h1", "title"):
        if tags.count(tag) != 1 and not (tag == "title" and tags.count("title") >= 1):
            found.append(f"{tags.count(tag)} elements {tag}")
    ids = [a["id"] for _, a, _ in tree.elements if "id" in a]
    if len(ids) != len(set(ids)):
        found.append("an id occurs twice")
    level = 0
    for index, (tag, attributes, words) in enumerate(tree.elements):
        said = "".join(words).strip() or attributes.get("aria-label", "")
        around = tree.inside[index]
        if tag == "html" and not attributes.get("lang"):
            found.append("no language")
        if tag in ("a", "button", "h1", "h2", "th", "title", "caption") and not said:
            found.append(f"{tag} without words: {attributes}")
        if tag in ("h1", "h2", "h3"):
            if int(tag[1]) > level + 1:
                found.append(f"{tag} behind level {level}")
            level = int(tag[1])
        if tag in ("input", "select") and attributes.get("type") != "hidden":
            if "label" not in around:
                found.append(f"{tag} without label: {attributes}")
        if tag == "th" and attributes.get("scope") not in ("row", "col"):
            found.append("th without scope")
        if tag == "svg" and not attributes.get("aria-hidden"):
            # A drawing with links in it is a group: what is in an image is not reached.
            if attributes.get("role") not in ("img", "group") or not attributes.get("aria-label"):
                found.append("a picture without words")
        if attributes.get("tabindex") not in (None, "0", "-1"):
            found.append("tabindex above 0 changes the order")
        if attributes.get("tabindex") == "0" and not attributes.get("aria-label"):
            found.append(f"{tag} can be reached and says nothing")
        for name, value in attributes.items():
            if name == "style" or name.startswith("on"):
                found.append(f"inline {name} on {tag}")
            if name in ("href", "src", "action") and re.match(r"(?:[a-z]+:)?//", value):
                found.append(f"refers to another host: {value}")
        if tag in ("style",) or (tag == "script" and "".join(words).strip()):
            found.append(f"inline {tag}")
        if tag == "meta" and "user-scalable=no" in attributes.get("content", ""):
            found.append("zoom is forbidden")
    return found


def style() -> str:
    folder = files("gatelog.serve.console")
    return "".join((folder / name).read_text() for name in ("console.css", "charts.css"))


def palettes() -> dict[str, dict[str, str]]:
    """Colours by name, of the light and of the dark scheme."""
    blocks = re.findall(r":root \{(.+?)\}", style(), re.DOTALL)
    read = [dict(re.findall(r"--(\w+): (#\w{6});", block)) for block in blocks]
    return {"light": read[0] | read[2], "dark": read[1] | read[3]}


def contrast(one: str, other: str) -> float:
    """WCAG 2: relative luminance of the lighter over that of the darker."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
