"""Ticks and units of fleets for asyncio: as in `_once` and `_fleet`, with coroutines for bodies."""

from __future__ import annotations

import asyncio
import functools
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Generic, Mapping, Optional, Set, Type, TypeVar

from ._errors import AgentError, LeaseLost, Refused, may_pass
from ._fleet import Pauses, Unit, Worker, exit_counts, goes_on_after, has_failed
from ._lease import Lease
from ._once import Tick, runs_elsewhere
from ._wanted import in_thread

_L = TypeVar("_L", bound=Lease)


class _Held(Generic[_L]):
    """A lease whose ends are awaited. What is asked of it here needs no I/O."""

    def __init__(self, lease: _L) -> None:
        self._lease = lease

    @property
    def key(self) -> str:
        """The key that is held."""
        return self._lease.key

    @property
    def fence(self) -> int:
        """As `Lease.fence`."""
        return self._lease.fence

    @property
    def held(self) -> bool:
        """As `Lease.held`."""
        return self._lease.held

    @property
    def remaining(self) -> float:
        """As `Lease.remaining`."""
        return self._lease.remaining

    @property
    def reason(self) -> Optional[str]:
        """As `Lease.reason`."""
        return self._lease.reason

    @property
    def revoked(self) -> bool:
        """As `Lease.revoked`."""
        return self._lease.revoked

    def check(self) -> None:
        """As `Lease.check`."""
        self._lease.check()

    async def release(self) -> bool:
        """As `Lease.release`."""
        return await in_thread(self._lease.release)

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await in_thread(lambda: self._lease.__exit__(kind, error, trace))


class AsyncTick(_Held[Tick]):
    """As `Tick`, for asyncio."""

    async def end(self, is_well: bool = True, says: str = "") -> bool:
        """As `Tick.end`."""
        return await in_thread(lambda: self._lease.end(is_well, says))

    async def __aenter__(self) -> AsyncTick:
        self.check()
        return self


class AsyncOncePer:
    """As `OncePer`, for asyncio, from `AsyncClient.once_per`. As a decorator it makes a coroutine function run once per tick, over all hosts that call it."""

    def __init__(self, begin: Callable[[], Awaitable[Tick]]) -> None:
        self._begin = begin

    async def begin(self) -> Optional[AsyncTick]:
        """As `OncePer.begin`."""
        try:
            return AsyncTick(await self._begin())
        except Refused as error:
            if runs_elsewhere(error):
                return None
            raise

    def __call__(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[bool]]:
        """The function, which runs if the tick is to run here. It returns then whether it did. An exception that comes out of it is told as the tick's end."""

        @functools.wraps(function)
        async def once(*arguments: Any, **named: Any) -> bool:
            tick = await self.begin()
            if tick is None:
                return False
            async with tick:
                await function(*arguments, **named)
            return True

        return once


class AsyncUnit(_Held[Unit]):
    """As `Unit`, for asyncio."""

    @property
    def name(self) -> str:
        """Its name."""
        return self._lease.name

    @property
    def fields(self) -> Dict[str, str]:
        """As `Unit.fields`."""
        return self._lease.fields

    @property
    def draining(self) -> bool:
        """As `Unit.draining`."""
        return self._lease.draining

    @property
    def wanted(self) -> bool:
        """As `Unit.wanted`."""
        return self._lease.wanted

    async def done(self, fields: Optional[Mapping[str, str]] = None) -> bool:
        """As `Unit.done`."""
        return await in_thread(lambda: self._lease.done(fields))

    async def failed(self, says: str = "") -> bool:
        """As `Unit.failed`."""
        return await in_thread(lambda: self._lease.failed(says))

    async def checkpoint(self, value: str) -> None:
        """As `Unit.checkpoint`."""
        await in_thread(lambda: self._lease.checkpoint(value))

    async def __aenter__(self) -> AsyncUnit:
        self.check()
        return self


