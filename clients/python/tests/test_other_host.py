"""A client on another host than its agent: it knows nothing of the agent's clock, and counts by its own from when it sent a request.

Plan: what was waited for is held when it is returned, though the wait was longer than what is told lasts: leases, leaderships, permits, ranges, ticks, units,
and by asyncio; what is held by nobody any more when the answer comes is asked for again; ranges that end do not keep others from being kept. An agent that
names the same time line is believed only by a Unix socket. A connection that has gone dead in silence does not outlast what was told.
"""

import asyncio
import socket
import threading
import unittest
import unittest.mock

from harness import LONG, FakeAgent, WithAgent, tenure, wait_until
from tenure import _lease
from tenure._clock import boottime_ns, timeline
from tenure._wire import Wire

#: What a client asks for at a time. By its own clock it lasts for 1.2 s.
TTL = 1.5
#: Longer than that.
WAIT = 1.6


class OtherHost(WithAgent):
    def setUp(self):
        patch = unittest.mock.patch.object(_lease, "timeline", lambda: None)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()

    def after_a_wait(self, get, give_up):
        """What `get` gets when it has waited for long, and whether that was held at once."""
        had = []

        def waits():
            got = get()
            had.append((got, got.held))

        thread = threading.Thread(target=waits)
        thread.start()
        end = boottime_ns() + int(WAIT * 1e9)
        wait_until("a long wait", lambda: boottime_ns() > end)
        self.assertEqual(had, [])
        give_up()
        thread.join(LONG)
        got, held = had[0]
        self.assertTrue(held, got.reason)
        return got

    def test_what_was_waited_for_is_held_when_it_is_returned(self):
        first, second = self.client(), self.client()
        gets = {
            "lease": lambda client: client.lease("k", ttl=TTL, wait=LONG),
            "leadership": lambda client: client.campaign("k", ttl=TTL),
            "permits": lambda client: client.semaphore("s", 1, ttl=TTL, wait=LONG),
            "ranges": lambda client: client.ranges("mail", "0_80", lasts=LONG if client is first else TTL, all=True, wait=LONG),
            "tick": lambda client: client.once_per("job", every=3600, at_least_once=True, ttl=TTL, wait=LONG).begin(),
        }
        for what, get in gets.items():
            with self.subTest(what):
                held = get(first)
                got = self.after_a_wait(lambda: get(second), held.release)
                self.assertGreater(got.fence, held.fence)
                got.release()

    def test_a_unit_that_was_waited_for_is_held_when_it_is_given(self):
        def units(worker):
            while True:
                unit = worker.next(WAIT + LONG / 10)
                if unit is not None:
                    return unit

        first = self.client().worker("f", units=["u"], ttl=TTL)
        mine = units(first)
        # For as long as it asks, it takes part.
        asks = threading.Thread(target=lambda: list(first.units()), daemon=True)
        asks.start()
        second = self.client().worker("f", ttl=TTL)

        leaves = threading.Thread(target=first.leave, daemon=True)

        def leave():
            leaves.start()
            mine.release()

        got = self.after_a_wait(lambda: units(second), leave)
        self.assertEqual(got.name, "u")
        got.done()
        # Whoever still asks when the agent ends would be told of that.
        for thread in leaves, asks:
            thread.join(LONG)

    def test_asyncio_as_well(self):
        async def waits(client):
            async with client.lease("k", ttl=TTL, wait=LONG) as lease:
                return lease.held

        async def all():
            held = self.client().lease("k", ttl=TTL)
            async with tenure.AsyncClient(self.address) as client:
                waiter = asyncio.create_task(waits(client))
                await asyncio.sleep(WAIT)
                held.release()
                return await waiter

        self.assertTrue(asyncio.run(all()))

    def test_what_lapses_on_its_way_is_asked_for_again(self):
        client, first = self.client(), []
        real = Wire.ask

        def late(wire, method, path, body=None, **options):
            told = real(wire, method, path, body, **options)
            if path == "/v1/leases" and not first:
                first.append(told)
                wait_until("it to lapse", lambda: self.state("k") == "vacant")
            return told

        with unittest.mock.patch.object(Wire, "ask", late):
            with client.lease("k", ttl=1, wait=LONG) as lease:
                self.assertTrue(lease.held)
                self.assertGreater(lease.fence, first[0]["fence"])
            first.clear()
            # Whoever does not wait is told that there was something.
            with self.assertRaises(tenure.LeaseLost):
                client.lease("k", ttl=1)

    def test_ranges_that_end_keep_no_other_lease_from_being_kept(self):
        client = self.client()
        with client.lease("k", ttl=TTL) as lease, client.ranges("mail", "0_80", lasts=1) as ranges:
            wait_until("their end", lambda: ranges.reason is not None)
            later = lease._deadline_ns
            wait_until("a beat", lambda: lease._deadline_ns > later)
            self.assertEqual(ranges.ranges, ["0_80"])


