"""Blocks and bodies that run under what they believe to have, or not at all.

Plan: a block under what is over does not begin, of a lease, a tick, a unit, and with asyncio; an object that asks for leases is one task's at a time, and may be used
again, also after a cancelled wait; what a call does not run is no body; a revocation is told before the end, by the agent, by the program, and with asyncio; what a block has
lost is logged at its end, and what its user has ended is not; a forked child is told why it holds nothing; a term that is over before its block is no election, and the next one
is waited for.
"""

import asyncio
import functools
import threading
import unittest
import unittest.mock

from harness import LONG, PROGRAM, FakeAgent, WithAgent, in_a_child, tenure, wait_until

TOLD = {"id": "1", "key": "k", "fence": 1, "good_for_ms": 60_000, "beat_in_ms": 20_000, "is_revoked": False}


def unit_of(worker):
    while True:
        unit = worker.next(1)
        if unit is not None:
            return unit


class Over(WithAgent):
    def test_a_block_under_what_is_over_does_not_begin(self):
        client, ran = self.client(), []
        lease = client.lease("k")
        with lease:
            pass
        tick = client.once_per("t", every=3600).begin()
        tick.end()
        unit = unit_of(client.worker("f", units=["u"]))
        unit.release()
        for over in (lease, tick, unit):
            with self.assertRaises(tenure.LeaseLost):
                with over:
                    ran.append(over)
            self.assertIsNotNone(over.reason)

        async def main():
            async with tenure.AsyncClient(self.address) as other:
                tick = await other.once_per("a", every=3600).begin()
                await tick.release()
                unit = await (await other.worker("g", units=["u"])).next(LONG / 4)
                await unit.release()
                for over in (tick, unit):
                    self.assertFalse(over.revoked)
                    with self.assertRaises(tenure.LeaseLost):
                        async with over:
                            ran.append(over)

        asyncio.run(asyncio.wait_for(main(), LONG))
        self.assertEqual(ran, [])

    def test_a_forked_child_is_told_why_it_holds_nothing(self):
        lease = self.client().lease("k")

        def is_told():
            try:
                lease.check()
            except tenure.LeaseLost as lost:
                return "forked off" in str(lost)
            return False

        self.assertEqual(in_a_child(is_told), 0)
        lease.check()


class OneTask(WithAgent):
    def test_what_asks_for_leases_is_one_tasks_at_a_time_and_may_be_used_again(self):
        async def main():
            async with tenure.AsyncClient(self.address) as client:
                wanted = client.semaphore("s", 2, wait=LONG)
                async with wanted as first:
                    with self.assertRaises(RuntimeError):
                        async with wanted:
                            self.fail("two blocks have one object")
                    self.assertTrue(first.held)
                self.assertFalse(first.held)
                async with wanted as second:
                    self.assertTrue(second.held and second is not first)
                # Each `await` is a use by itself.
                both = await asyncio.gather(_had(wanted), _had(wanted))
                self.assertEqual([lease.held for lease in both], [True, True])
                for lease in both:
                    await asyncio.to_thread(lease.release)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_it_may_be_used_again_after_a_cancelled_wait(self):
        async def main(first, wanted):
            for had in (_had, _entered):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(had(wanted), 0.3)
            await asyncio.to_thread(first.release)
            async with wanted as lease:
                self.assertTrue(lease.held)

        client = tenure.AsyncClient(self.address)
        asyncio.run(asyncio.wait_for(main(self.client().lease("k"), client.lease("k", wait=LONG)), LONG))
        program = {"program": [PROGRAM], "store": self.environment["TENURE_STORE"]}
        first = tenure.hold("h", **program)
        asyncio.run(asyncio.wait_for(main(first, tenure.async_hold("h", wait=LONG, **program)), LONG))


async def _had(wanted):
    return await wanted


async def _entered(wanted):
    async with wanted:
        pass


class Bodies(WithAgent):
    def test_what_no_call_runs_is_no_body_and_joins_no_fleet(self):
        async def body(unit):
            pass

        def steps(unit):
            yield unit

        class Callable:
            async def __call__(self, unit):
                pass

        client, stop = self.client(), threading.Event()
        # Whatever is taken for a body all the same ends at once.
        stop.set()
        worker = client.worker("other")
        worker.leave()
        for wrong in (body, functools.partial(body), Callable(), steps):
            for takes in (lambda wrong: client.work("f", wrong, units=["u"], stop=stop), worker.run, client.once_per("t", every=3600)):
                with self.subTest(wrong), self.assertRaises(TypeError):
                    takes(wrong)
        self.assertEqual([row["key"] for row in client.list() if "/f/" in row["key"] or row["key"].startswith("once/")], [])

    def test_a_body_that_returns_what_is_to_be_awaited_has_failed(self):
        client, stop = self.client(), threading.Event()

        async def later():
            pass

        def body(unit):
            stop.set()
            return later()

        with self.assertLogs("tenure", "ERROR") as logged:
            client.work("f", body, units=["u"], stop=stop)
        self.assertIn("awaits", logged.output[0])
        with self.assertRaises(TypeError):
            client.once_per("t", every=3600)(lambda: later())()
        self.assertIn("failed", self.tenure("show", "once/t", "--json").stdout)

    def test_a_body_that_returns_a_generator_has_failed(self):
        client = self.client()

        def steps():
            yield

        async def later_steps():
            yield

        for name, made in (("steps", steps), ("later_steps", later_steps)):
            stop = threading.Event()

            def body(unit):
                stop.set()
                return made()

            with self.subTest(name):
                with self.assertLogs("tenure", "ERROR") as logged:
                    client.work(name, body, units=["u"], stop=stop)
                self.assertIn("steps nothing here runs", logged.output[0])
                with self.assertRaises(TypeError):
                    client.once_per(name, every=3600)(lambda: made())()
                self.assertIn("failed", self.tenure("show", f"once/{name}", "--json").stdout)


