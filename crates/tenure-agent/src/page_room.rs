//! Room for pages of records that are on their way: so many at a time that they fit into memory, however slowly their clients take them.

use crate::access::AccessLevel;
use crate::problem::Problem;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of those who may do all, and again of those who may only look: these must not keep the others from a look.
const MOST: usize = 8;
/// How long a place is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct PageRoom {
    full: Arc<Semaphore>,
    read: Arc<Semaphore>,
}

/// The place of one page, until it is dropped.
#[derive(Debug)]
pub(crate) struct PagePlace(#[allow(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl PageRoom {
    pub(crate) fn new() -> PageRoom {
        PageRoom { full: Arc::new(Semaphore::new(MOST)), read: Arc::new(Semaphore::new(MOST)) }
    }

    pub(crate) async fn enter(&self, role: AccessLevel) -> Result<PagePlace, Problem> {
        let places = match role {
            AccessLevel::Full => &self.full,
            AccessLevel::Read => &self.read,
        };
        match tokio::time::timeout(PATIENCE, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(PagePlace(place)),
            _ => Err(Problem::too_many_pages(MOST)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: so many pages and no more, until one has gone; who may only look leaves room for the others.
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pages_have_so_many_places_and_who_only_looks_has_none_of_the_others() {
        let room = PageRoom::new();
        let mut places = Vec::new();
        for _ in 0..MOST {
            places.push(room.enter(AccessLevel::Read).await.unwrap());
        }
        assert_eq!(room.enter(AccessLevel::Read).await.map_err(|problem| problem.status()).unwrap_err(), 429);
        room.enter(AccessLevel::Full).await.unwrap();
        places.pop();
        room.enter(AccessLevel::Read).await.unwrap();
    }
}
