"""A client of the agent: leases, permits and leaderships, kept by one thread in the background."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from datetime import datetime
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, TypeVar, Union
from urllib.parse import quote

from . import _asks
from ._body import check_body
from ._clock import boottime_ns
from ._errors import AgentError, Closed, HeldByAnother, LeaseLost, Refused, Unreachable, may_pass
from ._fleet import Pauses, Unit, Worker
from ._lease import Lease, Ranges, of_kind
from ._once import OncePer, Tick, wish
from ._wire import _PATIENCE, Wire, check_short_wait, check_wait, checked_token, default_address, is_socket, reading, trust

#: Leases in one request.
_MOST_BEATS = 1000
#: The longest that one request waits, by the agent's own rule. A longer wait is several, and each of them has a new place in the queue.
_LONGEST_WAIT = 24 * 60 * 60.0
#: An agent that has said nothing for longer is asked whether it is there.
_LONGEST_SILENCE = 60.0
#: The thread that prolongs ends when there was nothing for so long.
_IDLE_NS = 5_000_000_000
#: A beat's answer is waited for so long at least, however little time is left.
_LEAST_PATIENCE = 0.05
#: The answer to an end, also when the deadline is over: an agent that is there answers.
_LEAST_FOR_END = 0.1
#: Those of this process.
_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _forked() -> None:
    for client in list(_clients):
        client._begin()


os.register_at_fork(after_in_child=_forked)


_L = TypeVar("_L", bound=Lease)
_log = logging.getLogger("tenure")


class Client:
    """Takes leases from the agent at `address`: `unix:PATH`, `http://127.0.0.1:PORT` or `https://HOST:PORT`, by default that of `TENURE_AGENT`, or of
    `tenure serve` without options. May be used by any number of threads.

    `token`: by default that of `TENURE_TOKEN`. `ca_file`: the authority that an agent with TLS is believed by, as a PEM file; by default the system's.

    `on_exit`: "lapse" (the default) or "release", which gives leases back as soon as this process ends, however it does. That is for a process that does
    all of its work itself, and reaches the agent without a relay: what it has started would otherwise be at work beside the next holder, and a relay's end
    counts as its own. An agent can't see the end of a process that comes over TCP, so "lapse" holds there, and a warning is logged.

    `ttl` of all that is asked for: for how many seconds a lease outlasts its last beat. The agent cuts it to its own (`tenure serve --ttl`), which is the usual one.
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        on_exit: str = "lapse",
    ) -> None:
        if on_exit not in ("lapse", "release"):
            raise ValueError(f"on_exit is {on_exit!r}; it must be 'lapse' or 'release'")
        self._address = address or default_address()
        self._token = checked_token(token if token is not None else os.environ.get("TENURE_TOKEN"))
        self._tls = trust(self._address, ca_file)
        self._is_local = is_socket(self._address)
        self._on_exit = on_exit
        self._is_warned = False
        self._is_closed = False
        self._begin()
        # What is wrong with the address is told now.
        self._wire(None)
        _clients.add(self)

    def _begin(self) -> None:
        """Holds nothing. A forked child has none of its parent's leases, no thread that keeps them, and a lock that such a thread may hold for ever."""
        self._lock = threading.Condition()
        # One that no caller has any more is not kept: nobody could give it back.
        self._held: "weakref.WeakValueDictionary[str, Lease]" = weakref.WeakValueDictionary()
        # An open connection while something is held. A full agent may have no place for another.
        self._kept: Optional[Wire] = None
        # How many requests tell of an end now.
        self._ends = 0
        self._keeper: Optional[threading.Thread] = None

    def lease(
        self,
        key: str,
        *,
        wait: Optional[float] = 0.0,
        ttl: Optional[float] = None,
        at_most: Optional[float] = None,
        about: Optional[Mapping[str, str]] = None,
    ) -> Lease:
        """The lease on `key`. Waits for it for `wait` seconds (None: for ever), and raises `HeldByAnother` if another has it then.

        `ttl`: for how many seconds it outlasts its last beat, cut to the agent's own ttl. `at_most`: after so many seconds it is prolonged no more. `about`: texts by
        name in its record, for whoever looks at it, as by `tenure show`."""
        return self._get(_asks.lease(key, ttl, at_most, about), wait)

    def semaphore(
        self, name: str, permits: int, *, take: int = 1, wait: Optional[float] = 0.0, ttl: Optional[float] = None
    ) -> Lease:
        """So many of the permits of `name`, of which there are `permits`."""
        return self._get(_asks.permits(name, permits, take, ttl), wait)

    def shared(self, name: str, *, wait: Optional[float] = 0.0, ttl: Optional[float] = None) -> Lease:
        """`name` beside other readers."""
        return self._get(_asks.mode(name, "shared", ttl), wait)

    def exclusive(self, name: str, *, wait: Optional[float] = 0.0, ttl: Optional[float] = None) -> Lease:
        """`name` beside nobody, in turn."""
        return self._get(_asks.mode(name, "exclusive", ttl), wait)

    def ranges(
        self, section: str, wanted: str, *, lasts: float, all: bool = False, wait: Optional[float] = 0.0
    ) -> Ranges:
        """What nobody else has of the keys `wanted` (LOW_HIGH in hexadecimal digits, the high end excluded), for `lasts` seconds (a day at most), which nothing prolongs; `all`: all
        of it or nothing. Raises `HeldByAnother` if there is nothing to have."""
        return self._get(_asks.ranges(section, wanted, lasts, all), wait, made=Ranges)

    def campaign(
        self,
        key: str,
        *,
        wait: Optional[float] = None,
        ttl: Optional[float] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> Lease:
        """Waits until this client leads `key`. `labels` is what others see of the leader."""
        return self._get(_asks.leadership(key, ttl, labels), wait)

    def leaderships(self, key: str, **options: Any) -> Iterator[Lease]:
        """For ever: each time that this client is elected. The leadership is given up when the loop's body ends. An agent that is away is waited for."""
        pauses = Pauses()
        while True:
            try:
                term = self.campaign(key, **options)
            except AgentError as error:
                if not may_pass(error):
                    raise
                time.sleep(pauses.after(error, f"the leadership of {key}"))
                continue
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(term)
                except LeaseLost as lost:
                    # It was over before its block began, as after a suspension: nobody was elected.
                    self._give_back(term)
                    time.sleep(pauses.after(lost, f"the leadership of {key}"))
                    continue
                pauses = Pauses()
                yield term

    def leader(self, key: str) -> Optional[Dict[str, Any]]:
        """Who leads `key` now; None if nobody does. `about` has the labels of its `campaign`, and is missing if there are none, as of a plain lease."""
        try:
            return self._ask("GET", f"/v1/elections/{quote(key, safe='')}/leader")
        except LeaseLost:
            return None

    def once_per(
        self,
        key: str,
        *,
        every: Optional[float] = None,
        tick: Union[datetime, float, None] = None,
        at_least_once: bool = False,
        wait: Optional[float] = 0.0,
        ttl: Optional[float] = None,
    ) -> OncePer:
        """What runs for `key` once per tick, over all hosts: the last tick that is due of those that are `every` seconds apart (counted from 1970 in UTC), or the
        one that is scheduled for `tick`. A tick runs once at the most; with `at_least_once` one whose end nobody told is run again, by whoever asks for it."""
        check_wait(wait)
        return OncePer(lambda asked: self._begin_tick(asked, wait), wish(key, tick, every, at_least_once, ttl))

    def _begin_tick(self, asked: Dict[str, Any], wait: Optional[float], wire: Optional[Wire] = None) -> Tick:
        tick = self._get(("/v1/once", asked), wait, wire, made=Tick)
        tick._say = self._end
        return tick

    def worker(
        self,
        fleet: str,
        *,
        units: Iterable[str] = (),
        weights: Optional[Mapping[str, int]] = None,
        needs: Optional[Mapping[str, Iterable[str]]] = None,
        most_units: Optional[int] = None,
        most_weight: Optional[int] = None,
        balance: str = "count",
        labels: Iterable[str] = (),
        ttl: Optional[float] = None,
        drain: Optional[float] = None,
        about: Optional[Mapping[str, str]] = None,
    ) -> Worker:
        """Makes this process a worker of `fleet`, which is to have these `units`. `weights`: what those weigh that do not weigh 1. `needs`: labels that a unit's
        worker must have. `balance`: whether the "count" of units or their "weight" is evened out; all workers of a fleet say the same. `drain`: how many seconds the work on a unit may take to end when the unit
        is to go to another worker. See `Worker.run`, or `Client.work` for all of it."""
        names, has = _asks.texts("units", units), _asks.texts("labels", labels)
        body = _asks.timed(ttl, None, units=names, labels=has, about=dict(about or {}), balance=balance)
        body["weights"] = dict(weights or {})
        body["needs"] = {unit: _asks.texts(f"needs[{unit!r}]", wanted) for unit, wanted in (needs or {}).items()}
        if most_units is not None:
            body["most_units"] = most_units
        if most_weight is not None:
            body["most_weight"] = most_weight
        if drain is not None:
            body["drain_ms"] = _asks.millis("drain", drain)
        body["on_exit"] = self._on_exit
        try:
            joined = self._ask("POST", f"/v1/fleets/{quote(fleet, safe='')}/workers", body)
        except Refused as error:
            if error.status != 413:
                raise
            remedy = f"add so many units by `tenure fleet add {fleet} UNIT...`, and join without `units`"
            raise Refused(f"{error}; {remedy}", error.code, error.status) from None
        with reading():
            worker = Worker(joined, self._next_unit, self._leave_fleet)
        return worker

    def work(self, fleet: str, body: Callable[[Unit], Any], *, stop: Optional[threading.Event] = None, **options: Any) -> None:
        """Runs `body` in a thread for each unit of `fleet` that this process is given, until `stop` is set, and leaves the fleet then. `options`: as of `worker`.

        An agent that is away is waited for, once this process has joined. One that was started anew knows nothing of its worker: it joins again when all
        bodies have ended, whose units are lost by then (`unit.wanted` is false)."""
        check_body(body, "`AsyncClient.work`")
        options["units"] = _asks.texts("units", options.get("units", ()))
        stop = stop or threading.Event()
        worker: Optional[Worker] = self.worker(fleet, **options)
        while worker is not None:
            with worker:
                threading.Thread(target=_leave_when, args=(stop, worker), name="tenure stop", daemon=True).start()
                worker._run(body, is_patient=True)
            worker = self._join_again(fleet, options, stop)

    def _join_again(self, fleet: str, options: Dict[str, Any], stop: threading.Event) -> Optional[Worker]:
        pauses = Pauses()
        while not stop.is_set():
            try:
                return self.worker(fleet, **options)
            except AgentError as error:
                if not may_pass(error):
                    raise
                pause = pauses.after(error, f"the fleet {fleet}")
            stop.wait(pause)
        return None

    def _next_unit(self, worker: str, wait: float, wire: Optional[Wire] = None) -> Optional[Unit]:
        check_short_wait(wait)
        wire = wire or self._wire(wait + _PATIENCE)
        try:
            sent_ns = boottime_ns()
            told = wire.ask("POST", f"/v1/workers/{worker}/next", {"wait_ms": int(wait * 1000)})
            if not told:
                return None
            with reading():
                unit = Unit(told, self._end, self._ask_by_kept)
            if self._counts_on(unit, told, sent_ns, wire):
                self._keep(unit, wire)
                return unit
            unit.release()
            return None
        finally:
            wire.close()

    def _leave_fleet(self, worker: str) -> None:
        pauses, end_ns = Pauses(), boottime_ns() + int(_PATIENCE * 1e9)
        while True:
            # Units that nobody lets go of last until their deadlines.
            wire = self._wire(_LONGEST_SILENCE)
            try:
                wire.ask("DELETE", f"/v1/workers/{worker}", patience=_LONGEST_WAIT)
                return
            except LeaseLost:
                return
            except Closed:
                # A full agent. A worker that nobody asks for leaves by itself in the end.
                if boottime_ns() >= end_ns:
                    raise
            finally:
                wire.close()
            time.sleep(pauses.next())

    def list(self, prefix: str = "") -> Iterator[Dict[str, Any]]:
        """The store's records whose keys begin so, whoever holds them."""
        path = f"/v1/leases?limit=1000&prefix={quote(prefix, safe='')}"
        after = ""
        while True:
            page = self._ask("GET", path + after)
            with reading():
                rows = [of_kind(row, dict) for row in page["leases"]]
                further = quote(page["next"], safe="") if "next" in page else None
            yield from rows
            if further is None:
                return
            after = f"&after={further}"

    def close(self) -> None:
        """Gives all back."""
        with self._lock:
            self._is_closed = True
            held = list(self._held.values())
            self._lock.notify_all()
        refused: Optional[Refused] = None
        for lease in held:
            try:
                lease.release()
            except Refused as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.close()
        except Refused:
            # What has ended the block says more.
            if error is None:
                raise

    def _wire_for(self, wait: Optional[float]) -> Wire:
        """For requests that wait for so long: an agent that is stopped answers none of them."""
        return self._wire(_LONGEST_SILENCE if wait is None else min(wait + _PATIENCE, _LONGEST_SILENCE))

    def _wire(self, timeout: Optional[float]) -> Wire:
        return Wire(self._address, self._token, timeout, self._tls)

    def _ask(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        wire = self._wire(_PATIENCE)
        try:
            return wire.ask(method, path, body)
        finally:
            wire.close()

    def _get(
        self,
        asked: _asks.Asked,
        wait: Optional[float],
        wire: Optional[Wire] = None,
        made: Callable[[str, int, Callable[[Lease], bool]], _L] = Lease,  # type: ignore[assignment]
    ) -> _L:
        check_wait(wait)
        path, body = asked
        end_ns = None if wait is None or wait == math.inf else boottime_ns() + int(wait * 1e9)
        wire = wire or self._wire_for(wait)
        try:
            while True:
                left = _LONGEST_WAIT if end_ns is None else max(0.0, (end_ns - boottime_ns()) / 1e9)
                part = min(left, _LONGEST_WAIT)
                sent_ns = boottime_ns()
                try:
                    sent = {**body, "wait_ms": int(part * 1000), "on_exit": self._on_exit}
                    told = wire.ask("POST", path, sent, patience=part + _PATIENCE)
                except HeldByAnother:
                    if end_ns is not None and boottime_ns() >= end_ns:
                        raise
                    continue
                with reading():
                    lease = made(of_kind(told["key"], str), of_kind(told["fence"], int), self._release)
                if self._counts_on(lease, told, sent_ns, wire):
                    self._keep(lease, wire)
                    return lease
                why = lease.reason or "its deadline was over when its agent's answer came"
                lease.release()
                if end_ns is not None and boottime_ns() >= end_ns:
                    raise LeaseLost(f"{lease.key}: {why}")
        finally:
            wire.close()

    def _counts_on(self, lease: Lease, told: Dict[str, Any], sent_ns: int, wire: Wire) -> bool:
        """Takes the answer to a request that may have waited for long; false if nothing is held by it any more.

        By another clock than the agent's, all of the wait counts as time that is gone. A beat, which is answered at once, tells anew what is left. It goes by the
        connection that was answered: a full agent may have no place for another.
        """
        with reading():
            lease._told(told, sent_ns, self._is_local)
            is_late = lease.remaining * 1000 < told["beat_in_ms"]
        if not self._is_warned and told.get("on_exit", self._on_exit) != self._on_exit:
            self._is_warned = True
            _log.warning("%s lasts until its deadline when this process ends: the agent can't see that end by %s, only by a Unix socket", lease.key, self._address)
        if is_late:
            self._beat(wire, [lease])
        return lease.held

    def _keep(self, lease: Lease, wire: Wire) -> None:
        """Prolongs it from now on, by the connection that was answered."""
        try:
            with self._lock:
                self._held[lease.id] = lease
                if self._keeper is None or not self._keeper.is_alive():
                    self._keeper = threading.Thread(target=self._keep_all, name="tenure", daemon=True)
                    self._keeper.start()
                self._lock.notify_all()
            # Whoever waits for it in asyncio may be cancelled yet, which is to end nothing of this.
            self._put_back(wire.given_on())
        except BaseException:
            # A signal's exception, too: whoever asked for it does not get it.
            self._drop(lease, "who asked for it was interrupted")
            threading.Thread(target=self._give_back, args=(lease,), name="tenure end", daemon=True).start()
            raise

    def _give_back(self, lease: Lease) -> None:
        try:
            self._release(lease)
        except AgentError:
            # It lapses at its deadline.
            pass

    def _take(self) -> Wire:
        """The connection that is kept, or another."""
        with self._lock:
            wire, self._kept = self._kept, None
        if wire is None:
            return self._wire(_PATIENCE)
        wire.set_timeout(_PATIENCE)
        return wire

    def _put_back(self, wire: Wire) -> None:
        """It is kept for as long as there is something that needs one. One in the midst of a request, as a signal's exception leaves it, is of no more use."""
        with self._lock:
            if self._kept is None and wire.is_idle and (self._held or self._ends):
                self._kept = wire
                return
        wire.close()

    def _ask_by_kept(self, lease: Lease, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Asks for something of a lease that may be asked for twice. A full agent, which has closed the connection, is asked until the lease is over
        by itself, and for a while at the most."""
        pauses, end_ns = Pauses(), min(lease._deadline_ns, boottime_ns() + int(_PATIENCE * 1e9))
        while True:
            wire = self._take()
            # An agent that stands still is of no use once the lease is over.
            wire.set_timeout(max(_LEAST_FOR_END, min(_PATIENCE, (lease._deadline_ns - boottime_ns()) / 1e9)))
            try:
                return wire.ask(method, path, body)
            except Closed:
                left = (end_ns - boottime_ns()) / 1e9
                if left <= 0:
                    raise
            finally:
                self._put_back(wire)
            time.sleep(min(left, pauses.next()))

    def _release(self, lease: Lease) -> bool:
        return self._end(lease, "it was released", "DELETE", f"/v1/leases/{lease.id}")

    def _end(self, lease: Lease, why: str, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> bool:
        """Tells the agent that this process is done with it, and how. It is not held from here on, whatever becomes of the request: if that fails, it lapses at
        its deadline, and no end is told of it. A refusal is raised."""
        with self._lock:
            self._ends += 1
        try:
            self._drop(lease, why, is_let_go=True)
            told = self._ask_by_kept(lease, method, path, body)
            with reading():
                is_released = of_kind(told["released"], bool)
            return is_released
        except (Unreachable, LeaseLost, OSError):
            return False
        except Refused as error:
            if may_pass(error):
                return False
            raise
        finally:
            with self._lock:
                self._ends -= 1
            self._leave_idle()

    def _leave_idle(self) -> None:
        """Whoever has nothing leaves its place in the agent to others."""
        with self._lock:
            wire = None
            if not self._held and not self._ends:
                wire, self._kept = self._kept, None
        if wire is not None:
            wire.close()

    def _keep_all(self) -> None:
        while self._beat_all(self._wait_for_due()):
            self._leave_idle()

    def _wait_for_due(self) -> List[Lease]:
        """What is to be prolonged now; nothing when this thread ends, since nothing was held for a while."""
        idle_from_ns: Optional[int] = None
        with self._lock:
            while True:
                # Nothing here outlasts the wait, so that what nobody else has goes.
                now, wait = boottime_ns(), 1.0
                held = list(self._held.values())
                if held:
                    idle_from_ns = None
                else:
                    self._leave_idle()
                    idle_from_ns = idle_from_ns or now
                    if self._is_closed or now - idle_from_ns >= _IDLE_NS:
                        # Whoever has something from here on starts another. A client that nobody has any more goes.
                        self._keeper = None
                        return []
                next_ns = min((lease._beat_at_ns for lease in held), default=None)
                if next_ns is not None and next_ns <= now:
                    # What is due soon goes along.
                    soon = now + max(0, min(lease._deadline_ns - now for lease in held) // 8)
                    return [lease for lease in held if lease._beat_at_ns <= soon]
                if next_ns is not None:
                    wait = min(wait, (next_ns - now) / 1e9)
                del held
                # The wait's clock may stand still while the machine is suspended.
                self._lock.wait(wait)

    def _beat_all(self, due: List[Lease]) -> bool:
        if not due:
            return False
        # A connection may be dead without a sign. Time is left then to make another, before the first of these is over.
        left = (min(lease._deadline_ns for lease in due) - boottime_ns()) / 1e9
        wire = self._take()
        wire.set_timeout(min(_PATIENCE, max(_LEAST_PATIENCE, left / 2)))
        for first in range(0, len(due), _MOST_BEATS):
            self._beat(wire, due[first : first + _MOST_BEATS])
        self._put_back(wire)
        return True

    def _beat(self, wire: Wire, due: List[Lease]) -> None:
        sent_ns = boottime_ns()
        try:
            told = wire.ask("POST", "/v1/beats", {"ids": [lease.id for lease in due]})
            with reading():
                answers = of_kind(told["leases"], list)
        except (AgentError, OSError) as error:
            self._not_beaten(due, str(error))
            return
        for place, lease in enumerate(due):
            try:
                # One that has no answer is not beaten.
                with reading():
                    self._hear(lease, of_kind(answers[place], dict), sent_ns)
            except Refused as error:
                self._not_beaten([lease], str(error))

    def _hear(self, lease: Lease, told: Dict[str, Any], sent_ns: int) -> None:
        if "over" not in told:
            lease._told(told, sent_ns, self._is_local)
        elif told.get("code") == "stopping":
            # What was told holds until then.
            self._not_beaten([lease], of_kind(told["over"], str))
        else:
            self._drop(lease, of_kind(told["over"], str))

    def _not_beaten(self, due: List[Lease], why: str) -> None:
        """Tried again soon, until it is over."""
        now = boottime_ns()
        for lease in due:
            left = lease._deadline_ns - now
            if left <= 0:
                self._drop(lease, f"no beat was answered by its deadline: {why}")
            else:
                lease._beat_at_ns = now + max(left // 4, 5_000_000)

    def _drop(self, lease: Lease, why: str, *, is_let_go: bool = False) -> None:
        with self._lock:
            self._held.pop(lease.id, None)
        lease._over(why, is_let_go=is_let_go)


def _leave_when(stop: threading.Event, worker: Worker) -> None:
    # The worker may leave by itself before.
    while not stop.wait(0.1):
        if worker._has_left.is_set():
            return
    try:
        worker.leave()
    except AgentError:
        # No agent is there to be told: its units last until their deadlines.
        pass
