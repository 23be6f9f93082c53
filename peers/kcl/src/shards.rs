//! Shards of a stream, as the rows of the KCL's consumers name them: which have been read to their end, and which wait for their
//! parents. Rows without such attributes are neither.

use super::row::Row;
use std::collections::BTreeSet;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;

/// Each shard's parents, which were split or merged into it.
const PARENTS: &str = "parentShardId";
/// Where one table has the shards of several streams, a lease's name is that of its stream, and this after it.
const SHARD_ID: &str = "shardId";
/// The checkpoint of a shard that was read to its end.
const SHARD_END: &str = "SHARD_END";

/// The shards that are not read to their end yet, by the names of their leases.
#[derive(Debug)]
pub(crate) struct OpenShards<'r>(BTreeSet<&'r str>);

impl<'r> OpenShards<'r> {
    /// Those that these rows show. Of rows that can't be read it is not known that they were read to their end.
    pub(crate) fn of(rows: &'r [Row], unreadable: &'r [String]) -> OpenShards<'r> {
        let open = rows.iter().filter(|row| !is_at_end(row)).map(Row::key);
        OpenShards(open.chain(unreadable.iter().map(String::as_str)).collect())
    }

    /// Whether there is nothing to be read of it: not any more, or not yet.
    pub(crate) fn gives_no_work(&self, row: &Row) -> bool {
        is_at_end(row) || self.awaited_by(row).is_some()
    }

    /// A parent that has to be read to its end before it.
    pub(crate) fn awaited_by(&self, row: &Row) -> Option<String> {
        let is_open = |parent: &String| parent != row.key() && self.0.contains(&**parent);
        parents(row).into_iter().find(is_open)
    }
}

/// Whether its checkpoint says that it was read to its end.
pub(crate) fn is_at_end(row: &Row) -> bool {
    row.fields().get("checkpoint").and_then(|at| at.as_s().ok()).is_some_and(|at| at == SHARD_END)
}

/// The leases that are parents of others, which are not read to their end.
pub(crate) fn parents_in(rows: &[Row]) -> BTreeSet<String> {
    let of_row = |row: &Row| {
        let mut parents = parents(row);
        parents.retain(|parent| parent != row.key());
        parents
    };
    rows.iter().filter(|row| !is_at_end(row)).flat_map(of_row).collect()
}

/// The names of its parents' leases.
fn parents(row: &Row) -> Vec<String> {
    let shard = row.fields().get(SHARD_ID).and_then(|shard| shard.as_s().ok());
    let stream = shard.and_then(|shard| row.key().strip_suffix(&**shard)).unwrap_or_default();
    match row.fields().get(PARENTS) {
        Some(AttributeValue::Ss(parents)) => parents.iter().map(|id| format!("{stream}{id}")).collect(),
        Some(AttributeValue::S(parent)) => vec![format!("{stream}{parent}")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a shard is to be read once each of its parents was read to its end, or has no row any more; not after its own end; in a table
    //! of several streams, parents are those of its own; rows of other programs are always to be worked on.
    use super::*;
    use crate::format::Format;
    use crate::row::Fields;
    use tenure_dynamodb::service::text;

    fn row(key: &str, checkpoint: &str, parents: &[&str], shard: Option<&str>) -> Row {
        let mut fields: Fields = [("checkpoint".to_owned(), text(checkpoint))].into();
        if !parents.is_empty() {
            let parents = parents.iter().map(ToString::to_string).collect();
            fields.insert(PARENTS.to_owned(), AttributeValue::Ss(parents));
        }
        fields.extend(shard.map(|shard| (SHARD_ID.to_owned(), text(shard))));
        Row::new(Format::kcl(), key, fields).unwrap()
    }

    fn to_read(rows: &[Row]) -> Vec<&str> {
        let open = OpenShards::of(rows, &[]);
        rows.iter().filter(|row| !open.gives_no_work(row)).map(Row::key).collect()
    }

    #[test]
    fn parents_come_before_their_children_and_nothing_after_the_end() {
        let rows = |a: &str, b: &str| {
            [
                row("a", a, &[], None),
                row("b", b, &["gone"], None),
                row("merged", "TRIM_HORIZON", &["a", "b"], None),
                row("split", "TRIM_HORIZON", &["b"], None),
                row("own", "TRIM_HORIZON", &["own"], None),
            ]
        };
        assert_eq!(to_read(&rows("49", "50")), ["a", "b", "own"]);
        assert_eq!(to_read(&rows("49", "SHARD_END")), ["a", "split", "own"]);
        assert_eq!(to_read(&rows("SHARD_END", "SHARD_END")), ["merged", "split", "own"]);
    }

    #[test]
    fn a_parent_whose_row_can_not_be_read_is_waited_for() {
        let rows = [row("a", "49", &["damaged"], None), row("b", "49", &["gone"], None)];
        let unreadable = ["damaged".to_owned()];
        let open = OpenShards::of(&rows, &unreadable);
        assert!(open.gives_no_work(&rows[0]) && !open.gives_no_work(&rows[1]));
    }

    #[test]
    fn parents_are_those_of_the_same_stream() {
        let rows = [
            row("1:x:7:s1", "49", &[], Some("s1")),
            row("1:x:7:s2", "TRIM_HORIZON", &["s1"], Some("s2")),
            row("1:y:7:s1", "SHARD_END", &[], Some("s1")),
            row("1:y:7:s2", "TRIM_HORIZON", &["s1"], Some("s2")),
        ];
        assert_eq!(to_read(&rows), ["1:x:7:s1", "1:y:7:s2"]);
        assert_eq!(parents_in(&rows), ["1:x:7:s1", "1:y:7:s1"].map(str::to_owned).into());
    }

    #[test]
    fn rows_of_other_programs_are_always_work() {
        let fields = [
            ("checkpoint".to_owned(), AttributeValue::Bool(true)),
            (PARENTS.to_owned(), AttributeValue::Null(true)),
        ];
        let rows = [
            Row::new(Format::a8m(), "a", Fields::new()).unwrap(),
            Row::new(Format::kcl(), "b", fields.into()).unwrap(),
        ];
        assert_eq!(to_read(&rows), ["a", "b"]);
    }
}
