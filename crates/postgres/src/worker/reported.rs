//! What servers report of a session's settings, kept so that a login need not ask.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::postgres::Refusal;

use super::{LeaseError, WorkerContext, give_back};
use crate::backends::Login;
use crate::connection::{Key, ServerState};
use crate::pipeline::settings::Reported;
use crate::pipeline::settings::{self, Applied};
use crate::settings::Settings;

/// Sets of reported settings that are kept; past that they are asked for again.
const MAX: usize = 1000;
/// How long they are taken for true: a server's own may change (`ALTER ROLE`, `ALTER SYSTEM`).
const FRESH: Duration = Duration::from_secs(60);

type ReportKey = (Key, Applied);
/// The backend's epoch, and what the login is; `None` where the backend is gone.
type Epoch = Option<(u64, Login)>;

/// What was reported, by whom to whom.
#[derive(Default)]
pub(super) struct ReportCache(RefCell<HashMap<ReportKey, Entry>>);

struct Entry {
    at: Instant,
    /// The backend's epoch, and what the login was.
    epoch: Epoch,
    /// As of which reload.
    settings: Arc<Settings>,
    reported: Rc<Reported>,
}

impl ReportCache {
    /// What was reported, and whether it is time to ask again.
    fn get(
        &self,
        place: &ReportKey,
        epoch: Epoch,
        settings: &Arc<Settings>,
        now: Instant,
    ) -> Option<(Rc<Reported>, bool)> {
        let mut known = self.0.borrow_mut();
        let entry = known.get_mut(place)?;
        if entry.epoch != epoch || !Arc::ptr_eq(&entry.settings, settings) {
            known.remove(place);
            return None;
        }
        let old = now.saturating_duration_since(entry.at) > FRESH;
        if old {
            // One asks.
            entry.at = now;
        }
        Some((entry.reported.clone(), old))
    }

    fn put(&self, place: ReportKey, entry: Entry) {
        let mut known = self.0.borrow_mut();
        if known.len() >= MAX {
            known.clear();
        }
        known.insert(place, entry);
    }
}

impl WorkerContext {
    /// The settings that a server reports to sessions like this one.
    ///
    /// # Errors
    /// No server can be asked, or it refuses the settings.
    pub async fn reported(&self, key: Key, settings: &Applied) -> Result<Rc<Reported>, Refusal> {
        let place = (key, settings.clone());
        let epoch = self.epoch(&place.0);
        let Some((known, old)) = self.reported.get(&place, epoch, &self.settings(), Instant::now())
        else {
            return self.ask_reported(place).await;
        };
        if old && let Some(front) = self.me.upgrade() {
            // What fails is asked again at the next login past the time.
            tokio::task::spawn_local(async move { front.ask_reported(place).await.is_ok() });
        }
        Ok(known)
    }

    fn epoch(&self, key: &Key) -> Epoch {
        let backend = self.backends.get(key.backend)?;
        Some((backend.epoch(), backend.logins().of(&key.user, &key.database)))
    }

    async fn ask_reported(&self, place: ReportKey) -> Result<Rc<Reported>, Refusal> {
        let now = Arc::clone(&self.settings());
        let deadline = Instant::now() + now.timeouts.query_wait.get();
        let (key, settings) = &place;
        let epoch = self.epoch(key);
        let leased = self.lease(key.clone(), settings, deadline).await;
        let mut leased = leased.map_err(LeaseError::refusal)?;
        leased.record.is_now(ServerState::Active);
        leased.take_on(settings);
        leased.settle_in_time(&self.scratch).await?;
        let reported = Rc::new(leased.reported.clone());
        // A connection that is somebody else now serves nobody.
        if !settings::changes_user(settings) {
            give_back(leased);
        }
        let at = Instant::now();
        let entry = Entry { at, epoch, settings: now, reported: reported.clone() };
        self.reported.put(place, entry);
        Ok(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reported_is_forgotten_with_a_reload_and_another_epoch() {
        let (known, now) = (ReportCache::default(), Instant::now());
        let key = Key { backend: 0, database: "d".into(), user: "u".into() };
        let place: ReportKey = (key, "".into());
        let settings = Arc::new(Settings::default());
        let login = crate::backends::Logins::default().of("u", "d");
        let put = || {
            let entry = Entry {
                at: now,
                epoch: Some((1, login)),
                settings: settings.clone(),
                reported: Rc::default(),
            };
            known.put(place.clone(), entry);
        };
        let get = |epoch, settings: &Arc<Settings>, later: u64| {
            let now = now + Duration::from_secs(later);
            known.get(&place, Some((epoch, login)), settings, now).map(|(_, old)| old)
        };
        put();
        assert_eq!(get(1, &settings, 60), Some(false));
        assert_eq!([get(1, &settings, 61), get(1, &settings, 61)], [Some(true), Some(false)]);
        assert_eq!([get(2, &settings, 1), get(1, &settings, 1)], [None, None]);
        put();
        assert_eq!(get(1, &Arc::new(Settings::default()), 1), None);
    }
}
