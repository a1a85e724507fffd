//! A session's settings, and all that follows from them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::patience::setting_duration;
use super::told::ClientParameters;
use crate::backends::Backend;
use crate::batches::Batches;
use crate::lanes::Group;
use crate::pipeline::settings::{Applied, Reported, SessionSettings};
use crate::plan::Scope;

/// A session's settings, and all that follows from them, which is made anew as a whole when what
/// applies them is another text.
pub(super) struct Environment {
    /// What the client has set, at its start and since.
    pub settings: SessionSettings,
    /// What the client was told of its settings.
    pub told: ClientParameters,
    /// What applies the settings to a server connection that has none.
    pub applied: Applied,
    /// How the servers read this session's text.
    pub scope: Scope,
    /// How long the session lets itself pause outside transactions; `None` is for ever.
    pub own_idle: Option<Duration>,
    /// Whether a transaction with these settings may be shared.
    pub may_share: bool,
    /// Whether the session says itself what its commits wait for.
    pub says_of_commits: bool,
    /// The line of those that share transactions with these settings, where it was asked for last.
    line: Option<Rc<Batches>>,
    /// The lanes of these settings, by the backend's number.
    groups: Vec<Option<Rc<Group>>>,
}

impl Environment {
    /// Of a session that begins with these settings, of which its client was told nothing yet.
    pub fn new(settings: SessionSettings) -> Self {
        Self::of(settings, ClientParameters::default())
    }

    fn of(mut settings: SessionSettings, told: ClientParameters) -> Self {
        let applied = settings.applied();
        Self {
            scope: settings.scope(&told.begun),
            own_idle: settings.value("idle_session_timeout").and_then(setting_duration),
            says_of_commits: settings.value("synchronous_commit").is_some(),
            may_share: !settings.says_of_transactions() && Batches::go_with(&applied),
            applied,
            settings,
            told,
            line: None,
            groups: Vec::new(),
        }
    }

    /// The client is told at its login what servers report under its settings.
    pub fn begins_with(&mut self, reported: Rc<Reported>) {
        *self = Self::of(std::mem::take(&mut self.settings), ClientParameters::new(reported));
    }

    /// The settings may have changed: what follows from them does as well.
    pub fn follow(&mut self) {
        if self.settings.applied() != self.applied {
            let (settings, told) = (&mut self.settings, &mut self.told);
            *self = Self::of(std::mem::take(settings), std::mem::take(told));
        }
    }

    /// The lanes of these settings to a backend; `find` is asked for them once.
    pub fn group(
        &mut self,
        backend: Arc<Backend>,
        find: impl FnOnce(Arc<Backend>, &Applied) -> Rc<Group>,
    ) -> Rc<Group> {
        let number = backend.number();
        if self.groups.len() <= number {
            self.groups.resize_with(number + 1, || None);
        }
        let applied = &self.applied;
        self.groups[number].get_or_insert_with(|| find(backend, applied)).clone()
    }

    /// The line of those with these settings that share transactions on a backend; `find` is asked
    /// for it once, until the backend is another one.
    pub fn line(
        &mut self,
        backend: Arc<Backend>,
        find: impl FnOnce(Arc<Backend>, &Applied) -> Rc<Batches>,
    ) -> Rc<Batches> {
        if let Some(known) = self.line.as_ref().filter(|of| Arc::ptr_eq(&of.backend, &backend)) {
            return known.clone();
        }
        let line = find(backend, &self.applied);
        self.line.insert(line).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::settings::Change;

    fn set(environment: &mut Environment, name: &str, value: &str) {
        environment.settings.change(Change::Set(name.to_owned(), value.to_owned()));
        environment.follow();
    }

    #[test]
    fn what_follows_from_settings_changes_with_them() {
        let mut environment = Environment::new(SessionSettings::default());
        environment.begins_with(Rc::new(vec![("TimeZone".into(), "UTC".into())]));
        environment.told.doubt();
        assert!(environment.may_share && environment.own_idle.is_none());
        set(&mut environment, "lock_timeout", "'1s'");
        assert!(!environment.may_share);
        set(&mut environment, "idle_session_timeout", "'2s'");
        assert_eq!(environment.own_idle, Some(Duration::from_secs(2)));
        let before = environment.scope;
        set(&mut environment, "standard_conforming_strings", "off");
        assert_ne!(environment.scope, before);
        assert_eq!(*environment.applied, *environment.settings.applied());
        // What the client was told it was told, whatever it sets.
        assert!(environment.told.is_in_doubt() && environment.told.begun.len() == 1);
    }

    #[test]
    fn a_session_that_says_what_its_commits_wait_for_is_known() {
        let mut environment = Environment::new(SessionSettings::default());
        assert!(!environment.says_of_commits);
        set(&mut environment, "Synchronous_Commit", "local");
        assert!(environment.says_of_commits);
        environment.settings.change(Change::Reset("synchronous_commit".to_owned()));
        environment.follow();
        assert!(!environment.says_of_commits);
    }

    #[test]
    fn a_change_that_comes_to_nothing_keeps_all_that_follows() {
        let mut environment = Environment::new(SessionSettings::default());
        let applied = environment.applied.clone();
        environment.settings.change(Change::Reset("TimeZone".to_owned()));
        environment.follow();
        assert!(Rc::ptr_eq(&applied, &environment.applied));
    }
}
