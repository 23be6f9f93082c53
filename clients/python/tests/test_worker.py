"""A worker by itself, with an agent that answers what a test says.

Plan: a child that was forked off takes no part in the fleet, and its parent's worker stays there.
"""

import asyncio
import unittest

from harness import FakeAgent, in_a_child, tenure

JOINED = {"id": "w", "fleet": "f", "holder": "h", "ask_in_ms": 50}


def agent_of_a_worker(joined):
    """One that gives no units; and what was asked for."""
    asked = []

    def answer(method, path, body):
        asked.append((method, path, body))
        if path == "/v1/fleets/f/workers":
            return 201, {**JOINED, **joined}
        return 204, {}

    return FakeAgent(answer), asked


class Forks(unittest.TestCase):
    def test_a_forked_child_takes_no_part_and_its_parents_worker_stays(self):
        agent, asked = agent_of_a_worker({})

        async def join(address):
            return await tenure.AsyncClient(address).worker("f")

        async def leave(worker):
            try:
                await worker.next()
            except tenure.LeaseLost:
                await worker.leave()
                async with worker:
                    return [unit async for unit in worker.units()] == []
            return False

        def is_out():
            try:
                worker.next()
            except tenure.LeaseLost:
                worker.leave()
                with worker:
                    return list(worker.units()) == []
            return False

        with agent:
            worker, other = tenure.Client(agent.address).worker("f"), asyncio.run(join(agent.address))
            before = len(asked)
            self.assertEqual(in_a_child(is_out), 0)
            self.assertEqual(in_a_child(lambda: asyncio.run(leave(other))), 0)
            self.assertEqual(asked[before:], [])
            # Who has forked it off is there still.
            self.assertIsNone(worker.next())
            worker.leave()
            self.assertEqual([(method, path) for method, path, _ in asked[before:]], [("POST", "/v1/workers/w/next"), ("DELETE", "/v1/workers/w")])


if __name__ == "__main__":
    unittest.main()
