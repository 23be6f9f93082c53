//! The simulator as a program of its own: `cargo run --release -p tenure-sim --example sim -- --scenario usual --hours 1000`.
#![allow(clippy::disallowed_methods, reason = "it tells how fast it was")]

use std::process::ExitCode;
use tenure_sim::SimCommand;

fn main() -> ExitCode {
    let options = match tenure_sim::parse(std::env::args().skip(1)) {
        Ok(SimCommand::Run(options)) => options,
        Ok(SimCommand::Text(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let began = std::time::Instant::now();
    match tenure_sim::run(&options) {
        Ok(report) => {
            let took = began.elapsed().as_secs_f64();
            println!("{report}");
            let (seconds, events) = (report.seconds() / took, report.events as f64 / took);
            println!(
                "{took:.2} s of real time: {seconds:.0} simulated seconds a second, {events:.0} events a second"
            );
            ExitCode::from(u8::from(report.failure.is_some()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
