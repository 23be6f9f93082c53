"""What is told of an end, and what becomes of what nobody has.

Plan: an exception of any length and of any text is told as a tick's end or a unit's failure; fields that are no texts are refused while the unit is held; a refusal of the
agent is raised, and hides nothing that has ended a block; a lease that nobody has, or whose caller was interrupted, is free again; a cancelled wait leaves nothing
behind; an interrupted one leaves no place, also while a forked child lives; too many units in one request are refused with what to do.
"""

import asyncio
import gc
import os
import random
import signal
import threading
import time
import unittest
import unittest.mock

from harness import LONG, FakeAgent, Interrupted, WithAgent, raised_by_a_signal, tenure, wait_until


class Ends(WithAgent):
    def test_a_tick_that_raises_whatever_there_is_has_run(self):
        class Nameless(Exception):
            def __repr__(self):
                raise ValueError("not even that")

        large = UnicodeDecodeError("utf-8", b"\xff" * 70_000, 0, 1, "invalid start byte")
        for n, error in enumerate([large, ValueError("x" * 100_000), Nameless(), type("Odd", (Exception,), {"__repr__": lambda _: "\udcff"})()]):
            runs = []

            @self.client().once_per(f"t{n}", every=3600, at_least_once=True, wait=LONG)
            def job():
                runs.append(n)
                raise error

            with self.assertRaises(type(error)):
                job()
            self.assertFalse(job(), "it has run")
            self.assertEqual(runs, [n])
            self.assertIn("failed", self.tenure("show", f"once/t{n}", "--json").stdout)

    def test_fields_that_are_no_texts_are_refused_while_the_unit_is_held(self):
        worker = self.client().worker("f", units=["u"], ttl=60)
        unit = None
        while unit is None:
            unit = worker.next(1)
        for wrong in ({"count": 3}, {1: "x"}, {"none": None}):
            with self.assertRaises(TypeError) as refused:
                unit.done(wrong)
            self.assertIn("texts", str(refused.exception))
            self.assertTrue(unit.held)
        self.assertTrue(unit.done({"count": "3"}))

    def test_an_interrupted_release_keeps_no_other_from_being_given_back(self):
        client = self.client()
        first, second = client.lease("i1"), client.lease("i2")
        with unittest.mock.patch.object(tenure._wire.Wire, "_answer", side_effect=Interrupted):
            with self.assertRaises(Interrupted):
                first.release()
        self.assertTrue(second.release())

    def test_a_failure_of_any_length_lets_the_unit_go(self):
        worker = self.client().worker("f", units=["u"], ttl=60)
        unit = None
        while unit is None:
            unit = worker.next(1)
        self.assertTrue(unit.failed("x" * 1_000_000))


def told(path):
    told = {"id": "1", "key": "k", "fence": 1, "good_for_ms": 60_000, "beat_in_ms": 20_000}
    return {**told, "unit": "u", "fields": {}} if path.endswith("/next") else told


class Refusals(unittest.TestCase):
    def agent(self):
        """One that refuses all ends, as one would with another token."""

        def answer(method, path, body):
            if path == "/v1/fleets/f/workers":
                return 201, {"id": "w", "fleet": "f", "holder": "h", "ask_in_ms": 50}
            if method == "DELETE" or "/units/" in path or path.endswith("/end"):
                return 401, {"code": "wrong_token", "message": "the token is not one of this agent's"}
            return 201, told(path)

        return FakeAgent(answer)

    def test_a_refusal_is_raised_and_hides_nothing(self):
        with self.agent() as agent:
            client = tenure.Client(agent.address)
            once = lambda: client.once_per("k", every=60).begin()
            unit = lambda: client.worker("f").next()
            for end in (
                lambda: client.lease("k").release(),
                lambda: once().end(),
                lambda: unit().done(),
                lambda: unit().failed("why"),
                lambda: unit().release(),
                lambda: self.in_a_block(lambda: client.lease("k"), None),
                lambda: self.in_a_block(once, None),
                lambda: self.in_a_block(unit, None),
            ):
                with self.assertRaises(tenure.Refused) as refused:
                    end()
                self.assertEqual(refused.exception.status, 401)
            for had in (lambda: client.lease("k"), once, unit):
                with self.assertRaises(ZeroDivisionError):
                    self.in_a_block(had, ZeroDivisionError())
                with self.subTest(had), self.assertRaises(KeyboardInterrupt):
                    self.in_a_block(had, KeyboardInterrupt())
            lease = client.lease("k")
            with self.assertRaises(tenure.Refused):
                client.close()
            self.assertFalse(lease.held)

    def test_a_refusal_hides_nothing_where_a_unit_was_to_go(self):
        with self.agent() as agent:
            client = tenure.Client(agent.address)

            def draining():
                worker = client.worker("f")
                unit = worker.next()
                worker._tell_all_to_end()
                self.assertFalse(unit.wanted)
                return unit

            with self.assertLogs("tenure", "ERROR") as logged, self.assertRaises(ZeroDivisionError):
                self.in_a_block(draining, ZeroDivisionError())
            self.assertIn("the end of k was refused", logged.output[0])
            with self.assertRaises(tenure.Refused):
                self.in_a_block(draining, None)

    def test_a_refusal_hides_no_cancellation(self):
        async def main(address):
            client = tenure.AsyncClient(address)

            async def stays(had, entered):
                async with had:
                    entered.set()
                    await asyncio.sleep(LONG)

            for had in (await client.once_per("k", every=60).begin(), await (await client.worker("f")).next()):
                entered = asyncio.Event()
                task = asyncio.ensure_future(stays(had, entered))
                await entered.wait()
                task.cancel()
                with self.subTest(had), self.assertRaises(asyncio.CancelledError):
                    await task

        with self.agent() as agent:
            asyncio.run(asyncio.wait_for(main(agent.address), LONG))

    def in_a_block(self, had, error):
        with had():
            if error is not None:
                raise error

    def test_too_many_units_are_refused_with_what_to_do(self):
        def answer(method, path, body):
            return 413, {"code": "too_large", "message": "a request has 65536 bytes at most"}

        with FakeAgent(answer) as agent, self.assertRaises(tenure.Refused) as refused:
            tenure.Client(agent.address).worker("f", units=["u"])
        self.assertIn("tenure fleet add", str(refused.exception))


