"""Holds a lease around some work, without any library: python3 hold.py KEY. Needs `tenure` in the PATH, and Linux."""
import json, subprocess, sys, threading, time


class Lease:
    def __init__(self, key):
        command = ["tenure", "hold", key, "--json"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear(self.process.stdout.readline() or sys.exit(f"{key} was not acquired"))
        threading.Thread(target=lambda: [self.hear(line) for line in self.process.stdout], daemon=True).start()

    def hear(self, line):
        event = json.loads(line)
        if "deadline_boottime_ms" in event:  # "acquired" and "extended"
            self.fence, self.until = event["fence"], event["deadline_boottime_ms"]
        elif event["event"] in ("lost", "released"):  # "asked" ends nothing by itself; the fence stays, so that late writes are refused
            self.until = 0

    def is_held(self):
        return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000 < self.until

    def release(self):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    lease = Lease(sys.argv[1])
    print("working with fence", lease.fence, "held:", lease.is_held())
    lease.release()
