"""What the agent is asked for, as path and body: for clients of both kinds."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple
from urllib.parse import quote

Asked = Tuple[str, Dict[str, Any]]


#: What to do about a time that is none.
_REMEDIES = {
    "ttl": "leave it out for the usual one",
    "at_most": "leave it out to hold it for as long as it is wanted",
    "lasts": "a day is the most",
    "drain": "leave it out for the usual one",
}


def millis(name: str, seconds: float) -> int:
    """Raises `ValueError` unless it is a time: neither an agent nor a program is asked for what is none."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{name} is {seconds!r}; it must be seconds, and not without end: {_REMEDIES[name]}")
    return int(seconds * 1000)


def timed(ttl: Optional[float], at_most: Optional[float], **fields: Any) -> Dict[str, Any]:
    """These fields, and the times that are given, in seconds."""
    if ttl is not None:
        fields["ttl_ms"] = millis("ttl", ttl)
    if at_most is not None:
        fields["at_most_ms"] = millis("at_most", at_most)
    return fields


def texts(name: str, values: Iterable[str]) -> List[str]:
    """Raises `TypeError` for a text alone, which would be taken letter by letter."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is {values!r}; it must be a list of texts, such as [{values!r}]")
    return list(values)


#: The agent keeps 200 bytes of it, and bears no request of any length.
_MOST_SAID = 1000


def said(text: str) -> str:
    """What is to be said of an end: in short, and as text that can be sent."""
    return str(text)[:_MOST_SAID].encode("utf-8", "replace").decode()


def raised(error: BaseException) -> str:
    """What is to be said of an exception. It may have no text."""
    try:
        return said(repr(error))
    except Exception:
        return type(error).__name__


def lease(key: str, ttl: Optional[float], at_most: Optional[float], about: Optional[Mapping[str, str]]) -> Asked:
    return "/v1/leases", timed(ttl, at_most, key=key, about=dict(about or {}))


def permits(name: str, permits: int, take: int, ttl: Optional[float]) -> Asked:
    return "/v1/semaphores", timed(ttl, None, name=name, permits=permits, take=take)


def mode(name: str, mode: str, ttl: Optional[float]) -> Asked:
    return "/v1/semaphores", timed(ttl, None, name=name, mode=mode)


def ranges(section: str, wanted: str, lasts: float, all: bool) -> Asked:
    body = {"range": wanted, "for_ms": millis("lasts", lasts), "all": all}
    return f"/v1/sections/{quote(section, safe='')}/leases", body


def leadership(key: str, ttl: Optional[float], labels: Optional[Mapping[str, str]]) -> Asked:
    return f"/v1/elections/{quote(key, safe='')}/campaign", timed(ttl, None, labels=dict(labels or {}))
