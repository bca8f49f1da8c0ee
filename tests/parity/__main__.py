"""`python -m tests.parity`: write docs/parity.md anew."""

import sys

from tests.parity.document import PAGE, ParityError, page

try:
    PAGE.write_text(page())
except ParityError as error:
    sys.exit(str(error))
