"""A lease that is held, and until when."""

from __future__ import annotations

import logging
import math
import os
import threading
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Type, TypeVar

from ._clock import boottime_ns, timeline
from ._errors import LeaseLost, Refused

_NS_PER_MS = 1_000_000
#: Between two beats of a lease, whatever the agent says.
_LEAST_BEAT_NS = 5 * _NS_PER_MS

_T = TypeVar("_T")
_log = logging.getLogger("tenure")


def of_kind(told: Any, kind: Type[_T]) -> _T:
    """What an agent's answer has, if it is of that kind."""
    if not isinstance(told, kind):
        raise TypeError(f"{told!r:.40} is no {kind.__name__}")
    return told


def _ns(ms: Any) -> int:
    return int((ms if isinstance(ms, float) else of_kind(ms, int)) * _NS_PER_MS)


class Lease:
    """The right to one key until a deadline, which is put off in the background for as long as the lease is wanted.

    As a context manager it is given back at the end. It is one tenure, and no lock to be taken again: a block that begins when it is over raises `LeaseLost`.
    A lease that nobody has any more is not prolonged. A process that was forked off does not hold it.

    What gives it back waits for the agent, also where asyncio's client has got it: `await asyncio.to_thread(lease.release)` there.
    """

    def __init__(self, key: str, fence: int, release: Callable[[Lease], bool]) -> None:
        self.key = key
        #: Grows with each holder of the key. Send it along with every effect, and let what is protected refuse lower ones.
        self.fence = fence
        self._process = os.getpid()
        self._deadline_ns = 0
        self._beat_at_ns = 0
        self._is_over = False
        self._is_let_go = False
        self._is_revoked = False
        self._reason: Optional[str] = None
        self._ended = threading.Event()
        self._release = release
        self.id = ""

    @property
    def held(self) -> bool:
        """Whether it is held at this instant. No I/O. It may end right after: what must not happen twice belongs behind a check of the fence."""
        return self._is_ours and boottime_ns() < self._deadline_ns

    @property
    def _is_ours(self) -> bool:
        """Whether this process has not let go of it, nor been told that it is over."""
        return not self._is_over and os.getpid() == self._process

    @property
    def remaining(self) -> float:
        """Seconds for which it is held if it is not prolonged any more."""
        return max(0, self._deadline_ns - boottime_ns()) / 1e9 if self.held else 0.0

    @property
    def reason(self) -> Optional[str]:
        """Why it is over, or will be, if that is known."""
        return self._reason

    @property
    def revoked(self) -> bool:
        """Whether its revocation was told: an operator asks for an end. It is held until its deadline, which nothing puts off any more. No I/O."""
        return self._is_revoked

    def check(self) -> None:
        """Raises `LeaseLost` unless it is held at this instant."""
        if os.getpid() != self._process:
            raise LeaseLost(f"{self.key}: process {self._process} has it, and this one was forked off; it takes a lease of its own")
        if not self.held:
            raise LeaseLost(f"{self.key}: {self._reason or 'its deadline is over'}")

    def wait_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is lost or given back; false if the time was over first. For a thread that watches."""
        if timeout is not None and math.isnan(timeout):
            raise ValueError(f"timeout is {timeout!r}; it must be seconds, or None to wait for as long as it is held")
        end_ns = None if timeout is None or timeout == math.inf else boottime_ns() + int(max(timeout, 0) * 1e9)
        while self.held:
            left = self.remaining
            if end_ns is not None:
                left = min(left, (end_ns - boottime_ns()) / 1e9)
                if left <= 0:
                    return False
            # The clock of the wait may stand still while the machine is suspended.
            self._ended.wait(min(left, 1.0))
        return True

    def release(self) -> bool:
        """Gives it back; false if it was lost before, or no agent answered. Whatever was done under it must have ended. Raises `Refused` if the agent says no,
        so that it lasts until its deadline."""
        return self._is_ours and self._release(self)

    def __enter__(self) -> Lease:
        self.check()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._end_block(self.release, error)

    def _end_block(self, end: Callable[[], bool], error: Optional[BaseException]) -> None:
        """Ends it as its block does, which this has ended. Nobody gets the answer, so what was lost is logged."""
        # Who has ended it in the block has had the answer.
        is_told = self._is_let_go or os.getpid() != self._process
        was_held, reason = self.held, self._reason
        try:
            is_done = end()
        except Refused as refused:
            if error is None:
                raise
            # What has ended the block says more, and is raised.
            _log.error("the end of %s was refused: %s", self.key, refused)
            return
        if is_done or is_told:
            return
        if was_held:
            _log.warning("the end of %s was not told: it was lost just now, or no agent answers, and it lasts until its deadline", self.key)
        else:
            _log.warning("%s was lost before its block ended: %s", self.key, reason or "its deadline is over")

    def __repr__(self) -> str:
        return f"<Lease {self.key!r} fence {self.fence} {'held' if self.held else 'not held'}>"

    def _told(self, told: Dict[str, Any], sent_ns: int, is_local: bool) -> None:
        """Takes the answer to a request that was sent then, from an agent that is surely on this host or not. Only this prolongs anything.

        A clock's name alone is no proof: machines that were started from one snapshot share it.
        """
        # Nothing is taken of an answer that can't be read as a whole.
        id, beat_ns = of_kind(told["id"], str), _ns(told["beat_in_ms"])
        is_revoked = of_kind(told.get("is_revoked", False), bool)
        counted_ns = sent_ns + _ns(told["good_for_ms"])
        if is_local and told.get("boot") is not None and told["boot"] == timeline():
            counted_ns = _ns(told["deadline_boottime_ms"])
        self.id = id
        # An answer that asks for the next beat at once is no reason to ask without end.
        self._beat_at_ns = max(sent_ns + beat_ns, boottime_ns() + _LEAST_BEAT_NS)
        self._deadline_ns = max(self._deadline_ns, counted_ns)
        if is_revoked:
            self._revoke()

    def _revoke(self) -> None:
        """It is to end. What ends it then says more."""
        if not self._is_over:
            self._reason = "it was withdrawn: nothing puts its deadline off any more"
        self._is_revoked = True

    def _over(self, reason: str, *, is_let_go: bool = False) -> None:
        if not self._is_over:
            self._reason = reason
            self._is_let_go = is_let_go
            self._is_over = True
            self._ended.set()


class Ranges(Lease):
    """Keys of a section, for a time that nothing prolongs."""

    #: Each LOW_HIGH in hexadecimal digits, the high end excluded: what was had of what was wanted.
    ranges: List[str]

    def _told(self, told: Dict[str, Any], sent_ns: int, is_local: bool) -> None:
        super()._told(told, sent_ns, is_local)
        # A beat's answer does not say them again.
        if "ranges" in told:
            self.ranges = [of_kind(found, str) for found in told["ranges"]]
        # No beat would put it off.
        self._beat_at_ns = self._deadline_ns
