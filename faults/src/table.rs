//! What a run says: a line for each cell, those that were not tested with the reason, and the count.

use crate::episode::CellResult;
use crate::matrix::{ELSEWHERE, InjectedFault, Promise};
use crate::servers::StoreKind;

/// What became of a cell.
#[derive(Debug)]
pub(crate) struct CellRow {
    pub(crate) kind: StoreKind,
    pub(crate) name: String,
    pub(crate) promise: &'static str,
    pub(crate) result: Result<CellResult, String>,
}

pub(crate) const HEAD: &str = "\
| store | fault | promise | episodes | tenures | double holds | old fences accepted | old fences refused | fences gone back | releases lost | slowest takeover, and its bound | |
|---|---|---|---|---|---|---|---|---|---|---|---|";

impl CellRow {
    pub(crate) fn new(
        kind: StoreKind,
        fault: InjectedFault,
        promise: Promise,
        result: Result<CellResult, String>,
    ) -> CellRow {
        CellRow { kind, name: fault.name().to_owned(), promise: promise.letter(), result }
    }

    pub(crate) fn is_right(&self) -> bool {
        self.result.as_ref().is_ok_and(CellResult::is_right)
    }

    pub(crate) fn line(&self) -> String {
        let CellRow { kind, name, promise, result } = self;
        let kind = kind.name();
        match result {
            Err(error) => format!("| {kind} | {name} | {promise} | | | | | | | | | **FAILED**: {error} |"),
            Ok(seen) => {
                let served =
                    seen.unserved.map(|n| format!("no write was done meanwhile in {n} of {}", seen.episodes));
                let mut wrong = String::new();
                if !seen.late_before.is_empty() {
                    wrong += &format!("played twice, since at first {}", seen.late_before.join("; "));
                }
                if !seen.is_right() {
                    let all: Vec<&str> = seen.wrong.iter().chain(&seen.late).map(String::as_str).collect();
                    let kept = seen.kept.as_ref();
                    let kept = kept.map_or(String::new(), |kept| format!(" (see {})", kept.display()));
                    wrong += &format!("**WRONG**: {}{kept}", all.join("; "));
                }
                format!(
                    "| {kind} | {name} | {promise} | {} | {} | {} | {} | {} | {} | {} | {:.2} of {:.2} s | \
                     {}{wrong} |",
                    seen.episodes,
                    seen.tenures,
                    seen.double_holds,
                    seen.old_accepted,
                    seen.refused,
                    seen.gone_back,
                    seen.lost_releases,
                    seen.slowest.0.as_secs_f64(),
                    seen.slowest.1.as_secs_f64(),
                    served.unwrap_or_default(),
                )
            }
        }
    }
}

/// All of it, in order.
pub(crate) fn print(rows: &[CellRow], not_tested: &[(StoreKind, InjectedFault, &'static str)]) {
    println!("\n{HEAD}");
    rows.iter().for_each(|row| println!("{}", row.line()));
    println!("\nNot tested:\n");
    for (kind, fault, reason) in not_tested {
        println!("- {}, {}: {reason}", kind.name(), fault.name());
    }
    for (what, where_else) in ELSEWHERE {
        println!("- all stores, {what}: {where_else}");
    }
    let (episodes, tenures) = rows
        .iter()
        .filter_map(|row| row.result.as_ref().ok())
        .fold((0, 0), |sum, seen| (sum.0 + seen.episodes, sum.1 + seen.tenures));
    let wrong = rows.iter().filter(|row| !row.is_right()).count();
    println!(
        "\n{} cells, {episodes} episodes, {tenures} tenures; {} right, {wrong} wrong",
        rows.len(),
        rows.len() - wrong
    );
}
