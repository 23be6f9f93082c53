//! `ls` and `show`.

use crate::args;
use crate::config;
use crate::exit::{self, Failure};
use crate::keys::{JobName, NAME, STATUS, UnitStatus, kept_name};
use crate::output;
use crate::output::about::{self, SessionAbouts};
use crate::output::json::told;
use crate::output::json_list::JsonList;
use crate::output::ticks;
use crate::output::view::{Sessions, State, View};
use crate::stores::Url;
use crate::stores::pages::Pages;
use crate::text::{TextTable, brief, count, date, escaped};
use crate::work::job::unit::Unit;
use crate::work::units::text_of;
use serde_json::json;
use tenure::fleet::FleetKey;
use tenure::range::SectionLedger;
use tenure::store::Listed;
use tenure::{Key, Metadata, Store};

pub(crate) async fn ls(url: &Url, typed: &args::LsArgs) -> Result<u8, Failure> {
    let prefix = config::prefix(&typed.prefix)?;
    let leases = super::open_to_look(url).await?;
    let store = leases.store();
    let (mut sessions, mut pages) = (Sessions::default(), Pages::default());
    let mut out = Out::new(typed.json);
    let (mut shown, mut hidden) = (0, 0);
    while let Some(page) = pages.next(store, &prefix).await? {
        let now = leases.clock().now().wall;
        sessions.follow(store, &page, now).await?;
        let mut views = Vec::new();
        for listed in page {
            let view = View::of(store, &mut sessions, listed, now).await;
            if view.state == State::Vacant && !typed.all {
                hidden += 1;
            } else {
                views.push(view);
            }
        }
        shown += views.len();
        out.show(&views)?;
    }
    out.end(url, shown, hidden)?;
    Ok(exit::OK)
}

/// What `ls` shows, page by page.
enum Out {
    Table(TextTable),
    Json(JsonList),
}

impl Out {
    fn new(is_json: bool) -> Out {
        if is_json { Out::Json(JsonList::of("leases")) } else { Out::Table(TextTable::new(&View::heading())) }
    }

    fn show(&mut self, views: &[View]) -> Result<(), Failure> {
        if views.is_empty() {
            return Ok(());
        }
        match self {
            Out::Json(list) => {
                let abouts = SessionAbouts::default();
                list.show(views.iter().map(|view| view.json(&abouts)))
            }
            Out::Table(table) => {
                let rows: Vec<Vec<String>> = views.iter().map(View::row).collect();
                output::print(&table.part(&rows))?;
                for view in views {
                    if let Err(problem) = &view.stored {
                        output::note(format!("{}: {problem}", view.key));
                    }
                }
                Ok(())
            }
        }
    }

    fn end(self, url: &Url, shown: usize, hidden: usize) -> Result<(), Failure> {
        if let Out::Json(list) = self {
            return list.end(&json!({"store": url.shown(), "vacant_not_listed": hidden}));
        }
        if hidden > 0 {
            let more = if shown == 0 { "nothing is held; " } else { "" };
            output::note(format!("{more}{} that nobody holds: see them with --all", count(hidden, "record")));
        } else if shown == 0 {
            output::note("nothing is held");
        }
        Ok(())
    }
}

pub(crate) async fn show(url: &Url, typed: &args::ShowArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    let leases = super::open_to_look(url).await?;
    let view = view(&leases, &key).await?;
    let abouts = SessionAbouts::of(leases.store(), view.attachments()).await;
    if typed.json {
        output::json(&view.json(&abouts))?;
    } else {
        output::print(&page(&view, &abouts))?;
    }
    match view.stored {
        Err(_) => Err(Failure::silent(exit::DAMAGED)),
        Ok(_) => Ok(exit::OK),
    }
}

/// One record, or the failure that there is none.
pub(super) async fn view(leases: &tenure::Leases, key: &Key) -> Result<View, Failure> {
    view_among(leases, key, &mut Sessions::default()).await
}

/// The same by what is known of sessions.
pub(super) async fn view_among(
    leases: &tenure::Leases,
    key: &Key,
    sessions: &mut Sessions,
) -> Result<View, Failure> {
    match found_among(leases, key, sessions).await? {
        Some(view) => Ok(view),
        None => {
            let namesake =
                namesake(leases.store(), key).await.map_or_else(String::new, |it| format!("; {it}"));
            Err(Failure::new(exit::ABSENT, format!("there is no record of {key}{namesake}")))
        }
    }
}

/// Where to look if there is no record of `key`, but of a semaphore of that name: neither excludes the other.
pub(super) async fn namesake(store: &impl Store, key: &Key) -> Option<String> {
    let semaphore = tenure::permits::key(key.as_str()).ok()?;
    let found = store.read(&semaphore).await.ok()?;
    found.map(|_| format!("the semaphore of that name is {semaphore}"))
}

/// As [`view_among`], or none if there is no record.
pub(super) async fn found_among(
    leases: &tenure::Leases,
    key: &Key,
    sessions: &mut Sessions,
) -> Result<Option<View>, Failure> {
    let store = leases.store();
    let stored = match store.read(key).await {
        Ok(None) => return Ok(None),
        Ok(Some(stored)) => Ok(stored),
        Err(error) if error.kind() == tenure::ErrorKind::Foreign => Err(error),
        Err(error) => return Err(error.into()),
    };
    let now = leases.clock().now().wall;
    let view = View::of(store, sessions, Listed { key: key.clone(), stored }, now).await;
    // A session that can't be read now may be read later, like the record.
    match &view.doubt {
        Some(error) if error.kind() != tenure::ErrorKind::Foreign => Err(error.clone().into()),
        _ => Ok(Some(view)),
    }
}

