"""An agent that has no place for another connection.

Plan: who has something keeps it, says how far it is, and gives it back, by the connection by which it was had; what was closed before an answer is asked again until the
deadline; too many waits are refused, and what does not wait is answered; a connection is left when nothing is held.
"""

import socket
import threading
import time
import unittest

from harness import LONG, FakeAgent, WithAgent, tenure, wait_until
from tenure._clock import boottime_ns

PLACES = 6


class Full(WithAgent):
    ttl = "2s"
    options = ["--max-connections", str(PLACES)]

    def fill(self):
        """Takes all places that there are, and each that comes to be free, until the end."""
        taken = []
        self.addCleanup(lambda: [one.close() for one in taken])
        over = threading.Event()

        def take():
            while not over.is_set():
                one = socket.socket(socket.AF_UNIX)
                one.settimeout(0.05)
                try:
                    one.connect(str(self.socket))
                    # Half of a request: it is let in, and stays for long.
                    one.sendall(b"GET /healthz HTTP/1.1\r\n")
                    is_in = one.recv(1) != b""
                except socket.timeout:
                    is_in = True
                except OSError:
                    is_in = False
                if is_in:
                    taken.append(one)
                else:
                    one.close()
                    full.set()
                    time.sleep(0.005)

        full, filling = threading.Event(), threading.Thread(target=take, daemon=True)
        filling.start()
        self.addCleanup(filling.join)
        self.addCleanup(over.set)
        self.assertTrue(full.wait(LONG))
        return over

    def test_who_has_something_keeps_it_and_gives_it_back(self):
        client = self.client()
        lease = client.lease("k")
        self.fill()
        # For longer than it lasts without a beat.
        self.assertFalse(lease.wait_lost(5), lease.reason)
        self.assertTrue(lease.release())

    def test_a_unit_is_told_how_far_it_is_and_done(self):
        client = self.client()
        worker = client.worker("f", units=["u"], ttl=2)
        unit = None
        while unit is None:
            unit = worker.next(1)
        self.fill()
        unit.checkpoint("half")
        self.assertTrue(unit.wait_lost(1) is False)
        self.assertTrue(unit.done())

    def test_waits_leave_places_for_what_does_not_wait(self):
        holder = self.client().lease("k")
        ends, lock = [], threading.Lock()

        def waits():
            try:
                with self.client().lease("k", wait=LONG) as lease:
                    how = lease.held
            except tenure.Refused as error:
                how = error.code
            except tenure.Unreachable:
                how = "closed"
            with lock:
                ends.append(how)

        threads = []
        for count in range(PLACES + 4):
            threads.append(threading.Thread(target=waits, daemon=True))
            threads[-1].start()
            # The holder has a connection, and one is for whoever does not wait.
            if count >= PLACES - 2:
                wait_until("a refusal", lambda: len(ends) > count - PLACES + 2)
            else:
                time.sleep(0.2)
        self.assertEqual(ends, ["too_many"] * 6)
        short = self.client()

        def is_answered():
            try:
                return short.lease("other").release()
            except tenure.Unreachable:
                return False

        # The connection of whoever was refused last ends in a moment.
        begin = time.monotonic()
        wait_until("an answer", is_answered)
        self.assertLess(time.monotonic() - begin, LONG / 4)
        self.assertTrue(holder.release())
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(ends[6:], [True] * 4)

    def test_a_connection_is_left_when_nothing_is_held(self):
        clients = [self.client() for _ in range(3 * PLACES)]
        for n, client in enumerate(clients):
            self.assertTrue(client.lease(f"k{n}").release())
            self.assertIsNone(client._kept)
        # What nobody has any more needs none, either.
        client = clients[0]
        client.lease("k")
        wait_until("it to be left", lambda: client._kept is None)


class Closed(unittest.TestCase):
    def test_an_end_whose_connection_was_closed_is_told_again_until_the_deadline(self):
        for good_for_ms, closes, is_told in ((60_000, 3, True), (600, 10_000, False)):
            asked = []

            def answer(method, path, body):
                if method == "POST":
                    return 201, {"id": "1", "key": "k", "fence": 1, "good_for_ms": good_for_ms, "beat_in_ms": good_for_ms // 2}
                asked.append(path)
                return None if len(asked) <= closes else {"released": True}

            with self.subTest(closes), FakeAgent(answer) as agent:
                lease = tenure.Client(agent.address).lease("k")
                self.assertEqual(lease.release(), is_told)
                self.assertEqual(lease._deadline_ns < boottime_ns(), not is_told)
                self.assertGreater(len(asked), 2)

    def test_a_worker_whose_connection_was_closed_leaves_all_the_same(self):
        asked = []

        def answer(method, path, body):
            if method == "POST":
                return 201, {"id": "w", "fleet": "f", "holder": "h", "ask_in_ms": 50}
            asked.append(path)
            return None if len(asked) < 3 else {"released": True}

        with FakeAgent(answer) as agent:
            tenure.Client(agent.address).worker("f").leave()
        self.assertEqual(asked, ["/v1/workers/w"] * 3)

    def test_no_agent_at_all_is_not_waited_for(self):
        def answer(method, path, body):
            return 201, {"id": "1", "key": "k", "fence": 1, "good_for_ms": 600_000, "beat_in_ms": 200_000}

        with FakeAgent(answer) as agent:
            lease = tenure.Client(agent.address).lease("k")
        lease._release.__self__._kept.close()
        begin = time.monotonic()
        self.assertFalse(lease.release())
        self.assertLess(time.monotonic() - begin, LONG)


if __name__ == "__main__":
    unittest.main()
