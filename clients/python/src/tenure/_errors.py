"""What can go wrong."""

from __future__ import annotations

from typing import Optional


class AgentError(Exception):
    """Something was not done. The text says what, and mostly what to do about it."""


class Unreachable(AgentError):
    """The agent, or the program, can't be reached."""


class Closed(Unreachable):
    """The connection was closed before an answer: the agent has no place for another, or has just ended."""


class Refused(AgentError):
    """The agent says no; `code` is its word for programs."""

    def __init__(self, message: str, code: str, status: int) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class HeldByAnother(Refused):
    """Another holds it, and the time to wait for it is over."""

    def __init__(self, message: str, holder: Optional[str] = None, fence: Optional[int] = None) -> None:
        super().__init__(message, "held", 409)
        self.holder = holder
        self.fence = fence


def may_pass(error: AgentError) -> bool:
    """Whether the agent may answer otherwise soon: it is away or being stopped, its store is, or it has too many."""
    return isinstance(error, Unreachable) or (isinstance(error, Refused) and error.status in (429, 503))


class LeaseLost(AgentError):
    """The lease is not held any more."""
