"""Units of fleets, ranges and ticks by the client, from the real agent.

Plan: units that are done, fail, move, are lost with the agent, are taken on from the dead; a worker whose agent is away or started anew; ranges until their
deadline; ticks that run once, fail, are killed; the same for asyncio, with cancellation.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

from harness import HERE, LONG, WithAgent, tenure, wait_until
from tenure._clock import boottime_ns


class Fleets(WithAgent):
    def units(self, fleet="f"):
        ran = self.tenure("fleet", "units", fleet, "--json")
        return {unit["unit"]: unit for unit in json.loads(ran.stdout)["units"]} if ran.returncode == 0 else {}

    def test_units_are_done_or_fail_and_each_is_one_workers_at_a_time(self):
        stop, lock, at_work, told = threading.Event(), threading.Lock(), set(), []

        def body(unit):
            with lock:
                self.assertNotIn(unit.name, at_work)
                at_work.add(unit.name)
                told.append((unit.name, unit.fields.get("checkpoint")))
                is_first = [name for name, _ in told].count(unit.name) == 1
            try:
                unit.check()
                if is_first and unit.name == "u3":
                    unit.checkpoint("half")
                    raise RuntimeError("not today")
            finally:
                with lock:
                    at_work.remove(unit.name)

        names = [f"u{n}" for n in range(4)]
        workers = [
            threading.Thread(target=self.client().work, args=("f", body), kwargs={"units": names, "ttl": 2, "stop": stop})
            for _ in range(2)
        ]
        for worker in workers:
            worker.start()
        wait_until("all to be done", lambda: [unit["stage"] for unit in self.units().values()] == ["done"] * 4)
        stop.set()
        for worker in workers:
            worker.join()
        self.assertEqual(len(told), 5, told)
        self.assertIn(("u3", "half"), told)

    def test_a_unit_that_is_to_go_is_told_so_and_goes_when_its_work_has_ended(self):
        first, second = self.client(), self.client()
        one = first.worker("f", units=["a", "b"], ttl=2, drain=LONG)
        units = [wait_for_unit(one), wait_for_unit(one)]
        self.assertEqual({unit.name for unit in units}, {"a", "b"})
        asks = threading.Thread(target=lambda: [None for _ in one.units()], daemon=True)
        asks.start()
        two = second.worker("f", ttl=2)
        wait_until("one to be asked for", lambda: any(unit.draining for unit in units))
        going = next(unit for unit in units if unit.draining)
        self.assertTrue(going.held and not going.wanted)
        with self.assertRaises(tenure.LeaseLost), going:
            raise tenure.LeaseLost("whatever comes out of it")
        moved = wait_for_unit(two)
        self.assertEqual(moved.name, going.name)
        self.assertGreater(moved.fence, going.fence)
        moved.done({"said": "well"})
        wait_until("it to be done", lambda: self.units()[moved.name]["stage"] == "done")
        next(unit for unit in units if unit is not going).done()
        two.leave()
        one.leave()
        asks.join()

    def test_a_unit_is_not_held_past_its_deadline_when_the_agent_is_killed_and_another_has_it_after_that(self):
        unit = wait_for_unit(self.client().worker("f", units=["u"], ttl=2))
        self.assertTrue(unit.held)
        self.agent.kill()
        self.agent.wait()
        self.start()
        later = wait_for_unit(self.client().worker("f", ttl=2))
        self.assertGreaterEqual(boottime_ns(), unit._deadline_ns)
        self.assertGreater(later.fence, unit.fence)
        self.assertTrue(unit.wait_lost(LONG))
        self.assertFalse(unit.done())

    def test_a_killed_worker_that_works_alone_has_its_units_taken_on(self):
        program = (
            "import tenure, time\n"
            f"client = tenure.Client({self.address!r}, on_exit='release')\n"
            "def body(unit):\n    print(unit.fence, flush=True)\n    time.sleep(600)\n"
            "client.work('f', body, units=['u'], ttl=60)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(HERE / "src")}
        with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
            fence = int(process.stdout.readline())
            other = self.client().worker("f", ttl=60)
            process.kill()
        began = time.monotonic()
        self.assertGreater(wait_for_unit(other).fence, fence)
        # Far sooner than its deadline.
        self.assertLess(time.monotonic() - began, 40)


    def test_weights_are_evened_out_and_a_unit_goes_to_a_worker_that_has_what_it_needs(self):
        wishes = {"units": ["heavy", "a", "b", "gpu"], "weights": {"heavy": 2}, "needs": {"gpu": ["gpu"]}, "balance": "weight"}
        with self.client().worker("f", ttl=60, **wishes) as plain:
            units = {unit.name: unit for unit in (wait_for_unit(plain) for _ in range(3))}
            self.assertEqual(sorted(units), ["a", "b", "heavy"])
            self.assertEqual(self.units()["heavy"]["weight"], 2)
            with self.client().worker("f", ttl=60, labels=["gpu"], most_weight=1, balance="weight") as able:
                with wait_for_unit(able) as unit:
                    self.assertEqual(unit.name, "gpu")
            for unit in units.values():
                unit.release()
        with self.assertRaises(tenure.Refused) as refused:
            self.client().worker("f", units=["u"], weights={"v": 2})
        self.assertIn('"v" is not among them', str(refused.exception))
        with self.assertRaises(tenure.Refused) as refused:
            self.client().worker("f", units=["u"], weights={"u": 0})
        self.assertIn("weigh 0", str(refused.exception))

    def test_a_worker_that_leaves_tells_its_units_at_once(self):
        with self.client().worker("f", units=["u"], ttl=60) as worker:
            unit = wait_for_unit(worker)
            leaves = threading.Thread(target=worker.leave)
            begin = time.monotonic()
            leaves.start()
            wait_until("the word", lambda: not unit.wanted)
            # The agent's word would come with the next beat, a good ten seconds later.
            self.assertLess(time.monotonic() - begin, 5)
            unit.release()
            leaves.join()

    def test_a_unit_that_nobody_lets_go_of_is_kept_until_the_end_of_its_drain_and_no_longer(self):
        worker = self.client().worker("f", units=["u"], ttl=4, drain=1)
        unit = wait_for_unit(worker)
        worker.leave()
        self.assertFalse(unit.held)
        with self.client().worker("f", ttl=4) as other:
            with wait_for_unit(other) as again:
                self.assertGreater(again.fence, unit.fence)

    def test_what_ends_a_worker_is_told_also_where_no_agent_is_told_of_its_end(self):
        with self.assertRaises(ZeroDivisionError):
            with self.client().worker("f", units=["u"], ttl=60):
                self.agent.kill()
                self.agent.wait()
                1 / 0

    def test_a_worker_whose_agent_is_away_or_was_started_anew_goes_on_by_itself(self):
        stop, lock, had = threading.Event(), threading.Lock(), []

        def body(unit):
            with lock:
                had.append(unit)
            while unit.wanted:
                time.sleep(0.01)

        client = self.client()
        works = threading.Thread(target=client.work, args=("f", body), kwargs={"units": iter(["u"]), "ttl": 2, "stop": stop})
        works.start()
        wait_until("the unit", lambda: len(had) == 1)
        # Stopped for a while: it is the same agent, and may know the worker still.
        self.agent.send_signal(signal.SIGSTOP)
        wait_until("its loss", lambda: not had[0].held)
        self.agent.send_signal(signal.SIGCONT)
        wait_until("the unit again", lambda: len(had) == 2)
        # Killed, and away for longer than one attempt.
        self.agent.kill()
        self.agent.wait()
        wait_until("its loss", lambda: not had[1].held)
        self.start()
        wait_until("the unit from a new agent", lambda: len(had) == 3)
        for former, later in zip(had, had[1:]):
            self.assertGreater(later.fence, former.fence)
        # Who is to stop does so without an agent, too.
        self.agent.kill()
        self.agent.wait()
        stop.set()
        works.join(LONG)
        self.assertFalse(works.is_alive())
        with self.assertRaises(tenure.Unreachable):
            client.work("f", body)


def wait_for_unit(worker):
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        unit = worker.next(0.5)
        if unit is not None:
            return unit
    raise AssertionError("waited too long for a unit")


class Sections(WithAgent):
    def test_ranges_are_held_until_their_deadline_and_no_longer(self):
        client = self.client()
        with client.ranges("mail", "0_80", lasts=60) as mine:
            self.assertEqual((mine.ranges, mine.held), (["0_80"], True))
            with self.client().ranges("mail", "40_c0", lasts=60) as rest:
                self.assertEqual(rest.ranges, ["80_c0"])
            with self.assertRaises(tenure.HeldByAnother):
                self.client().ranges("mail", "0_c0", lasts=60, all=True)
        short = client.ranges("mail", "0_c0", lasts=2, all=True)
        first = short._deadline_ns
        later = self.client().ranges("mail", "0_80", lasts=60, wait=LONG)
        self.assertGreaterEqual(boottime_ns(), first)
        self.assertTrue(later.held and not short.held)
        self.assertEqual(short._deadline_ns, first)


class Once(WithAgent):
    def test_a_tick_runs_once_over_all_who_call_it(self):
        ran = []

        def jobs():
            for client in (self.client(), self.client()):
                yield client.once_per("report", tick=1_000 * (time.time() // 1_000))(lambda what: ran.append(what))

        self.assertEqual([job("this") for job in jobs()], [True, False])
        self.assertEqual(ran, ["this"])
        hourly = self.client().once_per("hourly", every=3_600)
        with hourly.begin() as tick:
            self.assertTrue(tick.held and tick.fence > 0)
            self.assertIsNone(hourly.begin())
        self.assertFalse(tick.held or tick.end())

    def test_one_that_fails_has_run_and_its_end_is_told(self):
        due = datetime.now(timezone.utc) - timedelta(minutes=5)

        @self.client().once_per("fails", tick=due)
        def fails():
            raise RuntimeError("oh no")

        with self.assertRaises(RuntimeError):
            fails()
        self.assertFalse(fails())
        self.assertIn("oh no", self.tenure("show", "once/fails").stdout)

    def test_one_whose_process_is_killed_is_run_again_where_it_is_to_run_at_least_once(self):
        program = (
            "import tenure, time\n"
            f"client = tenure.Client({self.address!r}, on_exit='release')\n"
            "for name, again in (('most', False), ('least', True)):\n"
            "    client.once_per(name, tick=60, at_least_once=again).begin()\n"
            "print('begun', flush=True)\ntime.sleep(600)\n"
        ).replace("tick=60", f"tick={time.time() // 60 * 60}")
        environment = {**os.environ, "PYTHONPATH": str(HERE / "src")}
        tick = float(program.split("tick=")[1].split(",")[0])
        with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"begun\n")
            process.kill()
        client = self.client()
        with client.once_per("least", tick=tick, at_least_once=True, wait=LONG).begin() as again:
            self.assertTrue(again.held)
        wait_until("the other to be over", lambda: self.state("once/most") == "vacant")
        self.assertIsNone(client.once_per("most", tick=tick).begin())

    def test_bad_input_is_refused_with_what_to_do(self):
        for wrong in ({}, {"every": 1, "tick": 1}, {"every": 0}, {"every": float("nan")}, {"tick": datetime.now()}):
            with self.assertRaises(ValueError):
                self.client().once_per("k", **wrong)
        with self.assertRaises(tenure.Refused) as refused:
            self.client().once_per("k", tick=time.time() + 3_600).begin()
        self.assertIn("ahead", str(refused.exception))


class AsyncWork(WithAgent):
    def test_a_tick_runs_once_over_all_who_call_it(self):
        ran = []

        async def main():
            async with tenure.AsyncClient(self.address) as client:
                due = 1_000 * (time.time() // 1_000)

                async def report(what):
                    ran.append(what)

                jobs = [client.once_per("report", tick=due)(report) for _ in range(2)]
                self.assertEqual([await job("this") for job in jobs], [True, False])

                @client.once_per("fails", tick=due)
                async def fails():
                    raise RuntimeError("oh no")

                with self.assertRaises(RuntimeError):
                    await fails()
                self.assertFalse(await fails())
                hourly = client.once_per("hourly", every=3_600)
                async with await hourly.begin() as tick:
                    self.assertTrue(tick.held and tick.fence > 0)
                    self.assertIsNone(await hourly.begin())
                self.assertFalse(tick.held or await tick.end())
                # Who is cancelled while it waits has no tick.
                first = await client.once_per("again", tick=due, at_least_once=True).begin()
                again = client.once_per("again", tick=due, at_least_once=True, wait=None)
                waits = asyncio.ensure_future(again.begin())
                await asyncio.sleep(0.2)
                waits.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waits
                await first.release()
                async with await again.begin() as tick:
                    self.assertGreater(tick.fence, first.fence)

        asyncio.run(asyncio.wait_for(main(), LONG))
        self.assertEqual(ran, ["this"])
        self.assertIn("oh no", self.tenure("show", "once/fails").stdout)

    def test_ranges_and_what_has_readers(self):
        async def main():
            async with tenure.AsyncClient(self.address) as client:
                async with client.ranges("mail", "0_80", lasts=60) as mine:
                    self.assertEqual((mine.ranges, mine.held), (["0_80"], True))
                    with self.assertRaises(tenure.HeldByAnother):
                        await client.ranges("mail", "0_c0", lasts=60, all=True)
                async with client.shared("rw"), client.shared("rw"):
                    with self.assertRaises(tenure.HeldByAnother):
                        await client.exclusive("rw")

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_units_are_done_or_fail_or_go_back_when_their_worker_is_cancelled(self):
        told = []

        async def main():
            async with tenure.AsyncClient(self.address) as client:
                stop = asyncio.Event()

                async def body(unit):
                    unit.check()
                    told.append((unit.name, unit.fields.get("checkpoint")))
                    if told[-1] == ("u3", None):
                        await unit.checkpoint("half")
                        raise RuntimeError("not today")
                    if ("u3", "half") in told and len({name for name, _ in told}) == 4:
                        stop.set()

                await client.work("f", body, units=[f"u{n}" for n in range(4)], ttl=2, stop=stop)
                self.assertIn(("u3", "half"), told)
                begun = asyncio.Event()

                async def endless(unit):
                    begun.set()
                    await asyncio.sleep(LONG)

                works = asyncio.ensure_future(client.work("g", endless, units=["u"], ttl=60))
                await begun.wait()
                works.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await works
                # Given back, and neither kept for a minute nor left alone for one, as if it had failed.
                async with await client.worker("g", ttl=60) as worker:
                    begin, unit = time.monotonic(), None
                    while unit is None:
                        unit = await worker.next(1)
                    self.assertLess(time.monotonic() - begin, 30)
                    async with unit:
                        self.assertTrue(unit.wanted and unit.fence > 0)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_worker_is_cancelled_also_while_no_agent_is_there(self):
        async def main():
            async with tenure.AsyncClient(self.address) as client:
                begun = asyncio.Event()

                async def endless(unit):
                    begun.set()
                    await asyncio.sleep(LONG)

                works = asyncio.ensure_future(client.work("f", endless, units=["u"], ttl=60))
                await begun.wait()
                self.agent.kill()
                self.agent.wait()
                works.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await works

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_worker_joins_anew_when_its_agent_was_started_anew(self):
        fences = []

        async def main():
            async with tenure.AsyncClient(self.address) as client:
                stop = asyncio.Event()

                async def body(unit):
                    fences.append(unit.fence)
                    if len(fences) == 1:
                        await asyncio.to_thread(self.agent.kill)
                        await asyncio.to_thread(self.agent.wait)
                        while unit.wanted:
                            await asyncio.sleep(0.01)
                        await asyncio.to_thread(self.start)
                    else:
                        stop.set()

                await client.work("f", body, units=["u"], ttl=2, stop=stop)

        asyncio.run(asyncio.wait_for(main(), LONG))
        self.assertEqual(fences, sorted(set(fences)))
        self.assertEqual(len(fences), 2)


if __name__ == "__main__":
    unittest.main()
