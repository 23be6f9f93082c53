"""A worker by itself, with an agent that answers what a test says.

Plan: a child that was forked off takes no part in the fleet, and its parent's worker stays there. A worker with a long ttl asks for no longer wait than an
agent grants. What comes out of a body is logged, and its exit counts as a program's. Nobody else writes a checkpoint. Who can't go on has all bodies end
first.
"""

import asyncio
import logging
import sys
import threading
import time
import unittest

from harness import LONG, FakeAgent, in_a_child, tenure, wait_until

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


class Pace(unittest.TestCase):
    def test_no_request_for_a_unit_waits_for_longer_than_an_agent_grants(self):
        agent, asked = agent_of_a_worker({"ask_in_ms": 300_000})
        with agent:
            stop = threading.Event()
            works = threading.Thread(target=tenure.Client(agent.address).work, args=("f", print), kwargs={"ttl": 600, "stop": stop}, daemon=True)
            works.start()
            wait_until("a request", lambda: len(asked) > 1)
            stop.set()
            works.join(LONG)

            async def main():
                until = asyncio.Event()
                working = asyncio.ensure_future(tenure.AsyncClient(agent.address).work("f", print, ttl=600, stop=until))
                await asyncio.to_thread(wait_until, "a request", lambda: any(path.endswith("/next") for _, path, _ in list(asked)))
                until.set()
                await working

            del asked[:]
            asyncio.run(asyncio.wait_for(main(), LONG))
        waits = [body["wait_ms"] for _, path, body in asked if path.endswith("/next")]
        self.assertEqual(set(waits), {60_000})


class Exceptions(unittest.TestCase):
    def agent(self, otherwise=lambda path: {"released": True} if path.startswith("/v1/units") else (204, {})):
        """One that gives one unit, and answers otherwise what it is told to."""
        given = []

        def answer(method, path, body):
            if path == "/v1/fleets/f/workers":
                return 201, JOINED
            if path.endswith("/next") and not given:
                given.append(path)
                return {"id": "1", "key": "fleet/f/u", "unit": "u", "fields": {}, "fence": 1, "good_for_ms": 60_000, "beat_in_ms": 20_000}
            return otherwise(path)

        return FakeAgent(answer)

    def test_what_comes_out_of_a_body_is_logged_with_its_unit(self):
        stop = threading.Event()

        def body(unit):
            stop.set()
            raise RuntimeError("not today")

        with self.agent() as agent, self.assertLogs("tenure", "ERROR") as logs:
            tenure.Client(agent.address).work("f", body, stop=stop)
        self.is_told(logs)

        async def main(address):
            until = asyncio.Event()

            async def body(unit):
                until.set()
                raise RuntimeError("not today")

            await tenure.AsyncClient(address).work("f", body, stop=until)

        with self.agent() as agent, self.assertLogs("tenure", "ERROR") as logs:
            asyncio.run(asyncio.wait_for(main(agent.address), LONG))
        self.is_told(logs)

    def test_a_body_that_calls_exit_is_done_or_has_failed_by_its_status(self):
        for status, end in (None, "done"), (0, "done"), (3, "failed"), ("bad settings", "failed"):
            with self.subTest(status):
                stop, told = threading.Event(), []

                def answer(path):
                    if not path.startswith("/v1/units"):
                        return 204, {}
                    told.append(path)
                    stop.set()
                    return {"released": True}

                with self.agent(answer) as agent, self.assertLogs("tenure") as logs:
                    logging.getLogger("tenure").info("there is always one")
                    tenure.Client(agent.address).work("f", lambda unit: sys.exit(status), stop=stop)
                self.assertEqual(told, [f"/v1/units/1/{end}"])
                self.assertEqual(repr(status) in "".join(logs.output), end == "failed")

                async def main(address):
                    until = asyncio.Event()

                    async def body(unit):
                        asyncio.get_running_loop().call_later(0.1, until.set)
                        sys.exit(status)

                    await tenure.AsyncClient(address).work("f", body, stop=until)

                del told[:]
                with self.agent(answer) as agent:
                    asyncio.run(asyncio.wait_for(main(agent.address), LONG))
                self.assertEqual(told, [f"/v1/units/1/{end}"])

    def test_a_forked_child_and_who_has_lost_it_write_no_checkpoint(self):
        asked = []
        with self.agent(lambda path: asked.append(path) or (204, {})) as agent:
            unit = tenure.Client(agent.address).worker("f").next()

            def is_refused():
                try:
                    unit.checkpoint("half")
                except tenure.LeaseLost:
                    return True
                return False

            self.assertEqual(in_a_child(is_refused), 0)
            unit._over("it was lost")
            self.assertTrue(is_refused())
        self.assertEqual([path for path in asked if path.endswith("/checkpoint")], [])

    def test_who_can_not_go_on_has_all_bodies_end_before_it_raises(self):
        def refused(path):
            # Not before the body is at work.
            begun.wait(LONG)
            return 401, {"code": "wrong_token", "message": "the token is not one of this agent's"}

        def body(unit):
            begun.set()
            wait_until("the word", lambda: not unit.wanted)
            time.sleep(0.2)
            ended.append(unit)

        for run in (lambda client: client.worker("f").run(body), lambda client: client.work("f", body)):
            ended, begun = [], threading.Event()
            with self.agent(refused) as agent, self.assertRaises(tenure.Refused):
                run(tenure.Client(agent.address))
            self.assertEqual(len(ended), 1)

        async def patient(unit):
            begun.set()
            try:
                await asyncio.sleep(LONG)
            finally:
                await asyncio.sleep(0.2)
                ended.append(unit)

        async def worker(client):
            await (await client.worker("f")).run(patient)

        for run in (worker, lambda client: client.work("f", patient)):
            ended, begun = [], threading.Event()
            with self.agent(refused) as agent, self.assertRaises(tenure.Refused):
                asyncio.run(asyncio.wait_for(run(tenure.AsyncClient(agent.address)), LONG))
            self.assertEqual(len(ended), 1)

    def test_too_many_waits_are_waited_out(self):
        def answer(method, path, body):
            if path == "/v1/fleets/f/workers":
                return 201, JOINED
            asked.append(path)
            return (429, {"code": "too_many", "message": "so many wait"}) if len(asked) < 3 else (410, {"code": "over", "message": "it has left"})

        asked = []
        with FakeAgent(answer) as agent:
            tenure.Client(agent.address).worker("f").run(print)
        self.assertEqual(len(asked), 3)

    def is_told(self, logs):
        [record] = logs.records
        self.assertIn("fleet/f/u", record.getMessage())
        self.assertEqual(repr(record.exc_info[1]), repr(RuntimeError("not today")))


if __name__ == "__main__":
    unittest.main()
