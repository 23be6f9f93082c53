//! The simulator as a program of its own: `cargo run --release -p tenure-sim --example sim -- --scenario usual --hours 1000`.
#![allow(clippy::disallowed_methods, reason = "it tells how fast it was")]

use clap::Parser as _;
use std::process::ExitCode;
use tenure_core::InvalidInput;
use tenure_sim::{SimArgs, SimReport};

fn main() -> ExitCode {
    let typed = SimArgs::parse();
    if typed.list {
        print!("{}", SimArgs::names());
        return ExitCode::SUCCESS;
    }
    let began = std::time::Instant::now();
    match report(&typed) {
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

fn report(typed: &SimArgs) -> Result<SimReport, InvalidInput> {
    if typed.json {
        return Err(InvalidInput::new("this program prints no JSON; `tenure sim --json` does"));
    }
    tenure_sim::run(&typed.options()?)
}
