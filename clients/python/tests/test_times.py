"""Times that are none, such as `float("inf")` of a configuration that leaves one out.

Plan: each is refused by the name of its argument, with what to do, before anything is asked: there is no agent here, and no program. A wait without end waits.
"""

import asyncio
import unittest

from harness import tenure
from tenure._clock import boottime_ns

NAN, INF = float("nan"), float("inf")
NOBODY = "http://127.0.0.1:1"
CLIENT, OTHER = tenure.Client(NOBODY), tenure.AsyncClient(NOBODY)


def hold(**options):
    return tenure.hold("k", program=["no-such-program"], **options)


def async_hold(**options):
    return tenure.async_hold("k", program=["no-such-program"], **options)


WISHES = {
    "ttl": [
        lambda ttl: CLIENT.lease("k", ttl=ttl),
        lambda ttl: CLIENT.semaphore("s", 2, ttl=ttl),
        lambda ttl: CLIENT.shared("s", ttl=ttl),
        lambda ttl: CLIENT.exclusive("s", ttl=ttl),
        lambda ttl: CLIENT.campaign("k", ttl=ttl),
        lambda ttl: next(CLIENT.leaderships("k", ttl=ttl)),
        lambda ttl: CLIENT.once_per("k", every=60, ttl=ttl),
        lambda ttl: CLIENT.worker("f", ttl=ttl),
        lambda ttl: CLIENT.work("f", print, ttl=ttl),
        lambda ttl: OTHER.lease("k", ttl=ttl),
        lambda ttl: OTHER.semaphore("s", 2, ttl=ttl),
        lambda ttl: OTHER.once_per("k", every=60, ttl=ttl),
        lambda ttl: asyncio.run(OTHER.worker("f", ttl=ttl)),
        lambda ttl: hold(ttl=ttl),
        lambda ttl: async_hold(ttl=ttl),
    ],
    "at_most": [
        lambda at_most: CLIENT.lease("k", at_most=at_most),
        lambda at_most: OTHER.lease("k", at_most=at_most),
        lambda at_most: hold(at_most=at_most),
        lambda at_most: async_hold(at_most=at_most),
    ],
    "lasts": [
        lambda lasts: CLIENT.ranges("s", "0_80", lasts=lasts),
        lambda lasts: OTHER.ranges("s", "0_80", lasts=lasts),
    ],
    "drain": [lambda drain: CLIENT.worker("f", drain=drain), lambda drain: asyncio.run(OTHER.worker("f", drain=drain))],
    "every": [lambda every: CLIENT.once_per("k", every=every), lambda every: OTHER.once_per("k", every=every)],
    "tick": [lambda tick: CLIENT.once_per("k", tick=tick), lambda tick: OTHER.once_per("k", tick=tick)],
}


class Times(unittest.TestCase):
    def refused(self, name, value, wish):
        with self.subTest(name=name, value=value):
            with self.assertRaises(ValueError) as refused:
                wish(value)
            self.assertTrue(str(refused.exception).startswith(f"{name} is {value!r}; it must be "), refused.exception)

    def test_a_time_that_is_none_is_refused_by_its_name_before_anything_is_asked(self):
        for name, wishes in WISHES.items():
            for wish in wishes:
                for value in (NAN, INF, -INF, -1):
                    self.refused(name, value, wish)

    def test_a_wait_for_a_unit_ends(self):
        worker = tenure.Worker({"fleet": "f", "holder": "h", "id": "w", "ask_in_ms": 1000}, CLIENT._next_unit, lambda id: None)
        other = tenure.AsyncWorker(worker, OTHER._next_unit)
        for value in (None, NAN, INF, -1):
            self.refused("wait", value, worker.next)
            self.refused("wait", value, lambda wait: asyncio.run(other.next(wait)))

    def test_who_watches_a_lease_may_do_so_without_end_and_not_for_no_time_at_all(self):
        lease = tenure.Lease("k", 1, lambda lease: True)
        self.refused("timeout", NAN, lease.wait_lost)
        for timeout in (None, INF):
            lease._deadline_ns = boottime_ns() + 20_000_000
            self.assertTrue(lease.wait_lost(timeout))
        lease._deadline_ns = boottime_ns() + 60_000_000_000
        for timeout in (0, -1, -INF):
            self.assertFalse(lease.wait_lost(timeout))


if __name__ == "__main__":
    unittest.main()
