//! Programs that run side by side: most of a test's time is waiting, and what waits leaves its core to another.
//!
//! The tests share some lanes, and chores such as lints have one of their own beside them, with a low priority. What mostly waits and is no
//! program of tests fills the lanes while the last chores run, and what is left of it runs together with faults after them: these have bounds, and
//! one missed its beside compilers. What asserts how soon something happens
//! runs last, alone. Tests that only compute have lanes of their own from the beginning to the end: the system gives them nothing but the time
//! in which a core would be idle, so that nobody waits for them.
#![allow(clippy::disallowed_methods, reason = "chores take real time, and that is what is shown")]

use crate::processor_time::{of_children, of_children_since};
use crate::stops::{self, Stops};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long nobody looks whether one has ended. Looking five times as often took 26 s of a run.
const LOOK: Duration = Duration::from_millis(50);

/// A program to run.
pub(crate) struct LaneJob {
    pub(crate) name: String,
    pub(crate) command: Command,
    pub(crate) place: Placement,
    /// One that takes longer hangs.
    pub(crate) limit: Duration,
    /// What a program of tests must tell; nothing is asked of others.
    pub(crate) tests: Option<TestCount>,
}

/// How many tests must have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestCount {
    Some,
    Exactly(usize),
}

/// Beside what a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Others of its kind.
    Shared,
    /// Everything, in the time in which a core would be idle: it computes, and waits for nothing.
    Computing,
    /// Those that share lanes, with what they leave of the cores; one at a time.
    Beside,
    /// The last chores, where no test wants the lane; or what runs together. It mostly waits, and is no program of tests.
    Filling,
    /// Others of its kind, and no tests but what computes: it mostly waits, is no program of tests, and bears no compiler beside it.
    Together,
    /// Nothing but what computes: it asserts how long something takes.
    Alone,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) struct FinishedJob {
    pub(crate) name: String,
    pub(crate) place: Placement,
    pub(crate) took: Duration,
    /// The processor time of it and of its children, where the system tells.
    pub(crate) processor: Option<Duration>,
    /// All that it printed, in one piece.
    pub(crate) output: String,
    pub(crate) result: Result<(), String>,
    pub(crate) tests: Option<TestCount>,
}

/// Which stage is that of what runs together.
const TOGETHER: usize = 1;

/// How many run at once, and where what they print is kept.
pub(crate) struct Lanes {
    pub(crate) count: usize,
    /// The same for what computes.
    pub(crate) computing: usize,
    pub(crate) folder: PathBuf,
    /// Whether those that share lanes are stopped for a moment now and then.
    pub(crate) with_stops: bool,
}

struct RunningJob {
    name: String,
    place: Placement,
    limit: Duration,
    tests: Option<TestCount>,
    child: Child,
    start: Instant,
    log: PathBuf,
}

/// The jobs of one place, in their order.
struct LaneQueue {
    waiting: VecDeque<LaneJob>,
    running: Vec<RunningJob>,
    count: usize,
}

impl LaneQueue {
    fn has_work(&self) -> bool {
        !(self.waiting.is_empty() && self.running.is_empty())
    }

    /// So many of its lanes it does not want itself.
    fn free(&self) -> usize {
        self.count.saturating_sub(self.waiting.len() + self.running.len())
    }
}

impl Lanes {
    /// Runs them all, whatever becomes of one: in their order, but those last that run alone. Each is told of as it ends.
    pub(crate) fn run(&self, jobs: Vec<LaneJob>, mut tell: impl FnMut(&FinishedJob)) -> Vec<FinishedJob> {
        let of = |place: Placement, jobs: &mut Vec<LaneJob>, count| {
            let waiting = jobs.extract_if(.., |job| job.place == place).collect();
            LaneQueue { waiting, running: Vec::new(), count }
        };
        let mut jobs = jobs;
        let mut computing = of(Placement::Computing, &mut jobs, self.computing);
        let mut filling = of(Placement::Filling, &mut jobs, 0);
        let first = vec![of(Placement::Shared, &mut jobs, self.count), of(Placement::Beside, &mut jobs, 1)];
        let then = vec![of(Placement::Together, &mut jobs, self.count)];
        let last = vec![of(Placement::Alone, &mut jobs, 1)];
        let mut all = Vec::new();
        let start = Instant::now();
        let mut stops = self.with_stops.then(Stops::default);
        let stages = [first, then, last, Vec::new()];
        let count = stages.len();
        for (stage, mut queues) in stages.into_iter().enumerate() {
            let is_last = stage + 1 == count;
            loop {
                let (room, must_end) = match queues.as_slice() {
                    [tests, chores] if chores.has_work() => (tests.free(), false),
                    [together] if stage == TOGETHER => (together.free(), true),
                    _ => (0, false),
                };
                let has_work = queues.iter().any(LaneQueue::has_work);
                if !(has_work || must_end && filling.has_work() || is_last && computing.has_work()) {
                    break;
                }
                filling.count = room;
                let all_queues = queues.iter_mut().chain([&mut filling, &mut computing]);
                let mut done: Vec<FinishedJob> = all_queues.flat_map(|queue| self.go_on(queue)).collect();
                if let Some(stops) = &mut stops {
                    let running = queues.iter().flat_map(|queue| &queue.running);
                    let shared = running.filter(|running| running.place == Placement::Shared);
                    let processes: Vec<u32> = shared.map(|running| running.child.id()).collect();
                    if let Some((signal, process)) = stops.due(start.elapsed(), &processes) {
                        stops::send(signal, process);
                    }
                }
                if done.is_empty() {
                    std::thread::sleep(LOOK);
                }
                done.iter().for_each(&mut tell);
                all.append(&mut done);
            }
        }
        all
    }

