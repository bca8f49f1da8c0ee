"""What a process has imported: much of the time that a short one takes."""

import subprocess
import sys


def imported(code: str, *names: str) -> str:
    """Return what a new process prints that runs some code; the last line lists what of these
    modules it has imported.
    """
    asked = f"import sys\n{code}\nprint([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout
