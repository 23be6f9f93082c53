//! Conditional changes of a row: what is asked of the service, and what its answer means. Nothing here does I/O.
//!
//! Each change is conditional on the counter *and* the owner as they were read, which is what `a8m/lease` demands and more
//! than the KCL does; and in the KCL's layout on `checkpointOwner` too. So it loses wherever a peer's would, and never writes
//! over what it has not seen.

use super::format::{Format, Unowned};
use super::row::{
    CHECKPOINT_OWNER, Fields, GIVEN_BACK, LEASE_COUNTER, LEASE_KEY, LEASE_OWNER, OWNER_SWITCHES, Row,
    check_fields,
};
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::StoreError;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::{number, text};

/// What is to become of the users' fields of a row.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Edit {
    pub(crate) set: Fields,
    pub(crate) remove: BTreeSet<String>,
}

impl Edit {
    /// Nothing changes.
    #[must_use]
    pub fn new() -> Self {
        Edit::default()
    }

    /// The field gets that value, of any type that DynamoDB has.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: AttributeValue) -> Self {
        let name = name.into();
        self.remove.remove(&name);
        self.set.insert(name, value);
        self
    }

    /// The field goes.
    #[must_use]
    pub fn remove(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.set.remove(&name);
        self.remove.insert(name);
        self
    }

    pub(crate) fn check(&self, format: Format) -> Result<(), StoreError> {
        check_fields(format, self.set.keys().chain(&self.remove))
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// The expressions of a request, with the names and values in them.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Expressions {
    pub(crate) update: String,
    pub(crate) condition: String,
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) values: BTreeMap<String, AttributeValue>,
}

impl Expressions {
    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#{name}");
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn is(&mut self, name: &str, value: Option<&AttributeValue>) -> String {
        let placeholder = self.name(name);
        match value {
            None => format!("attribute_not_exists({placeholder})"),
            Some(value) => {
                self.values.insert(format!(":{name}"), value.clone());
                format!("{placeholder} = :{name}")
            }
        }
    }

    fn set(&mut self, term: &str) {
        let update = &mut self.update;
        *update = if update.is_empty() { format!("SET {term}") } else { format!("{update}, {term}") };
    }

    fn edit(&mut self, edit: &Edit) {
        for (place, (name, value)) in edit.set.iter().enumerate() {
            self.names.insert(format!("#f{place}"), name.clone());
            self.values.insert(format!(":f{place}"), value.clone());
            self.set(&format!("#f{place} = :f{place}"));
        }
        for (place, name) in edit.remove.iter().enumerate() {
            self.names.insert(format!("#g{place}"), name.clone());
        }
        let gone: Vec<String> = (0..edit.remove.len()).map(|place| format!("#g{place}")).collect();
        if !gone.is_empty() {
            let space = if self.update.is_empty() { "" } else { " " };
            self.update.push_str(&format!("{space}REMOVE {}", gone.join(", ")));
        }
    }

    fn unchanged(&mut self, format: Format, row: &Row) {
        let mut all = vec![
            self.is(LEASE_COUNTER, Some(&number(row.counter))),
            self.is(LEASE_OWNER, row.owner.as_ref()),
        ];
        if format.is_kcl() {
            all.push(self.is(CHECKPOINT_OWNER, row.checkpoint_owner.as_ref()));
        }
        self.condition = all.join(" AND ");
    }
}

/// What a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeAim {
    /// To be, or stay, the one that works on it.
    Hold,
    /// To be rid of it.
    GiveUp,
    /// That it is gone.
    Delete,
}

/// A change of a row that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowChange {
    pub(crate) aim: ChangeAim,
    pub(crate) before: Row,
    /// As it will be, but for fields that others change at the same time.
    pub(crate) after: Row,
    pub(crate) expressions: Expressions,
}

/// What a row that was found in place of an answer means for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeTrace {
    /// The change has been made.
    Made,
    /// It has not been made yet, and may be repeated.
    NotYet,
    /// It can't be made any more.
    Never,
}

impl RowChange {
    /// The worker takes the row, whoever has it.
    pub(crate) fn take(format: Format, row: &Row, worker: &str) -> RowChange {
        let mut change = RowChange::new(ChangeAim::Hold, format, row);
        change.own(Some(text(worker)));
        change.count();
        // The KCL goes by the next owner where a handoff is pending.
        let is_switch =
            row.owner().is_some_and(|owner| owner != worker) || row.handing_over() == Some(worker);
        if format.is_kcl() {
            if change.after.checkpoint_owner.take().is_some() {
                let name = change.expressions.name(CHECKPOINT_OWNER);
                change.expressions.update.push_str(&format!(" REMOVE {name}"));
            }
            if is_switch {
                let name = change.expressions.name(OWNER_SWITCHES);
                change.expressions.values.insert(":one".to_owned(), number(1));
                change.expressions.update.push_str(&format!(" ADD {name} :one"));
            }
        }
        change
    }

    /// Whoever works on the row goes on doing so, and may change its fields.
    pub(crate) fn renew(format: Format, row: &Row, edit: &Edit) -> RowChange {
        let mut change = RowChange::new(ChangeAim::Hold, format, row);
        change.count();
        change.edit(edit);
        change
    }

    /// Whoever has the row alone gives it back: as an eviction, and it says that nobody believes in it.
    pub(crate) fn give_back(format: Format, row: &Row) -> RowChange {
        let mut change = RowChange::evict(format, row);
        if change.after.holder().is_none() {
            let (name, counter) = (change.expressions.name(GIVEN_BACK), change.after.counter);
            change.expressions.values.insert(":givenBack".to_owned(), number(counter));
            let update = std::mem::take(&mut change.expressions.update);
            change.expressions.update = update.replacen("SET ", &format!("SET {name} = :givenBack, "), 1);
            if !update.contains("SET ") {
                change.expressions.update = format!("SET {name} = :givenBack {update}");
            }
            change.after.given_back = Some(counter);
        }
        change
    }

    /// Nobody has the row; or, if it is being handed over, the next one does.
    pub(crate) fn evict(format: Format, row: &Row) -> RowChange {
        let mut change = RowChange::new(ChangeAim::GiveUp, format, row);
        if format.is_kcl() {
            change.count();
        }
        if change.after.checkpoint_owner.take().is_some() {
            let name = change.expressions.name(CHECKPOINT_OWNER);
            change.expressions.update.push_str(&format!(" REMOVE {name}"));
            return change;
        }
        match format.unowned {
            Unowned::Null => change.own(Some(text("NULL"))),
            Unowned::Absent => change.own(None),
        }
        change
    }

    /// The row goes.
    pub(crate) fn delete(format: Format, row: &Row) -> RowChange {
        RowChange::new(ChangeAim::Delete, format, row)
    }

    fn new(aim: ChangeAim, format: Format, row: &Row) -> RowChange {
        let mut expressions = Expressions::default();
        expressions.unchanged(format, row);
        RowChange { aim, before: row.clone(), after: row.clone(), expressions }
    }

    fn count(&mut self) {
        self.count_to(self.after.counter + 1);
        self.expressions.set("#leaseCounter = :next");
    }

    /// Counts to that, which is more than the row's counter, where it counts at all.
    pub(crate) fn count_to(&mut self, counter: u64) {
        self.after.counter = counter;
        self.expressions.values.insert(":next".to_owned(), number(counter));
    }

    fn own(&mut self, owner: Option<AttributeValue>) {
        match &owner {
            Some(value) => {
                self.expressions.values.insert(":owner".to_owned(), value.clone());
                self.expressions.set("#leaseOwner = :owner");
            }
            None => self.expressions.update.push_str(if self.expressions.update.is_empty() {
                "REMOVE #leaseOwner"
            } else {
                " REMOVE #leaseOwner"
            }),
        }
        self.after.owner = owner;
    }

    fn edit(&mut self, edit: &Edit) {
        self.expressions.edit(edit);
        self.after.fields.extend(edit.set.clone());
        self.after.fields.retain(|name, _| !edit.remove.contains(name));
    }

    /// What the row that stands there now says about this change, an earlier request for which may have been answered or not.
    pub(crate) fn trace(&self, standing: Option<&Row>, may_be_made: bool) -> ChangeTrace {
        if standing.is_some_and(|row| row.is_same(&self.before)) {
            return ChangeTrace::NotYet;
        }
        let is_made = match (self.aim, standing) {
            (ChangeAim::Hold, Some(row)) => row.is_same(&self.after),
            (ChangeAim::Hold, None) => false,
            // The KCL's leader has begun a handoff, which does not count. An eviction that counts was not made.
            (ChangeAim::GiveUp, Some(row)) if row.counter == self.before.counter => {
                self.after.counter == self.before.counter
            }
            // What came after it does not matter: it can't be ours any more, unless it never was.
            (ChangeAim::GiveUp, _) => true,
            (ChangeAim::Delete, row) => row.is_none(),
        };
        if is_made && may_be_made { ChangeTrace::Made } else { ChangeTrace::Never }
    }
}

/// A change of the users' fields without any condition but that there is such a row.
pub(crate) fn forced(edit: &Edit) -> Expressions {
    let mut expressions = Expressions::default();
    expressions.edit(edit);
    let key = expressions.name(LEASE_KEY);
    expressions.condition = format!("attribute_exists({key})");
    expressions
}

#[cfg(test)]
mod tests {
    //! Plan: the exact expressions of each change in both layouts; what a row that is found means for a change whose answer was
    //! lost, and for one that was refused.
    use super::*;

    fn row(format: Format, owner: Option<&str>, handing_over: Option<&str>) -> Row {
        let mut row = Row::new(format, "a", Fields::new()).unwrap();
        row.counter = 7;
        row.owner = owner.map(text);
        row.checkpoint_owner = handing_over.map(text);
        row
    }

    fn shown(change: &RowChange) -> (&str, &str) {
        (&change.expressions.update, &change.expressions.condition)
    }

    const AS_READ: &str = "#leaseCounter = :leaseCounter AND #leaseOwner = :leaseOwner";
    const HANDING: &str = " AND attribute_not_exists(#checkpointOwner)";

    #[test]
    fn the_kcl_s_requests_are_these() {
        let format = Format::kcl();
        let (free, held) = (row(format, None, None), row(format, Some("w"), None));
        let as_read = format!("{AS_READ}{HANDING}");
        let take = RowChange::take(format, &free, "me");
        assert_eq!(
            shown(&take),
            (
                "SET #leaseOwner = :owner, #leaseCounter = :next",
                "#leaseCounter = :leaseCounter AND attribute_not_exists(#leaseOwner) AND attribute_not_exists(#checkpointOwner)"
            )
        );
        assert_eq!(take.expressions.values.get(":leaseCounter"), Some(&number(7)));
        assert_eq!(take.expressions.values.get(":next"), Some(&number(8)));
        assert_eq!((take.after.owner(), take.after.counter()), (Some("me"), 8));
        let steal = RowChange::take(format, &held, "me");
        let switch = "SET #leaseOwner = :owner, #leaseCounter = :next ADD #ownerSwitchesSinceCheckpoint :one";
        assert_eq!(shown(&steal), (switch, &*as_read));
        let again = RowChange::take(format, &held, "w");
        assert_eq!(shown(&again).0, "SET #leaseOwner = :owner, #leaseCounter = :next", "no switch of owners");
        assert_eq!(
            shown(&RowChange::renew(format, &held, &Edit::new())),
            ("SET #leaseCounter = :next", &*as_read)
        );
        let evict = RowChange::evict(format, &held);
        assert_eq!(shown(&evict), ("SET #leaseCounter = :next REMOVE #leaseOwner", &*as_read));
        assert_eq!((evict.after.owner(), evict.after.counter()), (None, 8));
        assert_eq!(shown(&RowChange::delete(format, &held)), ("", &*as_read));
    }

    #[test]
    fn what_is_given_back_says_so() {
        for (format, update, counter) in [
            (Format::kcl(), "SET #tenureGivenBack = :givenBack, #leaseCounter = :next REMOVE #leaseOwner", 8),
            (Format::a8m(), "SET #tenureGivenBack = :givenBack, #leaseOwner = :owner", 7),
            (
                Format::a8m().unowned(Unowned::Absent),
                "SET #tenureGivenBack = :givenBack REMOVE #leaseOwner",
                7,
            ),
        ] {
            let held = row(format, Some("w"), None);
            let back = RowChange::give_back(format, &held);
            assert_eq!(shown(&back), (update, shown(&RowChange::evict(format, &held)).1));
            assert_eq!(back.expressions.values.get(":givenBack"), Some(&number(counter)));
            assert!(back.after.is_surely_free() && !RowChange::evict(format, &held).after.is_surely_free());
            let again = RowChange::take(format, &back.after, "v");
            assert!(
                !RowChange::evict(format, &again.after).after.is_surely_free(),
                "that was another tenure"
            );
        }
        let handing = row(Format::kcl(), Some("next"), Some("me"));
        assert_eq!(RowChange::give_back(Format::kcl(), &handing), RowChange::evict(Format::kcl(), &handing));
    }

