"""A certificate that others made and did not renew is said by readiness, until it is replaced."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.certificates import OwnCertificates, server_context
from runtime.rotation import GivenFiles


def make(folder: Path, at: datetime) -> Path:
    OwnCertificates(folder, ("localhost",)).ensure(at)
    return folder / "serving.pem"


def test_an_ended_certificate_is_a_problem_until_it_is_replaced(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    file = make(tmp_path / "old", now - timedelta(days=400))
    given, context = GivenFiles(file, file), server_context()
    assert given.refresh(context)
    said = given.problem()
    assert str(file) in said and "expired at" in said and "put a good one in its place" in said
    assert given.problem(now - timedelta(days=300)) == ""
    assert "is not valid before" in given.problem(now - timedelta(days=500))
    file.write_bytes(make(tmp_path / "new", now).read_bytes())
    assert given.refresh(context) and given.problem() == ""
