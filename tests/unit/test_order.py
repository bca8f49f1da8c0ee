"""Long test files begin first; see `tests.support.order`."""

from pathlib import Path

import pytest

from tests.support.order import LEAST_S, SECONDS, measured

ROOT = Path(__file__).parents[2]


def test_files_that_take_long_are_there() -> None:
    gone = [name for name in SECONDS if not (ROOT / name).is_file()]
    assert not gone, f"moved or renamed: {gone}"


def test_files_come_in_order_and_stay_whole(request: pytest.FixtureRequest) -> None:
    files = [item.path.relative_to(ROOT).as_posix() for item in request.session.items]
    begun = list(dict.fromkeys(files))
    runs = [a for a, b in zip(files, [*files[1:], ""], strict=True) if a != b]
    assert runs == begun, "the tests of a file are not together"
    took = [SECONDS.get(name, 0) for name in begun]
    assert took == sorted(took, reverse=True)


def test_a_report_says_what_takes_long(tmp_path: Path) -> None:
    cases = [("tests.a.test_x", 4), ("tests.b.test_y", LEAST_S), ("tests.a.test_x", LEAST_S)]
    lines = [f'<testcase classname="{name}" name="t" time="{s}"/>' for name, s in cases]
    report = tmp_path / "found.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(lines)}</testsuite></testsuites>")
    assert measured(report) == {"tests/a/test_x.py": LEAST_S + 4, "tests/b/test_y.py": LEAST_S}
