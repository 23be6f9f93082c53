"""What asyncio waits for in threads, and what becomes of it when nobody waits any more."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from types import TracebackType
from typing import Any, Callable, Coroutine, Generator, Generic, Optional, Protocol, Type, TypeVar

from ._lease import Lease

_T = TypeVar("_T")
_L = TypeVar("_L", bound=Lease)


class Way(Protocol):
    """How something is waited for, until somebody does not want that any more."""

    is_aborted: bool

    def abort(self) -> None: ...


_W = TypeVar("_W", bound=Way)


def in_thread(work: Callable[[], _T]) -> "asyncio.Future[_T]":
    """In a thread of its own. The loop's pool has few, and if all of them waited for a lease, nobody could give it back."""
    return asyncio.wrap_future(_started(work))


def _started(work: Callable[[], _T]) -> "concurrent.futures.Future[_T]":
    done: "concurrent.futures.Future[_T]" = concurrent.futures.Future()
    done.set_running_or_notify_cancel()

    def do() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=do, name="tenure asyncio", daemon=True).start()
    return done


async def had(get: Callable[[_W], _T], way: _W, give_back: Callable[[_T], Any]) -> _T:
    """What `get` gets. Who is cancelled meanwhile has it given back, should it be had all the same."""

    def get_now() -> _T:
        got = get(way)
        if way.is_aborted:
            # There may be no loop any more that would do it.
            give_back(got)
        return got

    def abandoned(getting: "concurrent.futures.Future[_T]") -> None:
        if getting.exception() is None:
            _started(lambda: give_back(getting.result()))

    getting = _started(get_now)
    future = asyncio.wrap_future(getting)
    # If nobody waits, nobody is to be told of its exception.
    future.add_done_callback(lambda future: future.cancelled() or future.exception())
    try:
        return await asyncio.shield(future)
    except (asyncio.CancelledError, GeneratorExit):
        # Whoever is asked hears that nobody waits. A coroutine may also be closed, by a loop that is there no more.
        way.abort()
        getting.add_done_callback(abandoned)
        raise


class Wanted(Generic[_L]):
    """A lease to be had: `await` gets it, `async with` gets it and gives it back. Each use gets another lease, one block at a time: each task has an object of its own.

    What `await` gets is a `Lease`, whose ends wait for the agent: `await asyncio.to_thread(lease.release)`, or the loop stands still meanwhile.
    """

    def __init__(self, get: Callable[[_W], _L], way: Callable[[], _W]) -> None:
        # Whoever is cancelled aborts the way of that use alone.
        self._had: Callable[[], Coroutine[Any, Any, _L]] = lambda: had(get, way(), lambda lease: lease.release())
        self._lease: Optional[_L] = None
        self._is_entered = False

    def __await__(self) -> Generator[Any, None, _L]:
        return self._had().__await__()

    async def __aenter__(self) -> _L:
        # Two blocks would give back the lease of one of them.
        if self._is_entered:
            raise RuntimeError("a block has this object already; each task is to ask the client for one of its own")
        self._is_entered = True
        try:
            lease = await self
            lease.check()
        except BaseException:
            self._is_entered = False
            raise
        self._lease = lease
        return lease

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        lease, self._lease = self._lease, None
        self._is_entered = False
        if lease is not None:
            await in_thread(lambda: lease.__exit__(kind, error, trace))
