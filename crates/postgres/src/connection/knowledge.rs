//! What follows for a server connection from what its server says, whoever hears it.

use std::collections::VecDeque;
use std::time::Instant;

use wire::postgres::backend::{Status, parameter_status};

use super::account::Account;
use super::{Connection, Own, Record};
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::script::{Script, ServerEvent};
use crate::pipeline::settings::{Applied, Reported, Setting};
use crate::plan::Leaves;

/// What a server's words change in what is known of it.
pub struct ConnectionKnowledge<'a> {
    /// When the server has said them.
    pub now: Instant,
    /// The statements prepared on it.
    pub prepared: &'a mut PreparedStatements,
    /// The settings that the server reports.
    pub reported: &'a mut Reported,
    /// The status of its transaction.
    pub status: &'a mut Status,
    /// What its clients may have left on it.
    pub leaves: &'a mut Leaves,
    record: &'a Record,
    settings: &'a mut Option<Applied>,
    own: &'a mut VecDeque<Own>,
    own_error: &'a mut Option<Box<[u8]>>,
    not_restored: &'a mut Option<(Vec<Setting>, Box<[u8]>)>,
    broken: &'a mut bool,
    account: &'a mut Account,
}

impl ConnectionKnowledge<'_> {
    /// Whether it is asked to restore something, or to undo that, and has not answered to the end.
    pub fn is_restoring(&self) -> bool {
        self.own.iter().any(|own| matches!(own, Own::Restores(_) | Own::UndoesRestore))
    }

    /// The connection must not be used again.
    pub fn give_up(&mut self) {
        *self.broken = true;
    }

    pub(super) fn note(&mut self, heard: &ServerEvent<'_>) {
        match *heard {
            ServerEvent::Ready { .. }
            | ServerEvent::ReadyAgain(_)
            | ServerEvent::OwnSync
            | ServerEvent::LeftOut => {
                self.account.settle(1);
            }
            ServerEvent::Ignored(syncs) => self.account.settle(syncs),
            _ => {}
        }
        match *heard {
            ServerEvent::Failed { body, swallowed: true } => match self.own.front_mut() {
                Some(Own::Fails) => {}
                Some(Own::Restores(begun)) => {
                    *self.not_restored = Some((std::mem::take(begun), body.into()));
                }
                _ => drop(self.own_error.get_or_insert_with(|| body.into())),
            },
            ServerEvent::Ready { status, swallowed: true } => {
                *self.status = status;
                if let Some(Own::Settings(settings)) = self.own.pop_front()
                    && self.own_error.is_none()
                    && !*self.broken
                {
                    *self.settings = Some(settings);
                }
            }
            ServerEvent::Prepared(number) => self.prepared.confirmed(number),
            ServerEvent::NotPrepared(number) => self.prepared.not_prepared(number),
            ServerEvent::Forgotten { number, left_out } => self.prepared.closed(number, left_out),
            ServerEvent::Shape(number, shape) => self.prepared.described(number, shape),
            ServerEvent::Ready { status, .. } | ServerEvent::ReadyAgain(status) => {
                *self.status = status
            }
            ServerEvent::Parameter(body) => {
                self.prepared.next_epoch();
                self.parameter(body);
            }
            _ => {}
        }
    }

    fn parameter(&mut self, body: &[u8]) {
        let Ok((name, value)) = parameter_status(body) else { return };
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return;
        };
        if name == "application_name" {
            self.record.name(value);
        }
        match self.reported.iter_mut().find(|(known, _)| &**known == name) {
            Some((_, known)) => *known = value.into(),
            None => self.reported.push((name.into(), value.into())),
        }
    }
}

impl Connection {
    /// The answers under way, and what they change, at this time.
    pub fn parts(&mut self, now: Instant) -> (&mut Script, ConnectionKnowledge<'_>) {
        let known = ConnectionKnowledge {
            now,
            prepared: &mut self.prepared,
            reported: &mut self.reported,
            status: &mut self.status,
            leaves: &mut self.leaves,
            record: &self.record,
            settings: &mut self.settings,
            own: &mut self.own,
            own_error: &mut self.own_error,
            not_restored: &mut self.not_restored,
            broken: &mut self.broken,
            account: &mut self.account,
        };
        (&mut self.script, known)
    }
}
