//! Runs the simulator for some hours: `cargo run --release -p tenure-sim --example sim -- [scenario|all] [hours] [seed]`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "an example that measures real time")]

fn main() {
    let mut args = std::env::args().skip(1);
    let scenario = args.next().filter(|name| name != "all");
    let hours = args.next().map_or(1000.0, |text| text.parse().unwrap());
    let seed = args.next().map_or(1, |text| text.parse().unwrap());
    let options = tenure_sim::Options { scenario, hours, seed, ..tenure_sim::Options::default() };
    let began = std::time::Instant::now();
    let report = tenure_sim::run(&options).unwrap();
    let took = began.elapsed().as_secs_f64();
    println!("{report}");
    println!(
        "{:.2} s real, {:.0} simulated seconds a second, {:.0} events a second",
        took,
        report.seconds() / took,
        report.events as f64 / took
    );
}
