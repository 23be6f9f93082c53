//! Ranges of keys: half-open, over key spaces of any width.
//!
//! A key is an unsigned integer, a [`Point`]; of a hash of 32 bytes, say, the lowest is 0 and the highest 2^256 − 1. A
//! [`KeyRange`] holds the points from `low` up to, but without, `high`, which is why 2^256 is an allowed end. In text a range
//! is `low_high` in lower-case hexadecimal digits, as in LUCI's partitions, whose JSON form (the same text, quoted) is read and
//! written too.
//!
//! A [`RangeSet`] is any set of points, kept as sorted ranges that neither overlap nor touch.
//!
//! LUCI's names (of luci-go's `server/tq/internal/partition`) and ours: `Partition` is [`KeyRange`], `SortedPartitions` is
//! [`RangeSet`], `FromInts` is [`KeyRange::new`], `Universe` is [`KeyRange::universe_of_bytes`], `SpanInclusive` is
//! [`KeyRange::span_inclusive`], `QueryBounds` is [`KeyRange::query_bounds`], `Split` is [`KeyRange::split`],
//! `EducatedSplitAfter` is [`KeyRange::educated_split_after`], a `SortedPartitionsBuilder` with its `Exclude` and `Result` is
//! [`KeyRange::exclude_all`], and `OnlyIn` is [`RangeSet::only_in`].

mod integers;
mod key_range;
mod point;
mod set;
mod split;

pub use key_range::KeyRange;
pub use point::Point;
pub use set::RangeSet;
