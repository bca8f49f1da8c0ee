"""`python -m tests.parity`: print every row of Kueue's behaviour with the tests that hold it."""

import sys

from tests.parity.document import ParityError, check, collect, render

found = collect()
try:
    check(found)
except ParityError as error:
    sys.exit(str(error))
print(render(found))
