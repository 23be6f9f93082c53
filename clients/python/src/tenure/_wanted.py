"""What asyncio waits for in threads, and what becomes of it when nobody waits any more."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from types import TracebackType
from typing import Any, Callable, Generator, Generic, Optional, Type, TypeVar

from ._lease import Lease
from ._wire import Wire

_T = TypeVar("_T")
_L = TypeVar("_L", bound=Lease)


def in_thread(work: Callable[[], _T]) -> "asyncio.Future[_T]":
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


async def had(get: Callable[[Wire], _T], wire: Wire, give_back: Callable[[_T], Any]) -> _T:
    """What `get` gets. Who is cancelled meanwhile has it given back, should it be had all the same."""

    def get_now() -> _T:
        got = get(wire)
        if wire.is_aborted:
            # There may be no loop any more that would do it.
            give_back(got)
        return got

    def abandoned(future: "asyncio.Future[_T]") -> None:
        if not future.cancelled() and future.exception() is None:
            in_thread(lambda: give_back(future.result()))

    future = in_thread(get_now)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # The agent hears that nobody waits.
        wire.abort()
        future.add_done_callback(abandoned)
        raise


class Wanted(Generic[_L]):
    """A lease to be had: `await` gets it, `async with` gets it and gives it back."""

    def __init__(self, get: Callable[[Wire], _L], wire: Wire) -> None:
        self._get = get
        self._wire = wire
        self._lease: Optional[_L] = None

    def __await__(self) -> Generator[Any, None, _L]:
        return had(self._get, self._wire, lambda lease: lease.release()).__await__()

    async def __aenter__(self) -> _L:
        self._lease = await self
        return self._lease

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._lease is not None:
            await in_thread(self._lease.release)
