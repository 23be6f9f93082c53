//! `config`: the settings that hold, and where each comes from.

use crate::args;
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::{Chosen, Settings};
use crate::stores::Url;
use crate::text::{escaped, table};
use serde_json::json;

pub(crate) fn config(settings: &Settings, chosen: &Chosen, typed: &args::ConfigArgs) -> Result<u8, Failure> {
    if typed.json {
        output::json(&document(settings, chosen))?;
    } else {
        output::print(&page(settings, chosen))?;
    }
    Ok(exit::OK)
}

/// A URL as it may be shown; it need not be a good one.
fn shown(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "(not a URL of a store)".to_owned(), |url| url.shown())
}

fn page(settings: &Settings, chosen: &Chosen) -> String {
    let mut rows = vec![vec!["store".to_owned(), chosen.url.shown(), chosen.source.to_string()]];
    if let Some(namespace) = &chosen.namespace {
        rows.push(vec!["namespace".to_owned(), namespace.value.clone(), namespace.source.to_string()]);
    }
    for store in &settings.stores {
        let file = escaped(&store.file.to_string_lossy());
        rows.push(vec![escaped(&format!("stores.{}", store.name)), shown(&store.url), file]);
    }
    for default in &settings.defaults {
        let file = escaped(&default.file.to_string_lossy());
        rows.push(vec![escaped(&default.shown()), escaped(&default.value), file]);
    }
    for (path, is_there) in &settings.files {
        let state = if *is_there { "read" } else { "not there" };
        rows.push(vec!["file".to_owned(), escaped(&path.to_string_lossy()), state.to_owned()]);
    }
    table(&["SETTING", "VALUE", "FROM"], &rows)
}

fn document(settings: &Settings, chosen: &Chosen) -> serde_json::Value {
    let stores = settings.stores.iter().map(|store| {
        json!({
            "name": store.name, "url": shown(&store.url), "namespace": store.namespace,
            "file": store.file.to_string_lossy(),
        })
    });
    let defaults = settings.defaults.iter().map(|default| {
        json!({
            "verb": default.verb, "option": default.option, "value": default.value,
            "file": default.file.to_string_lossy(),
        })
    });
    let files = settings.files.iter();
    let files = files.map(|(path, is_there)| json!({"path": path.to_string_lossy(), "is_there": is_there}));
    json!({
        "store": {
            "url": chosen.url.shown(),
            "from": chosen.source.to_string(),
            "name": chosen.name,
            "namespace": chosen.namespace.as_ref().map(|namespace| &namespace.value),
            "namespace_from": chosen.namespace.as_ref().map(|namespace| namespace.source.to_string()),
        },
        "stores": stores.collect::<Vec<_>>(),
        "defaults": defaults.collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
    })
}
