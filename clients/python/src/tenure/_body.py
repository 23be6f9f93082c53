"""What is called for a unit or a tick: its call has to do the work."""

from __future__ import annotations

import inspect
from typing import Any, Callable


def check_body(body: Callable[..., Any], remedy: str) -> None:
    """Raises `TypeError` for one whose call only makes what somebody else is to run."""
    for made in (body, getattr(body, "__call__", None)):
        if inspect.iscoroutinefunction(made) or inspect.isasyncgenfunction(made):
            raise TypeError(f"{body!r} is a coroutine function, which nothing here awaits; {remedy} does")
        if inspect.isgeneratorfunction(made):
            raise TypeError(f"{body!r} is a generator function, whose body no call runs; give a function that does the work")


def called(call: Callable[[], Any]) -> None:
    """Calls it. What it makes to be awaited, or to be gone through, has done nothing: `TypeError`."""
    made = call()
    if inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            # Or Python warns that nobody has awaited it.
            made.close()
        raise TypeError(f"the body returns {type(made).__name__!r}, which nothing here awaits; give a function that does the work, or use AsyncClient")
    if inspect.isgenerator(made) or inspect.isasyncgen(made):
        raise TypeError(f"the body returns {type(made).__name__!r}, whose steps nothing here runs; give a function that does the work")
