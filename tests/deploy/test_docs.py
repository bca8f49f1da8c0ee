"""The documentation says what is so: generated parts, names, commands, links and queries."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from runtime.settings_source import describe
from tests.deploy.reference import NOT_YET, PARTS, marks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "deploy").rglob("*.md"))
PARTS_OF_US = ("podgroup", "runtime", "ingest", "projector", "actuator", "gatelog")


@pytest.mark.parametrize("part", PARTS, ids="-".join)
def test_generated_parts_are_up_to_date(part: tuple[str, str]):
    file, name = part
    begin, end = marks(name)
    text = (ROOT / "docs" / file).read_text()
    assert text.count(begin) == text.count(end) == 1
    written = text.split(begin)[1].split(end)[0].strip()
    assert written == PARTS[part]().strip(), "run: python -m tests.deploy.reference"


def sources() -> Iterator[tuple[Path, str]]:
    for part in PARTS_OF_US:
        for path in (ROOT / part).rglob("*.py"):
            yield path, path.read_text()


def test_settings_that_nothing_acts_on_are_called_so():
    """A setting is acted on when some module reads an attribute of its name."""
    skipped = {ROOT / "runtime" / n for n in ("settings.py", "settings_source.py")}
    attributes: set[str] = set()
    for path, text in sources():
        if path not in skipped:
            attributes |= {
                n.attr for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute)
            }
    unread = {doc.path for doc in describe() if doc.name not in attributes}
    assert unread == NOT_YET


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())
        for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
            if target.startswith(("http://", "https://")):
                continue
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name}: {target}"
            assert not heading or heading in anchors(there), f"{page.name}: {target}#{heading}"


def test_readme_leads_to_every_page():
    """U12. Two pages were there and linked from nowhere."""
    pages = (ROOT / "docs").glob("*.md")
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert linked == {f"docs/{page.name}" for page in pages}


def test_files_that_are_named_exist():
    heads = "deploy|docs|tests|podgroup|ingest|projector|actuator|gatelog|simcluster|migrations"
    for page in PAGES:
        for name in re.findall(rf"`((?:{heads})/[\w./-]+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_commands_that_are_named_exist():
    from gatelog.cli import COMMANDS

    for page in PAGES:
        text = page.read_text()
        spoken = re.findall(r"`gatelog ([a-z][a-z-]*)", text)
        blocks = "\n".join(re.findall(r"```\n(.+?)```", text, re.DOTALL))
        typed = re.findall(r"^(?:\$ )?(?:\.venv/bin/)?gatelog ([a-z][a-z-]*)", blocks, re.MULTILINE)
        assert {*spoken, *typed} <= set(COMMANDS), page.name


def test_settings_that_are_named_exist():
    docs = {doc.path for doc in describe()}
    variables = {doc.variable for doc in describe()} | {
        # Read by compose, by the tests, and the file itself.
        *("GATELOG_CONFIG", "GATELOG_TEST_KUBECONFIG", "GATELOG_USER", "GATELOG_POSTGRES_PORT"),
    }
    sections = "|".join(sorted({doc.section for doc in describe() if doc.section}))
    for page in PAGES:
        text = page.read_text()
        for name in re.findall(rf"`((?:{sections})\.[a-z_]+)[ `=]", text):
            package = ROOT / name.replace(".", "/")
            is_code = package.is_dir() or package.with_suffix(".py").exists()
            assert name in docs or is_code, f"{page.name}: {name}"
        assert set(re.findall(r"\bGATELOG_[A-Z_]+[A-Z]\b", text)) <= variables, page.name


def test_every_rule_is_explained():
    """A decision bears the name of its rule's module (`tests/core/test_rules.py`)."""
    paths = (ROOT / "podgroup" / "rules").glob("*.py")
    deciding = {path.stem.rstrip("_") for path in paths if "decision(" in path.read_text()}
    assert len(deciding) > 20
    text = (ROOT / "docs" / "concepts.md").read_text()
    section = text.split("## Rules")[1].split("###")[0]
    unsaid = deciding - set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert not unsaid, (
        f"docs/concepts.md lacks rules {sorted(unsaid)}: give each RULE its `docs`, and run "
        "python -m tests.deploy.reference"
    )


def test_every_state_is_explained():
    from projector.tables import groups

    text = (ROOT / "docs" / "concepts.md").read_text()
    section = text.split("## States of a group")[1].split("## ")[0]
    explained = set(re.findall(r"^\| ([A-Z]\w+) \|", section, re.MULTILINE))
    comment = groups.c.state.comment
    assert comment is not None
    assert explained == set(re.findall(r"[A-Z]\w+", comment))


def queries() -> list[str]:
    found: list[str] = []
    for page in PAGES:
        found += re.findall(r"```sql\n(.+?)```", page.read_text(), re.DOTALL)
    return found


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_query_runs(database: str, tmp_path: Path, request: pytest.FixtureRequest):
    from projector.storage.database import reader
    from projector.upkeep import migrate

    url = f"sqlite:///{tmp_path}/model.db"
    if database == "postgres":
        url = request.getfixturevalue("postgres_database")
    migrate.upgrade(url)
    engine = reader(url)
    with engine.connect() as connection:
        for query in queries():
            connection.execute(sa.text(query)).all()
    engine.dispose()
    assert queries()


def test_settings_in_examples_load(tmp_path: Path):
    from gatelog.readmodel import rates
    from runtime.settings_source import load

    blocks = re.findall(r"```toml\n(.+?)```", "".join(p.read_text() for p in PAGES), re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.toml"
        file.write_text(block)
        if "[rates]" in block:
            assert rates.read(file).rates
        else:
            load(file, {})


def test_objects_in_examples_fit_the_crds():
    import yaml

    from tests.deploy.schemas import crd, plurals, problems

    kinds = {crd(p)["spec"]["names"]["kind"]: p for p in plurals()}
    seen = set()
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"```yaml\n(.+?)```", page.read_text(), re.DOTALL)
    ]
    blocks += [file.read_text() for file in sorted((ROOT / "deploy" / "examples").glob("*.yaml"))]
    for block in blocks:
        for obj in yaml.safe_load_all(block):
            if obj["kind"] in kinds:
                seen.add(obj["kind"])
                assert problems(kinds[obj["kind"]], obj) == []
    assert {"ClusterQueue", "LocalQueue", "ResourceFlavor"} <= seen


def test_nothing_names_a_machine():
    forbidden = re.compile(r"/home/|/root/|/tmp/|pypi\.")
    for page in PAGES:
        assert not forbidden.search(page.read_text()), page.name