    #[test]
    fn a_handoff_of_the_kcl_s_is_carried_on() {
        let format = Format::kcl();
        let handing = row(format, Some("next"), Some("me"));
        let condition = format!("{AS_READ} AND #checkpointOwner = :checkpointOwner");
        let renew = RowChange::renew(format, &handing, &Edit::new());
        assert_eq!(shown(&renew), ("SET #leaseCounter = :next", &*condition));
        assert_eq!(renew.after.holder(), Some("me"));
        let evict = RowChange::evict(format, &handing);
        assert_eq!(shown(&evict), ("SET #leaseCounter = :next REMOVE #checkpointOwner", &*condition));
        assert_eq!(evict.after.holder(), Some("next"), "the next one has it, and nobody else may");
        let take = RowChange::take(format, &handing, "third");
        let update = "SET #leaseOwner = :owner, #leaseCounter = :next REMOVE #checkpointOwner \
                      ADD #ownerSwitchesSinceCheckpoint :one";
        assert_eq!(shown(&take), (update, &*condition));
        // The KCL goes by the next owner. Whoever hands it over and takes it back is another.
        assert_eq!(shown(&RowChange::take(format, &handing, "me")), (update, &*condition));
        let no_switch = "SET #leaseOwner = :owner, #leaseCounter = :next REMOVE #checkpointOwner";
        assert_eq!(shown(&RowChange::take(format, &handing, "next")), (no_switch, &*condition));
    }

    #[test]
    fn a8m_s_requests_are_these() {
        let format = Format::a8m();
        let held = row(format, Some("w"), None);
        assert_eq!(
            shown(&RowChange::take(format, &held, "me")),
            ("SET #leaseOwner = :owner, #leaseCounter = :next", AS_READ)
        );
        assert_eq!(
            shown(&RowChange::renew(format, &held, &Edit::new())),
            ("SET #leaseCounter = :next", AS_READ)
        );
        let evict = RowChange::evict(format, &held);
        assert_eq!(shown(&evict), ("SET #leaseOwner = :owner", AS_READ));
        assert_eq!((&evict.after.owner, evict.after.counter()), (&Some(text("NULL")), 7));
        let absent = RowChange::evict(format.unowned(Unowned::Absent), &held);
        assert_eq!(shown(&absent), ("REMOVE #leaseOwner", AS_READ));
    }

    #[test]
    fn fields_are_edited_by_name_and_nothing_else_is() {
        let format = Format::a8m();
        let edit = Edit::new().set("size", number(5)).remove("size").set("b.c", text("x")).remove("old");
        let change = RowChange::renew(format, &row(format, Some("w"), None), &edit);
        assert_eq!(shown(&change).0, "SET #leaseCounter = :next, #f0 = :f0 REMOVE #g0, #g1");
        let names = &change.expressions.names;
        let named = ["#f0", "#g0", "#g1"].map(|place| names.get(place).map(String::as_str));
        assert_eq!(named, [Some("b.c"), Some("old"), Some("size")]);
        let forced = forced(&edit);
        assert_eq!(forced.update, "SET #f0 = :f0 REMOVE #g0, #g1");
        assert_eq!(forced.condition, "attribute_exists(#leaseKey)");
        assert!(Edit::new().set(LEASE_OWNER, text("me")).check(format).is_err());
        assert!(Edit::new().remove(LEASE_COUNTER).check(format).is_err());
    }

    #[test]
    fn a_row_that_is_found_tells_what_became_of_a_change() {
        let format = Format::kcl();
        let held = row(format, Some("me"), None);
        let renew = RowChange::renew(format, &held, &Edit::new());
        let theirs = RowChange::take(format, &held, "w").after;
        assert_eq!(renew.trace(Some(&held), true), ChangeTrace::NotYet);
        assert_eq!(renew.trace(Some(&renew.after), true), ChangeTrace::Made);
        assert_eq!(renew.trace(Some(&renew.after), false), ChangeTrace::Never, "one of our name wrote it");
        assert_eq!(renew.trace(Some(&theirs), true), ChangeTrace::Never);
        assert_eq!(renew.trace(None, true), ChangeTrace::Never);
        let evict = RowChange::evict(format, &held);
        assert_eq!(evict.trace(Some(&held), true), ChangeTrace::NotYet);
        assert_eq!(evict.trace(Some(&theirs), true), ChangeTrace::Made);
        assert_eq!(evict.trace(Some(&theirs), false), ChangeTrace::Never);
        let mut handing = row(format, Some("next"), Some("me"));
        assert_eq!(evict.trace(Some(&handing), true), ChangeTrace::Never, "no eviction leaves the counter");
        handing.counter += 1;
        assert_eq!(evict.trace(Some(&handing), true), ChangeTrace::Made);
        let (a8m, other) = (Format::a8m(), row(Format::a8m(), Some("w"), None));
        let evict = RowChange::evict(a8m, &row(a8m, Some("me"), None));
        assert_eq!(evict.trace(Some(&other), true), ChangeTrace::Made, "a8m's does");
        let delete = RowChange::delete(format, &held);
        assert_eq!(delete.trace(None, true), ChangeTrace::Made);
        assert_eq!(delete.trace(Some(&theirs), true), ChangeTrace::Never);
        assert_eq!(delete.trace(Some(&held), true), ChangeTrace::NotYet);
    }
}