    /// Starts what there is room for, and tells what has ended.
    fn go_on(&self, queue: &mut LaneQueue) -> Vec<FinishedJob> {
        let mut done = Vec::new();
        while queue.running.len() < queue.count
            && let Some(job) = queue.waiting.pop_front()
        {
            match self.start(job) {
                Ok(started) => queue.running.push(started),
                Err(failed) => done.push(*failed),
            }
        }
        queue.running.retain_mut(|running| match self.end(running) {
            Some(ended) => {
                done.push(ended);
                false
            }
            None => true,
        });
        done
    }

    fn start(&self, mut job: LaneJob) -> Result<RunningJob, Box<FinishedJob>> {
        let log = self.folder.join(format!("{}.log", job.name.replace(['/', ':'], "-")));
        let started = std::fs::create_dir_all(&self.folder).and_then(|()| {
            let out = std::fs::File::create(&log)?;
            let err = out.try_clone()?;
            job.command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()
        });
        match started {
            Ok(child) => Ok(RunningJob {
                name: job.name,
                place: job.place,
                limit: job.limit,
                tests: job.tests,
                child,
                start: Instant::now(),
                log,
            }),
            Err(error) => Err(Box::new(FinishedJob {
                name: job.name,
                place: job.place,
                took: Duration::ZERO,
                processor: None,
                output: String::new(),
                result: Err(format!("did not start: {error}")),
                tests: job.tests,
            })),
        }
    }

    /// Nothing while it runs.
    fn end(&self, running: &mut RunningJob) -> Option<FinishedJob> {
        // Children are reaped one at a time, so what ours have used grows by what this one has used.
        let before = of_children();
        let took = running.start.elapsed();
        let result = match running.child.try_wait() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(status.to_string()),
            Ok(None) if took < running.limit => return None,
            Ok(None) => {
                // That it has just ended by itself is no reason to say anything else.
                let _ = running.child.kill().and_then(|()| running.child.wait());
                Err(format!("not done after {} s", running.limit.as_secs()))
            }
            Err(error) => Err(format!("was lost: {error}")),
        };
        let processor = of_children_since(before);
        let output = std::fs::read(&running.log).map_or_else(
            |error| format!("{}: {error}\n", running.log.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        );
        let name = std::mem::take(&mut running.name);
        let (place, tests) = (running.place, running.tests);
        Some(FinishedJob { name, place, took, processor, output, result, tests })
    }
}

#[cfg(test)]
mod tests {
    //! Plan: as many run at once as there are lanes, and those that run alone after them, one by one; a chore and what computes run beside full lanes,
    //! each with its priority; what computes also goes on beside what runs alone; what each printed is in one piece; one that fails, can't be started or hangs is told, and the others run all the same;
    //! stops, which end.
    use super::*;
    use crate::command::{idle, nice};

    fn job(name: &str, script: &str) -> LaneJob {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let limit = Duration::from_secs(60);
        LaneJob { name: name.into(), command, place: Placement::Shared, limit, tests: None }
    }

    fn run(jobs: Vec<LaneJob>, name: &str) -> Vec<FinishedJob> {
        let folder = std::env::temp_dir().join(format!("tenure-lanes-{name}-{}", std::process::id()));
        let mut told = Vec::new();
        let lanes = Lanes { count: 2, computing: 1, folder: folder.clone(), with_stops: false };
        let done = lanes.run(jobs, |done| told.push(done.name.clone()));
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(told, done.iter().map(|done| done.name.clone()).collect::<Vec<_>>());
        done
    }