class Terms(unittest.TestCase):
    def setUp(self):
        self.elected, self.given_back = [], []

        def answer(method, path, body):
            if method == "DELETE":
                self.given_back.append(path.rpartition("/")[2])
                return {"released": True}
            self.elected.append(str(len(self.elected) + 1))
            return 201, {**TOLD, "id": self.elected[-1], "fence": len(self.elected)}

        self.agent = self.entered(FakeAgent(answer))
        get = tenure.Client._get

        def late(*asked, **options):
            # The process may stand still between the agent's answer and its block.
            term = get(*asked, **options)
            if term.id == "1":
                term._deadline_ns = 0
            return term

        self.entered(unittest.mock.patch.object(tenure.Client, "_get", late))

    def entered(self, manager):
        """As `enterContext`, which Python 3.9 has not."""
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def test_one_that_is_over_before_its_block_is_no_election(self):
        terms = tenure.Client(self.agent.address).leaderships("e")
        with self.assertLogs("tenure", "WARNING") as logged:
            term = next(terms)
        self.assertTrue(term.held)
        self.assertEqual((term.fence, self.given_back), (2, ["1"]))
        self.assertIn("the leadership of e", logged.output[0])
        # What the loop's body is told of its own is its own.
        with self.assertRaises(tenure.LeaseLost):
            terms.throw(tenure.LeaseLost("another lease"))
        self.assertEqual(self.given_back, ["1", "2"])

    def test_and_so_with_asyncio(self):
        async def main():
            terms = tenure.AsyncClient(self.agent.address).leaderships("e")
            term = await terms.__anext__()
            self.assertTrue(term.held)
            self.assertEqual((term.fence, self.given_back), (2, ["1"]))
            with self.assertRaises(tenure.LeaseLost):
                await terms.athrow(tenure.LeaseLost("another lease"))
            self.assertEqual(self.given_back, ["1", "2"])

        asyncio.run(asyncio.wait_for(main(), LONG))


class Revocations(WithAgent):
    # Its deadline is far away when it is told.
    ttl = "15s"

    def test_one_is_told_before_the_lease_ends(self):
        lease = self.client().lease("k")
        held = tenure.hold("h", ttl=15, program=[PROGRAM], store=self.environment["TENURE_STORE"])
        for had in (lease, held):
            self.assertFalse(had.revoked)
            self.assertIsNone(had.reason)
            self.assertEqual(self.tenure("revoke", had.key, "--yes").returncode, 0)
        for had in (lease, held):
            with self.subTest(had.key):
                wait_until("the revocation", lambda: had.revoked or not had.held)
                self.assertTrue(had.revoked and had.held)
                self.assertIn("withdrawn", had.reason)
                self.assertTrue(had.release())
                self.assertEqual((had.reason, had.revoked), ("it was released", True))


class Logged(unittest.TestCase):
    def agent(self, is_lost):
        """One that says of a beat that the lease is over once that is to be so, and knows of none when it is to end."""

        def answer(method, path, body):
            if path == "/v1/beats":
                over = {"id": "1", "code": "over", "over": "somebody took it"}
                return {"leases": [over if is_lost.is_set() else {**TOLD, "beat_in_ms": 10}]}
            if path == "/v1/fleets/f/workers":
                return 201, {"id": "w", "fleet": "f", "holder": "h", "ask_in_ms": 50}
            if method == "DELETE" or path.endswith(("/end", "/done", "/failed")):
                return 410, {"code": "over", "message": "it is over"}
            return 201, {**TOLD, "unit": "u", "fields": {}, "beat_in_ms": 10}

        return FakeAgent(answer)

    def test_what_a_block_has_lost_is_logged_at_its_end(self):
        is_lost = threading.Event()
        with self.agent(is_lost) as agent:
            client = tenure.Client(agent.address)
            had = [lambda: client.lease("k"), lambda: client.once_per("k", every=60).begin(), lambda: client.worker("f").next()]
            for get in had:
                is_lost.clear()
                with self.subTest(get), self.assertLogs("tenure", "WARNING") as logged, get() as lease:
                    is_lost.set()
                    self.assertTrue(lease.wait_lost(LONG))
                self.assertEqual(logged.output, ["WARNING:tenure:k was lost before its block ended: somebody took it"])
            # It is found only at the end, when the agent knows nothing of it.
            is_lost.clear()
            for get in had:
                with self.subTest(get), self.assertLogs("tenure", "WARNING") as logged, get():
                    pass
                self.assertIn("the end of k was not told", logged.output[0])

    def test_what_its_user_has_ended_in_the_block_is_not_logged(self):
        with self.agent(threading.Event()) as agent:
            client = tenure.Client(agent.address)
            for get, end in (
                (lambda: client.lease("k"), lambda lease: lease.release()),
                (lambda: client.once_per("k", every=60).begin(), lambda tick: tick.end()),
                (lambda: client.worker("f").next(), lambda unit: unit.done()),
            ):
                with self.subTest(get), self.nothing_logged():
                    with get() as lease:
                        self.assertFalse(end(lease))

    def nothing_logged(self):
        """As `assertNoLogs`, which Python 3.9 has not."""
        return unittest.mock.patch("tenure._lease._log.warning", side_effect=AssertionError("it was logged"))


if __name__ == "__main__":
    unittest.main()