#: What is done for a unit.
Body = Callable[[AsyncUnit], Awaitable[Any]]


class AsyncWorker:
    """As `Worker`, for asyncio, from `AsyncClient.worker`."""

    def __init__(self, worker: Worker, next_unit: Callable[[str, float], Awaitable[Optional[Unit]]]) -> None:
        self._worker = worker
        self._next = next_unit

    @property
    def fleet(self) -> str:
        """The fleet that it is in."""
        return self._worker.fleet

    @property
    def holder(self) -> str:
        """Its name in the fleet."""
        return self._worker.holder

    async def next(self, wait: float = 0.0) -> Optional[AsyncUnit]:
        """As `Worker.next`. Who is cancelled meanwhile is given none."""
        self._worker._check()
        unit = await self._next(self._worker._id, wait)
        if unit is None:
            return None
        self._worker._know(unit)
        return AsyncUnit(unit)

    def units(self) -> AsyncIterator[AsyncUnit]:
        """As `Worker.units`."""
        return self._given(False)

    async def _given(self, is_patient: bool) -> AsyncIterator[AsyncUnit]:
        pauses, has_left = Pauses(), self._worker._has_left
        while self._worker._is_ours and not has_left.is_set():
            try:
                unit = await self.next(self._worker._pace)
            except LeaseLost:
                has_left.set()
                return
            except AgentError as error:
                if not goes_on_after(error, is_patient):
                    raise
                await asyncio.sleep(pauses.after(error, f"the fleet {self.fleet}"))
                continue
            pauses = Pauses()
            if unit is None:
                continue
            if has_left.is_set():
                await unit.release()
                return
            yield unit

    async def run(self, body: Body) -> None:
        """As `Worker.run`, with a task for each unit. Who is cancelled, or can't go on, cancels them and waits for them, and their units are given back."""
        await self._run(body, False)

    async def _run(self, body: Body, is_patient: bool) -> None:
        tasks: Set["asyncio.Task[None]"] = set()
        try:
            async for unit in self._given(is_patient):
                task = asyncio.ensure_future(_attend(body, unit))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(tasks)
        except (Exception, asyncio.CancelledError):
            self._worker._tell_all_to_end()
            for task in list(tasks):
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            raise

    async def leave(self) -> None:
        """As `Worker.leave`."""
        await in_thread(self._worker.leave)

    async def __aenter__(self) -> AsyncWorker:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            await self.leave()
        except AgentError:
            # What has ended the block says more than that no agent was there to be told.
            if error is None:
                raise


async def _attend(body: Body, unit: AsyncUnit) -> None:
    try:
        async with unit:
            with exit_counts():
                await body(unit)
    except Exception:
        has_failed(unit._lease)


async def work(join: Callable[[], Awaitable[AsyncWorker]], body: Body, stop: asyncio.Event) -> None:
    """A worker until `stop` is set, which joins anew when its agent was."""
    worker: Optional[AsyncWorker] = await join()
    while worker is not None:
        leaves = asyncio.ensure_future(_leave_when(stop, worker))
        try:
            async with worker:
                await worker._run(body, is_patient=True)
        finally:
            if not stop.is_set():
                leaves.cancel()
            await asyncio.wait([leaves])
        worker = await _join_again(join, stop, worker.fleet)


async def _leave_when(stop: asyncio.Event, worker: AsyncWorker) -> None:
    await stop.wait()
    try:
        await worker.leave()
    except AgentError:
        # No agent is there to be told: its units last until their deadlines.
        pass


async def _join_again(join: Callable[[], Awaitable[AsyncWorker]], stop: asyncio.Event, fleet: str) -> Optional[AsyncWorker]:
    pauses = Pauses()
    while not stop.is_set():
        try:
            return await join()
        except AgentError as error:
            if not may_pass(error):
                raise
            pause = pauses.after(error, f"the fleet {fleet}")
        await asyncio.sleep(pause)
    return None