class Nobodys(WithAgent):
    ttl = "1s"

    def test_a_lease_that_nobody_has_any_more_is_free(self):
        client = self.client()
        client.lease("k")
        tick = client.once_per("t", every=3600, at_least_once=True).begin()
        worker = client.worker("f", units=["u"], ttl=60)
        unit = None
        while unit is None:
            unit = worker.next(1)
        self.assertTrue(tick.held and unit.held)
        del tick, unit
        gc.collect()
        self.assertEqual(len(client._held), 0)
        with self.client().lease("k", wait=LONG):
            pass
        wait_until("all to be free", lambda: self.clients() == 0)

    def test_who_is_interrupted_while_it_gets_a_lease_has_none(self):
        client = self.client()
        put_back = client._put_back

        def interrupted_at_first(wire):
            put_back(wire)
            # By a signal, which is the main thread's.
            if threading.current_thread() is threading.main_thread():
                raise Interrupted

        for get in (lambda: client.lease("k", ttl=60), lambda: client.once_per("k", every=60, at_least_once=True, wait=LONG).begin()):
            with unittest.mock.patch.object(client, "_put_back", interrupted_at_first), self.assertRaises(Interrupted):
                get()
            self.assertEqual(len(client._held), 0)
            wait_until("it to be free", lambda: self.clients() == 0)

    def test_a_cancelled_wait_leaves_no_range_behind(self):
        async def main():
            client = tenure.AsyncClient(self.address)
            for n in range(300):
                part = client.ranges(f"s{n % 20}", f"{n % 200:02x}_{n % 200 + 1:02x}", lasts=3600)
                waits = asyncio.ensure_future(part.__aenter__())
                await asyncio.sleep(random.uniform(0.0003, 0.004))
                waits.cancel()
                try:
                    await asyncio.to_thread((await waits).release)
                except asyncio.CancelledError:
                    pass

        asyncio.run(asyncio.wait_for(main(), LONG))
        wait_until("all to be given back", lambda: self.clients() == 0)

    def test_who_is_interrupted_leaves_no_place_behind_while_a_forked_child_lives(self):
        client, children = self.client(), []

        def waiting():
            return len(next(iter(self.client().list("semaphore/rw")))["semaphore"]["queue"])

        def interrupt():
            wait_until("its place", lambda: waiting() == 1)
            child = os.fork()
            if child == 0:
                time.sleep(2 * LONG)
                os._exit(0)
            children.append(child)
            os.kill(os.getpid(), signal.SIGALRM)

        with client.exclusive("rw"):
            with raised_by_a_signal(interrupt), self.assertRaises(Interrupted):
                client.exclusive("rw", wait=None)
            wait_until("an empty queue", lambda: waiting() == 0)
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)

    def test_a_forked_child_keeps_no_connection_of_its_parent(self):
        client = self.client()
        lease = client.lease("k")
        opened = client._kept._connection.sock.fileno()
        before = os.fstat(opened).st_ino
        child = os.fork()
        if child == 0:
            try:
                is_same = os.fstat(opened).st_ino == before
            except OSError:
                is_same = False
            os._exit(int(is_same))
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(lease.release())


if __name__ == "__main__":
    unittest.main()
