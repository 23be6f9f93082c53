"""Units of a fleet: given to this process for a while, kept by beats as leases are."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Type

from ._asks import raised, said
from ._body import called, check_body
from ._errors import AgentError, LeaseLost, Refused, may_pass
from ._lease import Lease, of_kind


#: The longest that the agent lets one request for a unit wait.
_LONGEST_NEXT = 60.0
_log = logging.getLogger("tenure")


class Pauses:
    """How long to wait before an agent that gave no answer is asked again: ever longer, and 2 s at the most."""

    def __init__(self) -> None:
        self._next = 0.05
        self._is_told = False

    def next(self) -> float:
        self._next = min(2 * self._next, 2.0)
        return self._next

    def after(self, error: AgentError, waits_for: str) -> float:
        """As `next`, and the first trouble is logged: who waits for an absent agent does nothing else that is seen."""
        if not self._is_told:
            self._is_told = True
            _log.warning("%s: %s; asking again", waits_for, error)
        return self.next()


class Unit(Lease):
    """A unit of a fleet that this worker has: a lease on it, and the duty to say what became of it.

    As a context manager it is done when the block ends by itself, failed when an exception comes out, and given back when it was to go, or was lost.
    """

    def __init__(
        self,
        told: Dict[str, Any],
        end: Callable[[Unit, str, str, str, Optional[Dict[str, Any]]], bool],
        ask: Callable[[Unit, str, str, Dict[str, Any]], Any],
    ) -> None:
        super().__init__(of_kind(told["key"], str), of_kind(told["fence"], int), _give_back)
        self.name: str = of_kind(told["unit"], str)
        #: What it carries for its users, as it was when this worker was given it. `checkpoint` is what was written last by that.
        self.fields: Dict[str, str] = of_kind(told["fields"], dict)
        self._end = end
        self._ask = ask
        self._drain = threading.Event()

    @property
    def draining(self) -> bool:
        """Whether it is to go to another worker: end what is done for it, and let go of it."""
        return self._drain.is_set()

    @property
    def wanted(self) -> bool:
        """Whether to go on with it: it is held, and not to go. No I/O."""
        return self.held and not self.draining

    def done(self, fields: Optional[Mapping[str, str]] = None) -> bool:
        """Nobody is to have it again; with these fields in place of all others, if given. False: it was lost before, or no agent answered, so that nobody knows.

        Raises `TypeError`, and the unit is held still, unless the fields are texts; `Refused` if the agent says no, and then it is run again."""
        body = {} if fields is None else {"fields": dict(fields)}
        for name, value in body.get("fields", {}).items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise TypeError(f"{self.key}: the field {name!r} is {value!r}; fields are texts by name, such as {str(name)!r}: {str(value)!r}")
        return self._let_go("POST", f"/v1/units/{self.id}/done", body)

    def failed(self, says: str = "") -> bool:
        """Another worker has a go, and this one again after a while. False: as of `done`."""
        return self._let_go("POST", f"/v1/units/{self.id}/failed", {"says": said(says)})

    def checkpoint(self, value: str) -> None:
        """Writes how far the work has come, for whoever has the unit next. Raises `LeaseLost` if it is not this worker's any more, and in a forked child."""
        self.check()
        self._ask(self, "POST", f"/v1/units/{self.id}/checkpoint", {"value": value})
        self.fields["checkpoint"] = value

    def _let_go(self, method: str, path: str, body: Optional[Dict[str, Any]]) -> bool:
        return self._is_ours and self._end(self, "it was let go of", method, path, body)

    def _told(self, told: Dict[str, Any], sent_ns: int, is_local: bool) -> None:
        super()._told(told, sent_ns, is_local)
        if told.get("drain_in_ms") is not None:
            self._drain.set()

    def __enter__(self) -> Unit:
        self.check()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if not self.wanted:
            self._end_block(self.release, error)
        elif error is None:
            self._end_block(self.done, error)
        elif isinstance(error, Exception):
            says = raised(error)
            self._end_block(lambda: self.failed(says), error)
        else:
            # Ctrl-C says nothing about the unit.
            self._end_block(self.release, error)


def _give_back(unit: Lease) -> bool:
    # It names no unit by itself: one that nobody has any more is to be nobody's at once.
    return isinstance(unit, Unit) and unit._let_go("DELETE", f"/v1/leases/{unit.id}", None)


