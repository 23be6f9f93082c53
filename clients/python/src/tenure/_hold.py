"""A lease where there is no agent: by the program `tenure hold`, which lives as long as the lease is wanted."""

from __future__ import annotations

import collections
import json
import math
import os
import subprocess
import threading
import weakref
from typing import IO, Any, Deque, Dict, List, Optional, Sequence

from ._asks import millis, texts
from ._clock import timeline
from ._errors import AgentError, HeldByAnother, Unreachable
from ._lease import Lease
from ._wanted import Wanted
from ._wire import check_wait

_HELD = 75
#: How long a program that nobody wants may take to end, and to give back what it has. Longer than a usual ttl: where the store is slow, its claim may yet land.
_PARTING = 30.0
#: Those that this process has started.
_programs: "weakref.WeakSet[subprocess.Popen[str]]" = weakref.WeakSet()


def _forked() -> None:
    """A program lives until its input is closed, which a child of this process must not keep open."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for process in list(_programs):
        if process.stdin is not None and not process.stdin.closed:
            os.dup2(nothing, process.stdin.fileno(), inheritable=False)
    os.close(nothing)


os.register_at_fork(after_in_child=_forked)


class _Said:
    """The end of what a program says on standard error.

    Somebody has to read that, or the program stands still once the pipe is full.
    """

    def __init__(self, stream: "IO[str]") -> None:
        self._lines: Deque[str] = collections.deque(maxlen=100)
        self._reader = threading.Thread(target=self._read, args=(stream,), name="tenure hold said", daemon=True)
        self._reader.start()

    def _read(self, stream: "IO[str]") -> None:
        with stream:
            for line in iter(lambda: stream.readline(4096), ""):
                self._lines.append(line)

    def text(self) -> str:
        """All that is kept, when the program has ended."""
        self._reader.join()
        return "".join(self._lines)


def hold(
    key: str,
    *,
    wait: Optional[float] = 0.0,
    ttl: Optional[float] = None,
    at_most: Optional[float] = None,
    store: Optional[str] = None,
    program: Sequence[str] = ("tenure",),
) -> Lease:
    """The lease on `key`, from the store of that URL (or of `TENURE_STORE`). As `Client.lease`.

    The URL is in the program's environment, and not in the list of processes, which all users of the host can read. A `program` of several words may be one
    that passes no environment on, such as sudo, so it is given the URL as an option: name no password there. It runs on this host: the deadline is one of its
    clock.

    `ttl`: for how many seconds it outlasts the program's last renewal. `at_most`: after so many seconds it is prolonged no more.
    """
    return _held(_command(key, wait, ttl, at_most, store, program), store, _Program())


def async_hold(
    key: str,
    *,
    wait: Optional[float] = 0.0,
    ttl: Optional[float] = None,
    at_most: Optional[float] = None,
    store: Optional[str] = None,
    program: Sequence[str] = ("tenure",),
) -> Wanted[Lease]:
    """As `hold`, for asyncio: `async with tenure.async_hold("k") as lease`. Who is cancelled while it waits has nothing."""
    command = _command(key, wait, ttl, at_most, store, program)
    return Wanted(lambda started: _held(command, store, started), _Program)


class _Program:
    """One that is started, or about to be."""

    def __init__(self) -> None:
        self.process: "Optional[subprocess.Popen[str]]" = None
        self.is_aborted = False

    def abort(self) -> None:
        """Nobody waits for it any more: it ends when its input does."""
        self.is_aborted = True
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()


def _command(
    key: str, wait: Optional[float], ttl: Optional[float], at_most: Optional[float], store: Optional[str], program: Sequence[str]
) -> List[str]:
    check_wait(wait)
    # This process may get a signal together with the program's, as from systemd: the program waits until this one is done.
    words = texts("program", program)
    command: List[str] = [*words, "hold", "--json", "--until-eof"]
    if wait == 0:
        command.append("--try")
    elif wait is not None and wait != math.inf:
        command.append(f"--wait={int(wait * 1000)}ms")
    for option, name, span in (("ttl", "ttl", ttl), ("max", "at_most", at_most)):
        if span is not None:
            command.append(f"--{option}={millis(name, span)}ms")
    # Where the environment may not arrive, another store would be taken in silence. Where it does, a password in the URL is in no list of processes.
    if store is not None and len(words) > 1:
        command.append(f"--store={store}")
    return [*command, "--", key]


def _held(command: List[str], store: Optional[str], started: _Program) -> Lease:
    environment = None if store is None else {**os.environ, "TENURE_STORE": store}
    try:
        # In a session of its own: a Ctrl-C that this process goes on after must not end the lease. It ends with its standard input.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise Unreachable(f"{command[0]} can't be started: {error}") from error
    try:
        return _told(process, started, command[0])
    except BaseException:
        # A signal, too: whoever asked has no lease by which to end it, and it would wait on, and keep what it gets.
        _end(process)
        raise


def _told(process: "subprocess.Popen[str]", started: _Program, name: str) -> Lease:
    """The lease that the program says it has."""
    _programs.add(process)
    started.process = process
    # Whoever aborts after this finds a program to end.
    if started.is_aborted:
        started.abort()
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    standard_error = _Said(process.stderr)
    line = process.stdout.readline()
    if not line:
        process.stdin.close()
        process.wait()
        said = _message(standard_error.text())
        if process.returncode == _HELD:
            raise HeldByAnother(said)
        raise AgentError(said or f"tenure hold ended with status {process.returncode}")
    try:
        told = json.loads(line)
        lease = Lease(told["key"], told["fence"], lambda lease: _release(lease, process, reader))
        clock = told.get("boot")
        _extend(lease, told, clock)
    except (ValueError, KeyError, TypeError):
        raise AgentError(f"{name} says {line.strip()[:200]!r}, which tells of no lease; is it tenure's program?") from None
    # Only once: later, this process may have no file descriptor left to read it by, or another root.
    if clock != timeline():
        raise AgentError("tenure hold runs on another host, whose clock says nothing here; run it on this one, or use an agent there")
    reader = threading.Thread(target=_follow, args=(weakref.ref(lease), process, clock), name="tenure hold", daemon=True)
    reader.start()
    # One that nobody has any more is given back. Not by the interpreter's own end: threads and handlers still go by it then, and the program sees
    # by its input when all of them are gone.
    weakref.finalize(lease, _give_back, process).atexit = False
    return lease


def _give_back(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
    except OSError:
        # It has ended already.
        pass


def _end(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_PARTING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _extend(lease: Lease, told: Dict[str, Any], clock: Optional[str]) -> None:
    if told.get("boot") != clock:
        raise ValueError("its deadline is of another clock")
    lease._deadline_ns = told["deadline_boottime_ms"] * 1_000_000


def _follow(wanted: "weakref.ref[Lease]", process: "subprocess.Popen[str]", clock: Optional[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    for line in process.stdout:
        lease = wanted()
        if lease is None:
            continue
        try:
            told = json.loads(line)
            if told["event"] == "extended":
                _extend(lease, told, clock)
            elif told["event"] == "asked":
                # Whatever is asked for, by whoever watches.
                if told["ask"] == "revoke":
                    lease._revoke()
            elif told["event"] == "lost":
                lease._over(told["reason"])
            elif told["event"] == "released":
                lease._over("it was released")
        except (ValueError, KeyError, TypeError):
            # The lease is given back, and what the program says from here on is read, so that it can end.
            lease._over(f"tenure hold says {line.strip()[:200]!r}, which tells of no lease")
            process.stdin.close()
        # While the next line is waited for, nobody has it by this.
        del lease
    for stream in (process.stdin, process.stdout):
        stream.close()
    process.wait()


def _release(lease: Lease, process: "subprocess.Popen[str]", reader: threading.Thread) -> bool:
    lease._over("it was released", is_let_go=True)
    assert process.stdin is not None
    process.stdin.close()
    reader.join(_PARTING)
    if reader.is_alive():
        process.kill()
        reader.join()
    return process.returncode == 0


def _message(said: str) -> str:
    """With --json a failure is an object."""
    last = said.strip().splitlines()[-1] if said.strip() else ""
    try:
        return str(json.loads(last)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return last
