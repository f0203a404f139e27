"""Runs the program as its users do: as a process, with pipes or with a terminal."""
import os
import pty
import select
import signal
import subprocess
import time
from dataclasses import dataclass

TIMEOUT_S = 240  # of one run; far above what any takes, so that a hang is a failure and not a wait


@dataclass
class Outcome:
    status: int
    out: str
    err: str


class Program:
    def __init__(self, binary):
        self.binary = str(binary)

    def arguments(self, *arguments):
        return [self.binary, *map(str, arguments)]

    def run(self, *arguments, stdin="", **options):
        """One run to its end; the standard streams are pipes."""
        done = subprocess.run(self.arguments(*arguments), input=stdin.encode(), capture_output=True,
                              timeout=TIMEOUT_S, check=False, **options)
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def results(self, *arguments, **options):
        """The standard output of a run that must succeed."""
        outcome = self.run(*arguments, **options)
        assert outcome.status == 0, outcome.err
        return outcome.out

    def start(self, *arguments, **streams):
        """A running process; its standard streams are pipes where nothing else is stated."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.arguments(*arguments), bufsize=0, **(pipes | streams))


def finish(process):
    """Waits for a started process."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Outcome(process.returncode, (out or b"").decode(), (err or b"").decode())


def read_until(stream, wanted):
    """Reads a pipe until `wanted` bytes have come; what was read."""
    seen = b""
    deadline = time.monotonic() + TIMEOUT_S
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([stream], [], [], 1)[0]:
            piece = os.read(stream.fileno(), 65536)
            assert piece, f"the stream ended without {wanted!r}: {seen!r}"
            seen += piece
    return seen


def status_bytes(pid, field):
    """A figure of /proc/PID/status in bytes, such as VmRSS; 0 once the process is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def io_count(pid, field):
    """A count of /proc/PID/io, such as read_bytes: bytes that came from the disk."""
    with open(f"/proc/{pid}/io", encoding="ascii") as counts:
        return next(int(line.split()[1]) for line in counts if line.startswith(field + ":"))


def drop_from_page_cache(path):
    """Makes the next reads of a file come from the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


class Terminal:
    """The program with a terminal as its standard streams, as a person has it."""

    def __init__(self, program, *arguments):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execv(program.binary, program.arguments(*arguments))
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.descriptor)

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def wait_for(self, wanted):
        """What has come up to and with `wanted`; the next call looks behind it."""
        deadline = time.monotonic() + TIMEOUT_S
        while wanted not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), f"the program ended without {wanted!r}: {self.seen!r}"
        end = self.seen.index(wanted) + len(wanted)
        before, self.seen = self.seen[:end], self.seen[end:]
        return before

    def finish(self):
        """Everything up to the end of the program, and its exit status."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read():
            assert time.monotonic() < deadline, self.seen
        _, status = os.waitpid(self.pid, 0)
        return self.seen, os.waitstatus_to_exitcode(status)

    def _read(self):
        if not select.select([self.descriptor], [], [], 1)[0]:
            return True
        try:
            piece = os.read(self.descriptor, 65536)
        except OSError:  # Linux says EIO when the last process has closed the terminal
            return False
        self.seen += piece.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)