class SameName(unittest.TestCase):
    def test_over_a_network_an_agent_with_the_same_boot_id_may_have_another_clock(self):
        def answer(method, path, body):
            if method == "DELETE":
                return {"released": True}
            # As by a virtual machine that was started from the same snapshot an hour sooner: its deadline is an hour off.
            told = {"id": "1", "key": "k", "fence": 1, "good_for_ms": 6_700, "beat_in_ms": 3_300, "boot": timeline()}
            told["deadline_boottime_ms"] = boottime_ns() // 1_000_000 + 3_600_000
            return {"leases": [told]} if path == "/v1/beats" else (201, told)

        with FakeAgent(answer) as agent, tenure.Client(agent.address).lease("k") as lease:
            self.assertTrue(lease.held)
            self.assertLessEqual(lease.remaining, 6.7)
            first = lease._deadline_ns
            wait_until("a beat", lambda: lease._deadline_ns > first)
            self.assertLessEqual(lease.remaining, 6.7)


class Relay:
    """In front of an agent. From a word on, what the first connection sends is swallowed without a sign, as by a network that has forgotten it."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.is_dead = threading.Event()
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            agent = socket.create_connection(("127.0.0.1", self.port))
            is_old = not self.is_dead.is_set()
            for source, sink in ((client, agent), (agent, client)):
                threading.Thread(target=self.pass_on, args=(source, sink, is_old), daemon=True).start()

    def pass_on(self, source, sink, is_old):
        try:
            while data := source.recv(65536):
                if not (is_old and self.is_dead.is_set()):
                    sink.sendall(data)
        except OSError:
            pass


class DeadConnection(unittest.TestCase):
    def test_a_connection_that_is_dead_in_silence_does_not_outlast_the_lease(self):
        """What is told lasts for less than a client waits for an answer that it does not need in time."""
        said = []

        def answer(method, path, body):
            if method == "DELETE":
                return {"released": True}
            told = {"id": "1", "key": "k", "fence": 1, "good_for_ms": 2_400, "beat_in_ms": 800, "boot": None}
            told["deadline_boottime_ms"] = boottime_ns() // 1_000_000 + 2_400
            if path == "/v1/beats":
                said.append(path)
                return {"leases": [told]}
            return (201, told)

        with FakeAgent(answer) as agent:
            relay = Relay(agent.server_address[1])
            self.addCleanup(relay.listener.close)
            lease = tenure.Client(relay.address).lease("k")
            wait_until("two beats", lambda: len(said) >= 2)
            before = relay.connections
            relay.is_dead.set()
            end = boottime_ns() + int(3 * 2.4e9)
            while boottime_ns() < end:
                self.assertTrue(lease.held, lease.reason)
                lease.wait_lost(0.05)
            self.assertGreater(relay.connections, before)
            lease.release()


if __name__ == "__main__":
    unittest.main()
