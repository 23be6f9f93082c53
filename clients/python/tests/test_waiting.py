"""Waits that are longer than an agent may be silent for.

Plan: such a wait is one request, and so one place in the queue; the agent that says nothing is asked whether it is there, and waited for only if so, and no longer than
it was to wait; whoever is interrupted leaves no place behind; the kernel looks after a connection to another host.
"""

import asyncio
import os
import signal
import socket
import threading
import time
import unittest
import unittest.mock

from harness import LONG, FakeAgent, Interrupted, WithAgent, raised_by_a_signal, tenure, wait_until
from tenure import _client, _wire

SILENCE = 0.6


class Patched(unittest.TestCase):
    #: For whatever is answered at once.
    patience = 5

    def setUp(self):
        for module, name, seconds in (
            (_client, "_LONGEST_SILENCE", SILENCE),
            (_client, "_PATIENCE", self.patience),
            (_wire, "_PATIENCE", self.patience),
        ):
            patch = unittest.mock.patch.object(module, name, seconds)
            patch.start()
            self.addCleanup(patch.stop)
        super().setUp()


class Queue(Patched, WithAgent):
    def waiting(self):
        """How many wait for it."""
        return len(next(iter(self.client().list("semaphore/rw")))["semaphore"]["queue"])

    def test_who_has_waited_for_longest_is_next_however_long_that_is(self):
        client, turns = self.client(), []

        def turn(name, wait):
            with client.exclusive("rw", wait=wait):
                turns.append(name)

        async def turn_of_asyncio():
            async with tenure.AsyncClient(self.address) as other:
                async with other.exclusive("rw", wait=None):
                    turns.append("second")

        threads = [
            threading.Thread(target=turn, args=("first", None), daemon=True),
            threading.Thread(target=lambda: asyncio.run(turn_of_asyncio()), daemon=True),
            threading.Thread(target=turn, args=("third", LONG), daemon=True),
        ]
        with client.exclusive("rw"):
            for count, thread in enumerate(threads, 1):
                thread.start()
                wait_until("its place", lambda: self.waiting() == count)
                # For longer than an agent may be silent for.
                time.sleep(3 * SILENCE)
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(turns, ["first", "second", "third"])

    def test_who_is_interrupted_leaves_no_place_behind(self):
        client = self.client()

        def interrupt():
            wait_until("its place", lambda: self.waiting() == 1)
            time.sleep(3 * SILENCE)
            os.kill(os.getpid(), signal.SIGALRM)

        with client.exclusive("rw"):
            with raised_by_a_signal(interrupt), self.assertRaises(Interrupted):
                client.exclusive("rw", wait=None)
            wait_until("an empty queue", lambda: self.waiting() == 0)
        with client.exclusive("rw") as lease:
            self.assertTrue(lease.held)


class Silence(Patched):
    """With an agent that is silent for as long as a test says."""

    patience = 3

    def agent(self, is_there=lambda: True, answers=lambda: True, is_full=False):
        """What it was asked for, besides whether it is there, and how often it was asked that."""
        self.asked, self.looks = [], 0
        self.ended = threading.Event()
        self.addCleanup(self.ended.set)

        def answer(method, path, body):
            if path == "/healthz":
                self.looks += 1
                if is_full:
                    return None
                if not is_there():
                    self.ended.wait(LONG)
                return {}
            if path != "/v1/beats":
                self.asked.append((path, body))
            while method == "POST" and not answers() and not self.ended.wait(0.01):
                pass
            told = {"id": "1", "key": "k", "fence": 1, "good_for_ms": 60_000, "beat_in_ms": 20_000}
            return (201, told) if method == "POST" else {"released": True}

        return FakeAgent(answer)

    def test_a_long_wait_is_one_request_for_all_of_it(self):
        day = 24 * 60 * 60 * 1000
        for wait, wait_ms in ((None, day), (float("inf"), day), (100, 100_000), (1_000_000, day)):
            with self.subTest(wait), self.agent(answers=lambda: self.looks > 2) as agent:
                with tenure.Client(agent.address).lease("k", wait=wait) as lease:
                    self.assertTrue(lease.held)
                (_, asked), _ = self.asked
                self.assertLessEqual(abs(asked["wait_ms"] - wait_ms), 5_000)

                async def waits():
                    async with tenure.AsyncClient(agent.address) as client, client.lease("k", wait=wait):
                        pass

                self.looks, self.asked = 0, []
                asyncio.run(waits())
                self.assertEqual(len(self.asked), 2)

    def test_an_agent_that_is_not_there_any_more_is_not_waited_for(self):
        # It was there at first.
        with self.agent(is_there=lambda: self.looks < 3, answers=lambda: False) as agent:
            begin = time.monotonic()
            with self.assertRaises(tenure.Unreachable):
                tenure.Client(agent.address).lease("k", wait=None)
            self.assertEqual((self.looks, len(self.asked)), (3, 1))
            self.ended.set()
        # It is there, and says nothing when the wait is over.
        with self.agent(answers=lambda: False) as agent:
            with self.assertRaises(tenure.Unreachable):
                tenure.Client(agent.address).lease("k", wait=1)
            self.assertGreater(self.looks, 0)
            # It is asked once.
            self.assertEqual(len(self.asked), 1)
            self.ended.set()
        self.assertLess(time.monotonic() - begin, LONG / 2)

    def test_an_agent_that_has_no_place_for_another_connection_is_there(self):
        with self.agent(is_full=True, answers=lambda: self.looks > 1) as agent:
            with tenure.Client(agent.address).lease("k", wait=None) as lease:
                self.assertTrue(lease.held)
            self.assertEqual(len(self.asked), 2)

    def test_a_short_wait_asks_for_nothing_else(self):
        with self.agent() as agent, tenure.Client(agent.address).lease("k", wait=SILENCE):
            pass
        self.assertEqual((len(self.asked), self.looks), (2, 0))

    def test_the_kernel_looks_after_a_connection(self):
        with self.agent() as agent:
            wire = tenure.Client(agent.address)._wire(1)
            wire.ask("POST", "/v1/leases", {})
            self.assertTrue(wire._connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            wire.close()


if __name__ == "__main__":
    unittest.main()