    #[test]
    fn two_run_at_once_and_others_alone_after_them() {
        let folder = std::env::temp_dir().join(format!("tenure-lanes-met-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.display();
        // Each of two ends only if the other one runs; the third finds that both are over.
        let meets = |me: &str, other: &str| {
            format!(
                "touch {at}/{me}; until [ -e {at}/{other} ]; do sleep 0.01; done; echo {me} met {other}; touch {at}/{me}.over"
            )
        };
        let mut last = job("last", &format!("[ -e {at}/a.over ] && [ -e {at}/b.over ]"));
        last.place = Placement::Alone;
        let jobs = vec![last, job("a", &meets("a", "b")), job("b", &meets("b", "a"))];
        let done = run(jobs, "alone");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
        assert_eq!(done[2].name, "last");
        let outputs: Vec<&str> = done[..2].iter().map(|done| done.output.as_str()).collect();
        assert!(outputs.contains(&"a met b\n") && outputs.contains(&"b met a\n"), "{outputs:?}");
    }

    #[test]
    fn a_chore_runs_beside_full_lanes_and_ends_before_what_runs_alone_and_what_computes_goes_on_beside_that()
    {
        let folder = std::env::temp_dir().join(format!("tenure-lanes-beside-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.display();
        let waits = format!("until [ -e {at}/chore ] && [ -e {at}/computing ]; do sleep 0.01; done; nice");
        let mut chore =
            job("chore", &format!("nice; echo $WITH; touch {at}/chore; sleep 0.1; touch {at}/over"));
        chore.command = nice(chore.command.env("WITH", "this"));
        chore.place = Placement::Beside;
        let script = format!(
            "chrt -p $$ | head -n 1; echo $WITH; touch {at}/computing; until [ -e {at}/last ]; do sleep 0.01; done"
        );
        let mut computing = job("computing", &script);
        computing.command = idle(computing.command.env("WITH", "that"));
        computing.place = Placement::Computing;
        let mut last = job("last", &format!("[ -e {at}/over ] && touch {at}/last"));
        last.place = Placement::Alone;
        // Each of the two lanes is taken until both of them have run.
        let jobs = vec![last, job("a", &waits), job("b", &waits), chore, computing];
        let done = run(jobs, "chore");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
        let output = |name: &str| done.iter().find(|done| done.name == name).unwrap().output.clone();
        let own: u32 = output("a").trim().parse().unwrap();
        assert_eq!(output("chore"), format!("{}\nthis\n", (own + 10).min(19)));
        assert!(output("computing").ends_with("SCHED_IDLE\nthat\n"), "{}", output("computing"));
        assert_eq!((done[3].name.as_str(), done[4].name.as_str()), ("last", "computing"));
    }

    #[test]
    fn what_runs_together_does_so_after_tests_and_before_what_runs_alone() {
        let folder = std::env::temp_dir().join(format!("tenure-lanes-gathered-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.display();
        let placed = |place, name: &str, script: String| LaneJob { place, ..job(name, &script) };
        let meets = |me: &str, other: &str| {
            format!("[ -e {at}/test ] && touch {at}/{me} && until [ -e {at}/{other} ]; do sleep 0.01; done")
        };
        let jobs = vec![
            placed(Placement::Alone, "last", format!("[ -e {at}/a ] && [ -e {at}/b ]")),
            placed(Placement::Together, "a", meets("a", "b")),
            placed(Placement::Together, "b", meets("b", "a")),
            job("test", &format!("sleep 0.1; touch {at}/test")),
        ];
        let done = run(jobs, "together");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
        assert_eq!((done[0].name.as_str(), done[3].name.as_str()), ("test", "last"));
    }

    #[test]
    fn what_fails_is_told_and_the_others_run() {
        let missing = LaneJob { command: Command::new("/no/such/program"), ..job("missing", "") };
        let jobs = vec![missing, job("bad", "echo why >&2; exit 3"), job("good", "")];
        let done = run(jobs, "fails");
        let of = |name: &str| done.iter().find(|done| done.name == name).unwrap();
        assert!(of("missing").result.as_ref().unwrap_err().starts_with("did not start: "));
        assert_eq!(
            (of("bad").result.clone(), of("bad").output.as_str()),
            (Err("exit status: 3".into()), "why\n")
        );
        assert_eq!(of("good").result, Ok(()));
        let hangs = LaneJob { limit: Duration::from_millis(50), ..job("hangs", "exec sleep 600") };
        let done = run(vec![hangs], "hangs");
        assert_eq!(done[0].result, Err("not done after 0 s".into()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processor_time_is_told() {
        let done = run(
            vec![job("busy", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"), job("idle", "sleep 0.1")],
            "processor",
        );
        let of = |name: &str| done.iter().find(|done| done.name == name).unwrap().processor.unwrap();
        assert!(of("busy") > of("idle"), "{done:?}");
    }

    #[test]
    fn those_that_are_stopped_go_on() {
        let folder = std::env::temp_dir().join(format!("tenure-lanes-stops-{}", std::process::id()));
        let lanes = Lanes { count: 2, computing: 1, folder: folder.clone(), with_stops: true };
        // It ends when its parent has been seen to stop it.
        let watch = r#"(while kill -0 $$; do grep -q 'T (stopped)' /proc/$$/status && touch "$SEEN"; done) 2> /dev/null &
            until test -e "$SEEN"; do sleep 0.01; done; kill $!"#;
        let mut job = job("stopped", watch);
        job.command.env("SEEN", folder.join("seen"));
        let done = lanes.run(vec![job], |_| {});
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(done[0].result, Ok(()), "{}", done[0].output);
    }
}
