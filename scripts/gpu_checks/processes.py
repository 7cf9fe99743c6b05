"""Processes that end with everything they started, and files that are never half written."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PAUSE = 0.02  # seconds between looks at a process


def say(text):
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def write(path, text):
    """Writes a file aside and renames it, so that a reader finds the old text or the new one."""
    aside = path.with_name(f"{path.name}.part")
    aside.write_text(text)
    os.replace(aside, path)


class Child:
    """A process in a session of its own, whose output goes to LOG.out and LOG.err."""

    def __init__(self, command, folder, environment, log):
        self.log, self.late, self.begun = log, False, time.monotonic()
        with Path(f"{log}.out").open("wb") as out, Path(f"{log}.err").open("wb") as errors:
            self.process = subprocess.Popen(
                [str(part) for part in command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=errors, start_new_session=True,
            )  # fmt: skip

    def over(self):
        """Whether it has ended; it is not reaped, so that its number stays its own."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, seconds):
        """Waits for at most so long, then ends it and whatever it started."""
        until = time.monotonic() + seconds
        try:
            while not self.over() and time.monotonic() < until:
                time.sleep(PAUSE)
            self.late = not self.over()
        finally:
            self.end()
        return self

    def end(self):
        """Kills the whole session, also what a process that has ended left behind."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.seconds = time.monotonic() - self.begun

    def read(self, kind):
        """What it wrote so far: `out` or `err`."""
        return Path(f"{self.log}.{kind}").read_text(errors="replace")

    def ending(self):
        """How it ended, in words."""
        code = self.process.returncode
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"code {code}"
