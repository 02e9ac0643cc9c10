"""Runs a command for so many seconds at most: `python tests/time_limit.py SECONDS COMMAND…`.

When they are over, the command is ended with all that it started, and the status is that of coreutils'
`timeout`, which not every machine has. A limit inside pytest would not do: it is looked at between tests, and
a worker that hangs in compiled code never gets there.
"""

import os
import signal
import subprocess
import sys

TIMED_OUT = 124


def main(seconds, *command):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left behind
    child = subprocess.Popen(command, start_new_session=True)
    try:
        return child.wait(timeout=float(seconds))
    except subprocess.TimeoutExpired:
        print(f"not done after {seconds} seconds, ended: {' '.join(command)}", file=sys.stderr, flush=True)
        return TIMED_OUT
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGINT)  # as the terminal would have done in the same session
        return child.wait(timeout=60)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
