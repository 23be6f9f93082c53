//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod common;

#[cfg(feature = "serve")]
mod agent_fleet;
#[cfg(feature = "serve")]
mod agent_once;
#[cfg(feature = "serve")]
mod agent_restart;
#[cfg(feature = "serve")]
mod agent_section;
#[cfg(feature = "serve")]
mod agent_tls;
#[cfg(all(feature = "less", feature = "postgres", feature = "redis"))]
mod away;
#[cfg(all(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
mod bad_input;
mod completions;
mod cron;
mod damaged;
#[cfg(feature = "serve")]
mod dashboard;
#[cfg(feature = "serve")]
mod dashboard_large;
#[cfg(all(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
mod doctor_servers;
#[cfg(feature = "dynamodb")]
mod doctor_tables;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod elect;
#[cfg(feature = "etcd")]
mod etcd;
mod every_page;
mod examples;
mod fleet;
mod fleet_forget;
mod fleet_ops;
mod fleet_says;
mod given_back;
mod gone;
mod hold;
mod holders;
mod input;
mod job_control;
mod job_verbs;
mod jobs;
mod json;
#[cfg(feature = "dynamodb")]
mod kcl;
mod kill;
mod large;
#[cfg(all(feature = "less", feature = "postgres"))]
mod less;
#[cfg(all(feature = "less", feature = "postgres"))]
mod let_in;
#[cfg(all(feature = "etcd", feature = "postgres", feature = "redis"))]
mod moved_name;
mod older_workers;
#[cfg(feature = "serve")]
mod operator;
mod ops;
mod packaging;
#[cfg(feature = "dynamodb")]
mod pages;
mod parallel_page;
mod permits;
#[cfg(feature = "postgres")]
mod postgres;
mod range;
mod read_only;
#[cfg(feature = "serve")]
mod ready;
#[cfg(feature = "redis")]
mod redis;
mod run;
mod run_nested;
mod runaway;
mod s9_rounds;
mod seize;
#[cfg(feature = "serve")]
mod serve;
mod settings;
mod side_by_side;
#[cfg(all(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
mod stores_page;
#[cfg(all(feature = "redis", feature = "postgres", feature = "dynamodb"))]
mod strange_servers;
mod stuck;
#[cfg(feature = "dynamodb")]
mod tabletheory;
#[cfg(feature = "serve")]
mod telemetry;
mod times;
mod top;
mod watchdog;
mod withdrawn;
mod work;
mod work_logged;
mod work_order;
mod work_output;
mod work_pieces;
mod work_processes;
mod work_progress;
mod work_runs;
mod workflows;
