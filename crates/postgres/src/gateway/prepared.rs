//! Settings that are to be put in force while clients are connected: what may fail comes first.

use std::sync::Arc;

use flow::tls::{Renewal, ServerTls};

use super::{Gateway, OpenError};
use crate::backends;
use crate::door::Doors;
use crate::settings::Settings;

/// Settings that can be used and are not in force yet.
#[must_use = "the former settings stay in force"]
pub struct Prepared<'a> {
    gateway: &'a Arc<Gateway>,
    settings: Settings,
    tls: Option<Renewal>,
    doors: Doors,
    backends: backends::Prepared<'a>,
}

impl Gateway {
    /// Makes ready to put new settings in force, as far as they can change while clients are
    /// connected.
    ///
    /// # Errors
    /// The new settings cannot work.
    pub fn prepare(self: &Arc<Self>, settings: Settings) -> Result<Prepared<'_>, OpenError> {
        settings.validate()?;
        let tls = self.tls.as_ref().map(ServerTls::renew).transpose()?;
        let doors = Doors::new(&settings, &self.logins.salts)?;
        let backends = self.backends.prepare(&settings)?;
        Ok(Prepared { gateway: self, settings, tls, doors, backends })
    }
}

impl Prepared<'_> {
    /// Puts them in force; gives the keys that differ and need a restart.
    pub fn put_in_force(self) -> Vec<String> {
        let Self { gateway, settings, tls, doors, backends } = self;
        if let Some(tls) = tls {
            tls.put_in_force();
        }
        backends.put_in_force();
        gateway.logins.doors.store(Arc::new(doors));
        gateway.make_passwords_ready();
        gateway.connections.set_max(settings.max_connections);
        let (settings, fixed) = settings.keep_fixed(&gateway.settings());
        gateway.budgets.reload(&settings);
        gateway.admitted.reload(&settings);
        gateway.settings.store(Arc::new(settings));
        fixed
    }
}
