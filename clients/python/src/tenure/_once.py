"""What runs once per tick over all hosts."""

from __future__ import annotations

import functools
import math
from datetime import datetime
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Type, TypeVar, Union

from ._asks import raised, said, timed
from ._body import called, check_body
from ._errors import Refused
from ._lease import Lease

_F = TypeVar("_F", bound=Callable[..., Any])


class Tick(Lease):
    """A tick that runs here: the lease that it runs under, and the duty to tell its end.

    As a context manager it ends well, or not well when an exception comes out.
    """

    _say: Callable[[Tick, str, str, str, Dict[str, Any]], bool]

    def end(self, is_well: bool = True, says: str = "") -> bool:
        """It has ended, well or not, with this to be said of it, of which 200 bytes are kept. False: its lease was lost before, or no agent answered, so that nobody
        knows. Raises `Refused` if the agent says no."""
        body = {"is_well": is_well, "says": said(says)}
        return self._is_ours and self._say(self, "it has ended", "POST", f"/v1/once/{self.id}/end", body)

    def __enter__(self) -> Tick:
        self.check()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None:
            self._end_block(self.end, error)
        elif isinstance(error, Exception):
            says = raised(error)
            self._end_block(lambda: self.end(False, says), error)
        else:
            # Ctrl-C: what is to run at least once is run again.
            self._end_block(self.release, error)


class OncePer:
    """A schedule of one key, from `Client.once_per`. As a decorator it makes a function run once per tick, over all hosts that call it."""

    def __init__(self, begin: Callable[[Dict[str, Any]], Tick], wish: Dict[str, Any]) -> None:
        self._begin = begin
        self._wish = wish

    def begin(self) -> Optional[Tick]:
        """The tick that is due, if it is to run here; None if it has run, or runs, elsewhere."""
        try:
            return self._begin(self._wish)
        except Refused as error:
            if runs_elsewhere(error):
                return None
            raise

    def __call__(self, function: _F) -> Callable[..., bool]:
        """The function, which runs if the tick is to run here. It returns then whether it did. An exception that comes out of it is told as the tick's end.
        Raises `TypeError` for a coroutine function, whose body no call runs."""
        check_body(function, "`AsyncClient.once_per`")

        @functools.wraps(function)
        def once(*arguments: Any, **named: Any) -> bool:
            tick = self.begin()
            if tick is None:
                return False
            with tick:
                called(lambda: function(*arguments, **named))
            return True

        return once


def runs_elsewhere(error: Refused) -> bool:
    """Whether it says that the tick has run, or runs, and so need not here."""
    return error.code in ("held", "ran")


def wish(key: str, tick: Union[datetime, float, None], every: Optional[float], at_least_once: bool, ttl: Optional[float]) -> Dict[str, Any]:
    """What is asked of the agent."""
    if (tick is None) == (every is None):
        raise ValueError("say either `every`, how many seconds ticks are apart, or `tick`, when it is scheduled for")
    asked = timed(ttl, None, key=key, at_least_once=at_least_once)
    if every is not None:
        if not 0.001 <= every < math.inf:
            raise ValueError(f"every is {every!r}; it must be seconds, a thousandth at the least, and not without end")
        asked["every_ms"] = round(every * 1000)
    elif tick is not None:
        asked["tick_ms"] = _tick_ms(tick)
    return asked


def _tick_ms(tick: Union[datetime, float]) -> int:
    if isinstance(tick, datetime):
        if tick.tzinfo is None:
            raise ValueError("the tick names no time zone; add one, as datetime.timezone.utc, or hosts may mean different times")
        tick = tick.timestamp()
    if not 0 <= tick < math.inf:
        raise ValueError(f"tick is {tick!r}; it must be a time since 1970: a datetime with its time zone, or seconds since then")
    return round(tick * 1000)
