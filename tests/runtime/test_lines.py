import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.lines import LineSplitter, LineTooLong


@given(
    lines=st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=20),
    cuts=st.lists(st.integers(1, 30), max_size=40),
    tail=st.binary(max_size=10).map(lambda b: b.replace(b"\n", b"")),
)
def test_however_the_stream_is_cut_the_lines_are_the_same(
    lines: list[bytes], cuts: list[int], tail: bytes
) -> None:
    stream = b"".join(line + b"\n" for line in lines) + tail
    splitter = LineSplitter(100)
    got: list[bytes] = []
    for size in [*cuts, len(stream)]:
        chunk, stream = stream[:size], stream[size:]
        got.extend(splitter.feed(chunk))
    assert got == [line for line in lines if line]
    assert splitter.rest == tail


@pytest.mark.parametrize(
    "chunks", [[b"x" * 11], [b"x" * 6, b"y" * 5], [b"a\n" + b"x" * 11 + b"\nb"]]
)
def test_a_line_beyond_the_bound_is_refused(chunks: list[bytes]) -> None:
    splitter = LineSplitter(10)
    with pytest.raises(LineTooLong, match="10 bytes"):
        for chunk in chunks:
            list(splitter.feed(chunk))


def test_a_line_at_the_bound_is_taken() -> None:
    splitter = LineSplitter(10)
    assert list(splitter.feed(b"x" * 10)) == []
    assert list(splitter.feed(b"\n")) == [b"x" * 10]
    assert list(splitter.feed(b"y" * 10 + b"\n" + b"z" * 10 + b"\n")) == [b"y" * 10, b"z" * 10]