/// Why somebody is watched, whom two wall clocks say to be dead.
pub(super) fn doubt(view: &View) -> String {
    let key = &view.key;
    let left = view.left.map_or_else(String::new, |left| format!(" for {}", brief(left)));
    format!("the holder of {key} may be dead, but its clock may be behind as well: watching{left}")
}

fn page(view: &View, abouts: &SessionAbouts) -> String {
    let mut lines = vec![("key", view.key.to_string()), ("state", view.status())];
    match &view.stored {
        Err(problem) => {
            lines.push(("problem", escaped(&problem.to_string())));
            lines.push((
                "remedy",
                // A record of a newer layout is another version's, and none that is to be removed.
                match problem.is_newer() {
                    true => "use the newer tenure that has written it".to_owned(),
                    false => "`tenure rm --damaged` removes it, and keeps a copy".to_owned(),
                },
            ));
        }
        Ok(stored) => {
            lines.push(("fence", stored.record.fence.to_string()));
            if let Some(tenure) = &stored.record.tenure {
                lines.push(("holder", tenure.holder.to_string()));
                lines.push(("since", date(tenure.since)));
                lines.push(("ttl", brief(tenure.ttl.duration())));
                if let Some(left) = view.left {
                    lines.push(("left", format!("about {}", brief(left))));
                }
                if let Some(error) = &view.doubt {
                    lines.push((
                        "problem",
                        format!("its session can't be read: {}", escaped(&error.to_string())),
                    ));
                }
                if let Some(attachment) = &tenure.attachment {
                    lines.push(("session", format!("{} (fence {})", attachment.session, attachment.fence)));
                }
                for letter in &tenure.mail {
                    lines.push(("mail", format!("{:?} {}", letter.ask, letter.key)));
                }
            }
            let age = stored.age().map_or_else(String::new, |age| format!(", {} ago", brief(age)));
            lines.push(("written", format!("{}{age}", date(stored.record.stamp))));
            if let Some((job, unit)) = JobName::of_key(&view.key) {
                let name = Unit::name(&view.key, &stored.record.metadata);
                let unit = name.map_or_else(|| unit.to_owned(), |name| text_of(&name));
                lines.push(("job", escaped(job)));
                lines.push(("unit", escaped(&unit)));
            }
            if let Some((fleet, part)) = FleetKey::of(&view.key) {
                lines.push(("fleet", escaped(fleet)));
                if let FleetKey::Unit(unit) = part {
                    lines.push(("unit", escaped(unit)));
                }
            }
            if let Some(leased) = &view.leased {
                lines.extend(leased.lines().map(|line| ("lease", line)));
            } else if let Some(shared) = &view.shared {
                lines.extend(shared.lines(abouts).map(|line| ("permits", line)));
            } else if let Ok(covered) = SectionLedger::covered(&stored.record) {
                lines.push(("covered", covered.to_string()));
            } else if let serde_json::Value::Object(mut fields) = told(&view.key, &stored.record.metadata) {
                plain_unit(&view.key, &stored.record.metadata, &mut fields);
                let by = about::lines(&stored.record.metadata);
                if by.is_empty() {
                    lines.extend(abouts.of_tenure(&stored.record).map(about::lines).unwrap_or_default());
                } else {
                    fields.retain(|name, _| !about::FIELDS.contains(&name.as_str()));
                    lines.extend(by);
                }
                let held = (view.state == State::Held).then_some(stored.record.fence);
                if let Some(runs) = ticks::lines(&view.key, &stored.record.metadata, held) {
                    fields.remove("once");
                    lines.extend(runs);
                }
                for (name, value) in fields {
                    // JSON escapes control characters, but not all that steer a terminal.
                    lines.push(("field", format!("{} = {}", escaped(&name), escaped(&value.to_string()))));
                }
            }
        }
    }
    lines.into_iter().map(|(name, value)| format!("{name:8} {value}\n")).collect()
}

/// Of a unit whose name stands in its record, the fields tell neither that name again nor how its status is spelt for older versions.
fn plain_unit(key: &Key, metadata: &Metadata, fields: &mut serde_json::Map<String, serde_json::Value>) {
    if kept_name(key, metadata).is_none() {
        return;
    }
    fields.remove(NAME);
    if let Some(status) = UnitStatus::of(metadata) {
        fields.insert(STATUS.to_owned(), status.name().into());
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a session that can't be read now is no dead one.
    use super::*;
    use tenure::Leases;
    use tenure_store::{Fault, FaultyStore};

    #[tokio::test]
    async fn whoever_is_attached_to_a_session_that_can_not_be_read_now_is_not_taken_for_dead() {
        let store = tenure::memory();
        let faulty = FaultyStore::new(store.clone());
        let (there, here) = (Leases::new(store).unwrap(), Leases::new(faulty.clone()).unwrap());
        let guard = there.acquire("k").await.unwrap();
        let key = guard.key().clone();
        assert_eq!(view(&here, &key).await.unwrap().known().unwrap(), State::Held);
        faulty.inject([Fault::None, Fault::Refuse]);
        assert_eq!(view(&here, &key).await.unwrap_err().code, exit::UNAVAILABLE);
        guard.release().await;
    }
}
