"""The client for asyncio. What waits does so in a thread; `Lease.held` is the same."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Dict, Generator, List, Mapping, Optional, Type, TypeVar
from urllib.parse import quote

from ._client import Client, _wish
from ._lease import Lease
from ._wire import Wire, check_wait

_T = TypeVar("_T")


def _in_thread(work: Callable[[], _T]) -> "asyncio.Future[_T]":
    """In a thread of its own. The loop's pool has few, and if all of them waited for a lease, nobody could give it back."""
    done: "concurrent.futures.Future[_T]" = concurrent.futures.Future()
    done.set_running_or_notify_cancel()

    def do() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=do, name="tenure asyncio", daemon=True).start()
    return asyncio.wrap_future(done)


class _Wanted:
    """A lease to be had: `await` gets it, `async with` gets it and gives it back."""

    def __init__(self, get: Callable[[Wire], Lease], wire: Wire) -> None:
        self._get = get
        self._wire = wire
        self._lease: Optional[Lease] = None

    async def _had(self) -> Lease:
        future = _in_thread(self._get_now)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # The agent hears that nobody waits; what was had all the same is given back.
            self._wire.abort()
            future.add_done_callback(_give_back)
            raise

    def _get_now(self) -> Lease:
        lease = self._get(self._wire)
        if self._wire.is_aborted:
            # There may be no loop any more that would do it.
            lease.release()
        return lease

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._had().__await__()

    async def __aenter__(self) -> Lease:
        self._lease = await self._had()
        return self._lease

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._lease is not None:
            await _in_thread(self._lease.release)


def _give_back(future: "asyncio.Future[Lease]") -> None:
    if not future.cancelled() and future.exception() is None:
        _in_thread(future.result().release)


class AsyncClient:
    """As `Client`, for asyncio. `async with client.lease("k") as lease`, or `lease = await client.lease("k")`."""

    def __init__(self, address: Optional[str] = None, *, token: Optional[str] = None, on_exit: str = "lapse") -> None:
        self._client = Client(address, token=token, on_exit=on_exit)

    def _wanted(self, path: str, body: Dict[str, Any], wait: Optional[float]) -> _Wanted:
        check_wait(wait)
        client = self._client
        return _Wanted(lambda wire: client._get(path, body, wait, wire), client._wire(None))

    def lease(
        self,
        key: str,
        *,
        wait: Optional[float] = 0.0,
        ttl: Optional[float] = None,
        at_most: Optional[float] = None,
        about: Optional[Mapping[str, str]] = None,
    ) -> _Wanted:
        """As `Client.lease`."""
        return self._wanted("/v1/leases", _wish(ttl, at_most, key=key, about=dict(about or {})), wait)

    def semaphore(self, name: str, permits: int, *, take: int = 1, wait: Optional[float] = 0.0) -> _Wanted:
        """As `Client.semaphore`."""
        return self._wanted("/v1/semaphores", _wish(None, None, name=name, permits=permits, take=take), wait)

    def campaign(self, key: str, *, wait: Optional[float] = None, labels: Optional[Mapping[str, str]] = None) -> _Wanted:
        """As `Client.campaign`."""
        path = f"/v1/elections/{quote(key, safe='')}/campaign"
        return self._wanted(path, _wish(None, None, labels=dict(labels or {})), wait)

    async def leaderships(self, key: str, **options: Any) -> AsyncIterator[Lease]:
        """As `Client.leaderships`."""
        while True:
            async with self.campaign(key, **options) as term:
                yield term

    async def leader(self, key: str) -> Optional[Dict[str, Any]]:
        """As `Client.leader`."""
        return await _in_thread(lambda: self._client.leader(key))

    async def list(self, prefix: str = "") -> List[Dict[str, Any]]:
        """As `Client.list`, all at once."""
        return await _in_thread(lambda: list(self._client.list(prefix)))

    async def close(self) -> None:
        """Gives all back."""
        await _in_thread(self._client.close)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
