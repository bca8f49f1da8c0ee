"""Reading a file line by line, gzipped or not, up to the end or a damaged place.

Theory. Copied files arrive cut short or damaged. Lines before the damage are good, so lines are
given out as they are decompressed, and the error that ended them is kept (`problem`) instead of
being raised. Memory holds one chunk and one line, whatever the file's length.

Invariant: every complete line before the damage is given out; an incomplete last line of a cut file
is not.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
MOST_LINE_BYTES = 64 << 20
"""A line longer than this is no line of ours; objects of Kubernetes end at 3 MiB."""
_GZIP = b"\x1f\x8b"


class Lines:
    """The lines of a file, once. `problem` says afterwards why they ended early, "" if not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problem = ""

    def __iter__(self) -> Iterator[bytes]:
        """Give out lines without their ends.

        Raises:
            OSError: the file cannot be read at all.
        """
        rest = b""
        for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
            if len(rest) > MOST_LINE_BYTES:
                self.problem = f"a line is longer than {MOST_LINE_BYTES} bytes"
                return
        if rest and not self.problem:
            yield rest

    def _chunks(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            if file.read(2) != _GZIP:
                file.seek(0)
                while chunk := file.read(CHUNK):
                    yield chunk
                return
            file.seek(0)
            unzip = zlib.decompressobj(wbits=31)
            while data := file.read(CHUNK):
                while data:
                    if unzip.eof:  # several gzip members, one after the other
                        unzip = zlib.decompressobj(wbits=31)
                    try:
                        out = unzip.decompress(data, CHUNK)
                    except zlib.error as error:
                        self.problem = f"the file is damaged: {error}"
                        return
                    yield out
                    data = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
            while not unzip.eof and (out := unzip.decompress(unzip.unconsumed_tail, CHUNK)):
                yield out
            if not unzip.eof:
                self.problem = "the file ends in the middle: it is truncated"
