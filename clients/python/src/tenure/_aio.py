"""The client for asyncio. What waits does so in a thread; `Lease.held` is the same."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import Any, AsyncIterator, Callable, Dict, Iterable, List, Mapping, Optional, TypeVar, Union

from . import _asks
from ._aio_work import AsyncOncePer, AsyncWorker, Body, _Held, work
from ._client import Client
from ._errors import AgentError, LeaseLost, may_pass
from ._fleet import Pauses, Unit, Worker
from ._lease import Lease, Ranges
from ._once import wish
from ._wanted import Wanted, had, in_thread
from ._wire import _PATIENCE, check_short_wait, check_wait

_L = TypeVar("_L", bound=Lease)


class AsyncClient:
    """As `Client`, for asyncio. `async with client.lease("k") as lease`, or `lease = await client.lease("k")`, which is given back by
    `await asyncio.to_thread(lease.release)`: the lease is that of `Client`, whose ends wait for the agent."""

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        on_exit: str = "lapse",
    ) -> None:
        self._client = Client(address, token=token, ca_file=ca_file, on_exit=on_exit)

    def _wanted(
        self,
        asked: _asks.Asked,
        wait: Optional[float],
        made: Callable[[str, int, Callable[[Lease], bool]], _L] = Lease,  # type: ignore[assignment]
    ) -> Wanted[_L]:
        check_wait(wait)
        client = self._client
        return Wanted(lambda wire: client._get(asked, wait, wire, made), lambda: client._wire_for(wait))

    def lease(
        self,
        key: str,
        *,
        wait: Optional[float] = 0.0,
        ttl: Optional[float] = None,
        at_most: Optional[float] = None,
        about: Optional[Mapping[str, str]] = None,
    ) -> Wanted[Lease]:
        """As `Client.lease`."""
        return self._wanted(_asks.lease(key, ttl, at_most, about), wait)

    def semaphore(
        self, name: str, permits: int, *, take: int = 1, wait: Optional[float] = 0.0, ttl: Optional[float] = None
    ) -> Wanted[Lease]:
        """As `Client.semaphore`."""
        return self._wanted(_asks.permits(name, permits, take, ttl), wait)

    def shared(self, name: str, *, wait: Optional[float] = 0.0, ttl: Optional[float] = None) -> Wanted[Lease]:
        """As `Client.shared`."""
        return self._wanted(_asks.mode(name, "shared", ttl), wait)

    def exclusive(self, name: str, *, wait: Optional[float] = 0.0, ttl: Optional[float] = None) -> Wanted[Lease]:
        """As `Client.exclusive`."""
        return self._wanted(_asks.mode(name, "exclusive", ttl), wait)

    def ranges(
        self, section: str, wanted: str, *, lasts: float, all: bool = False, wait: Optional[float] = 0.0
    ) -> Wanted[Ranges]:
        """As `Client.ranges`."""
        return self._wanted(_asks.ranges(section, wanted, lasts, all), wait, Ranges)

    def campaign(
        self,
        key: str,
        *,
        wait: Optional[float] = None,
        ttl: Optional[float] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> Wanted[Lease]:
        """As `Client.campaign`."""
        return self._wanted(_asks.leadership(key, ttl, labels), wait)

    async def leaderships(self, key: str, **options: Any) -> AsyncIterator[Lease]:
        """As `Client.leaderships`."""
        pauses = Pauses()
        while True:
            try:
                term = await self.campaign(key, **options)
            except AgentError as error:
                if not may_pass(error):
                    raise
                await asyncio.sleep(pauses.after(error, f"the leadership of {key}"))
                continue
            try:
                term.check()
            except LeaseLost as lost:
                # It was over before its block began, as after a suspension: nobody was elected.
                await in_thread(lambda: self._client._give_back(term))
                await asyncio.sleep(pauses.after(lost, f"the leadership of {key}"))
                continue
            pauses = Pauses()
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_exit(_Held(term).__aexit__)
                yield term

    def once_per(
        self,
        key: str,
        *,
        every: Optional[float] = None,
        tick: Union[datetime, float, None] = None,
        at_least_once: bool = False,
        wait: Optional[float] = 0.0,
        ttl: Optional[float] = None,
    ) -> AsyncOncePer:
        """As `Client.once_per`, for coroutine functions."""
        check_wait(wait)
        client, asked = self._client, wish(key, tick, every, at_least_once, ttl)
        return AsyncOncePer(
            lambda: had(lambda wire: client._begin_tick(asked, wait, wire), client._wire_for(wait), lambda tick: tick.release())
        )

    async def worker(self, fleet: str, **options: Any) -> AsyncWorker:
        """As `Client.worker`, with its options."""
        client = self._client
        joined = await had(lambda _: client.worker(fleet, **options), client._wire(None), Worker.leave)
        return AsyncWorker(joined, self._next_unit)

    async def _next_unit(self, worker: str, wait: float) -> Optional[Unit]:
        check_short_wait(wait)
        client = self._client
        return await had(
            lambda wire: client._next_unit(worker, wait, wire),
            client._wire(wait + _PATIENCE),
            lambda unit: unit is not None and unit.release(),
        )

    async def work(self, fleet: str, body: Body, *, stop: Optional[asyncio.Event] = None, units: Iterable[str] = (), **options: Any) -> None:
        """As `Client.work`: awaits `body` in a task for each unit that this process is given. Who is cancelled cancels them, and leaves the fleet."""
        names = _asks.texts("units", units)
        await work(lambda: self.worker(fleet, units=names, **options), body, stop or asyncio.Event())

    async def leader(self, key: str) -> Optional[Dict[str, Any]]:
        """As `Client.leader`."""
        return await in_thread(lambda: self._client.leader(key))

    async def list(self, prefix: str = "") -> List[Dict[str, Any]]:
        """As `Client.list`, all at once."""
        return await in_thread(lambda: list(self._client.list(prefix)))

    async def close(self) -> None:
        """Gives all back."""
        await in_thread(self._client.close)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
