"""CHANGELOG.md tells of each name that came or went since the latest release."""

from tests.deploy.announced import CHANGELOG, kept, names, unreleased, untold


def test_the_changelog_tells_of_each_name_that_came_or_went() -> None:
    changed = names() ^ kept()
    missing = untold(changed, unreleased(CHANGELOG.read_text()))
    assert not missing, (
        f"say in CHANGELOG.md, under Unreleased, what became of {missing}: the name as code, with "
        "what people have of it"
    )


def test_a_name_that_is_not_told_of_is_found() -> None:
    text = "- Setting `queueing.greeting`: what a group is greeted with; column `groups.greetings`."
    changed = {"setting queueing.greeting", "column groups.greetings", "rule greet"}
    assert untold(changed, text) == ["rule greet"]
    assert untold(changed, unreleased(f"# Changelog\n\n## Unreleased\n\n{text}\n\n## 0.1\n`greet`"))
