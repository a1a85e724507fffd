//! Which settings a client has been told of (ParameterStatus), and which hold for it.
//!
//! A driver decodes by what it was told last. What a statement has changed behind Weir's back is
//! cleaned when the client parts from its server, so the client hears before its next answer what
//! holds on the connection that gives it.

use std::rc::Rc;

use wire::postgres::backend::{parameter_status, put_parameter_status};

use super::Session;
use crate::pipeline::settings::Reported;

/// What a client has been told of its settings.
#[derive(Debug, Default)]
pub struct ClientParameters {
    /// What the client was told at its login.
    pub begun: Rc<Reported>,
    /// What differs from that by now.
    since: Reported,
    /// Something was told that need not hold on another connection.
    in_doubt: bool,
}

impl ClientParameters {
    /// Of a client that is told these at its login.
    pub fn new(begun: Rc<Reported>) -> Self {
        Self { begun, ..Self::default() }
    }

    /// Whether what the client was told last may not hold on the connection that answers it next.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// What was told last may not hold.
    pub fn doubt(&mut self) {
        self.in_doubt = true;
    }

    fn value(&self, name: &str) -> Option<&str> {
        let all = self.since.iter().chain(self.begun.iter());
        all.into_iter().find(|(known, _)| &**known == name).map(|(_, value)| &**value)
    }

    /// A message that tells the client what it knows: the version of its server, which stays.
    pub fn probe(&self) -> Vec<u8> {
        let (name, mut out) = ("server_version", Vec::new());
        let value = self.value(name).unwrap_or_default();
        put_parameter_status(&mut out, name.as_bytes(), value.as_bytes());
        out
    }

    /// The client is told this.
    fn note(&mut self, name: &str, value: &str) {
        self.since.retain(|(known, _)| &**known != name);
        if self.value(name) != Some(value) {
            self.since.push((name.into(), value.into()));
        }
    }

    /// Appends what the client is to hear of these settings, which hold from now on.
    fn correct(&mut self, holding: &Reported, out: &mut Vec<u8>) {
        for (name, value) in holding {
            if self.value(name) != Some(value) {
                put_parameter_status(out, name.as_bytes(), value.as_bytes());
                self.note(name, value);
            }
        }
        self.in_doubt = false;
    }
}

impl Session {
    /// The client hears a ParameterStatus.
    pub(super) fn is_told(&mut self, body: &[u8]) {
        let Ok((name, value)) = parameter_status(body) else { return };
        self.environment.told.note(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value));
        self.environment.told.in_doubt = true;
    }

    /// The client is served on a connection on which these settings hold.
    pub(super) fn tell_what_holds(&mut self, holding: &Reported) {
        if self.environment.told.in_doubt {
            let mut out = Vec::new();
            self.environment.told.correct(holding, &mut out);
            self.client.outlet.send(&out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_once_what_does_not_hold_any_more() {
        let settings = |zone: &str| vec![("TimeZone".into(), zone.into())];
        let mut told = ClientParameters::new(Rc::new(settings("UTC")));
        told.note("TimeZone", "Asia/Tokyo");
        let mut corrected = |holding: &str| {
            let mut out = Vec::new();
            told.correct(&settings(holding), &mut out);
            out
        };
        assert_eq!(corrected("Asia/Tokyo"), b"");
        let mut utc = Vec::new();
        put_parameter_status(&mut utc, b"TimeZone", b"UTC");
        assert_eq!(corrected("UTC"), utc);
        assert_eq!(corrected("UTC"), b"");
        assert!(told.since.is_empty());
    }
}