class Worker:
    """This process in a fleet, from `Client.worker`. It takes part for as long as it asks for units: the agent's `next` has to be asked in time.

    A process that was forked off is not in the fleet.
    """

    def __init__(self, joined: Dict[str, Any], next_unit: Callable[[str, float], Optional[Unit]], leave: Callable[[str], None]) -> None:
        self.fleet: str = of_kind(joined["fleet"], str)
        #: Its name in the fleet.
        self.holder: str = of_kind(joined["holder"], str)
        self._id: str = of_kind(joined["id"], str)
        #: How long one request for a unit waits.
        self._pace = min(joined["ask_in_ms"] / 1000, _LONGEST_NEXT)
        self._next = next_unit
        self._leave = leave
        self._process = os.getpid()
        self._has_left = threading.Event()
        self._lock = threading.Lock()
        self._units: "weakref.WeakSet[Unit]" = weakref.WeakSet()

    @property
    def _is_ours(self) -> bool:
        return os.getpid() == self._process

    def _check(self) -> None:
        if not self._is_ours:
            raise LeaseLost(f"{self.fleet}: process {self._process} is in the fleet, and this one was forked off; it joins by a worker of its own")

    def next(self, wait: float = 0.0) -> Optional[Unit]:
        """The next unit that this worker is given, if there is one within so many seconds (a minute at the most). Raises `LeaseLost` when the worker has left."""
        self._check()
        unit = self._next(self._id, wait)
        if unit is not None:
            self._know(unit)
        return unit

    def _know(self, unit: Unit) -> None:
        with self._lock:
            self._units.add(unit)
            if self._has_left.is_set():
                unit._drain.set()

    def units(self) -> Iterator[Unit]:
        """The units that this worker is given, for as long as it takes part. Who takes long for one lets others be asked for by another thread."""
        return self._given(False)

    def _given(self, is_patient: bool) -> Iterator[Unit]:
        """Who is patient goes on asking while no agent answers: the worker may be there still."""
        pauses = Pauses()
        while self._is_ours and not self._has_left.is_set():
            try:
                unit = self.next(self._pace)
            except LeaseLost:
                self._has_left.set()
                return
            except AgentError as error:
                if not goes_on_after(error, is_patient):
                    raise
                self._has_left.wait(pauses.after(error, f"the fleet {self.fleet}"))
                continue
            pauses = Pauses()
            if unit is None:
                continue
            if self._has_left.is_set():
                unit.release()
                return
            yield unit

    def run(self, body: Callable[[Unit], Any]) -> None:
        """Runs `body` in a thread for each unit that this worker is given, until it has left. Returns when all have ended, and raises then, too: who can't go on tells
        all bodies to end (`unit.wanted` is false), and waits for them.

        A body that returns has done its unit; one that raises has failed, and is logged by "tenure". `sys.exit` in a body ends the body alone: with 0 or nothing it
        is done, else it has failed. One that ends after its unit was to go (`unit.wanted` is false) has it given back. A worker that its agent knows no more, as that was started anew, has left. `Unreachable` says that no agent answers.
        A coroutine function is a `TypeError`: no call runs its body.
        """
        check_body(body, "`AsyncClient.work`")
        self._run(body, False)

    def _run(self, body: Callable[[Unit], Any], is_patient: bool) -> None:
        threads: List[threading.Thread] = []
        try:
            for unit in self._given(is_patient):
                threads = [thread for thread in threads if thread.is_alive()]
                thread = threading.Thread(target=_attend, args=(body, unit), name=f"tenure unit {unit.name}", daemon=True)
                # It has the unit from here on.
                del unit
                thread.start()
                threads.append(thread)
        except BaseException:
            self._tell_all_to_end()
            raise
        finally:
            for thread in threads:
                thread.join()

    def _tell_all_to_end(self) -> None:
        """Its units are to go."""
        with self._lock:
            for unit in self._units:
                unit._drain.set()

    def leave(self) -> None:
        """Takes no more units, and waits until those that it has are let go of, or their deadlines are over. A body that watches `unit.wanted` ends."""
        if not self._is_ours:
            return
        with self._lock:
            if self._has_left.is_set():
                return
            self._has_left.set()
            # They would hear it from the agent, with their next beat.
            for unit in self._units:
                unit._drain.set()
        self._leave(self._id)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self.leave()
        except AgentError:
            # What has ended the block says more than that no agent was there to be told.
            if error is None:
                raise


def goes_on_after(error: AgentError, is_patient: bool) -> bool:
    """Whether a worker asks for units again: while too many requests wait, and if it is patient, while no agent answers."""
    return may_pass(error) and (is_patient or (isinstance(error, Refused) and error.status == 429))


def _attend(body: Callable[[Unit], Any], unit: Unit) -> None:
    try:
        with unit:
            with exit_counts():
                called(lambda: body(unit))
    except Exception:
        has_failed(unit)


@contextlib.contextmanager
def exit_counts() -> Iterator[None]:
    """A body may be a script's `main`. `sys.exit` would end its thread in silence, or all of asyncio's program, so its status counts here as that of a program."""
    try:
        yield
    except SystemExit as exit:
        if exit.code not in (None, 0):
            raise RuntimeError(f"the body has called sys.exit({exit.code!r})") from exit


def has_failed(unit: Unit) -> None:
    """Logs the exception that came out of a body. The agent is told of it in short."""
    _log.exception("the work on the unit %s has raised", unit.key)
