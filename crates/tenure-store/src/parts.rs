//! Parts that several stores are made of, or what holds leases on them, for whoever writes another one.

mod admission;
mod aside;
mod call;
mod columns;
mod login;
mod nap;
mod options;
mod panics;
mod password;
mod prefix;
mod shared_call;
mod silence;
mod split_mix;
mod subscribers;
#[cfg(feature = "tls")]
mod tls;
mod turn_lock;

pub use admission::{Admission, Right};
pub use aside::aside;
pub use call::Call;
pub use columns::{Columns, fence_column};
pub use login::{check_login, check_nobody};
pub use nap::{nap, sleep_while};
pub use options::{UrlOption, check_span, is_loopback};
pub use panics::{caught, crashed, quietly, quietly_or};
pub use password::Password;
pub use prefix::end_of_prefix;
pub use shared_call::SharedCall;
pub use silence::{Silence, Wait};
pub use split_mix::SplitMix64;
pub use subscribers::{Subscribers, Teller};
#[cfg(feature = "tls")]
pub use tls::tls_client;
pub use turn_lock::{TurnGuard, TurnLock};
