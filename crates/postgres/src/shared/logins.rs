//! What the workers share for logins: whom the door lets in, what was computed for it, and who has
//! failed to come in.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use flow::logins::slowing::{LoginSource, Slowing};
use flow::logins::turns::Turns;
use wire::postgres::Refusal;

use super::GatewayContext;
use crate::auth::{Derivation, KeyCache, Keys};
use crate::door::{Door, DoorError, Doors, Salts};
use crate::settings::Settings;

/// Passwords whose keys are kept.
const KEYS_MAX: usize = 10_000;
/// Passwords whose keys are computed at once, each for milliseconds: more would leave the workers
/// no processor.
const DERIVATIONS_MAX: usize = 2;

/// What the workers share for logins.
pub(crate) struct Logins {
    pub(crate) doors: ArcSwap<Doors>,
    pub(super) salts: Salts,
    slowing: Arc<Slowing>,
    /// Where keys are computed of passwords that clients have sent.
    checks: Arc<Turns>,
    /// Where those are of passwords that Weir knows, so that nobody waits for strangers.
    own: Arc<Turns>,
    keys: Option<KeyCache>,
}

impl Logins {
    pub(super) fn open(settings: &Settings) -> Result<Self, DoorError> {
        let salts = Salts::open(settings)?;
        Ok(Self {
            doors: ArcSwap::from_pointee(Doors::new(settings, &salts)?),
            salts,
            slowing: Arc::default(),
            checks: Turns::new(DERIVATIONS_MAX),
            own: Turns::new(DERIVATIONS_MAX),
            keys: KeyCache::new(KEYS_MAX),
        })
    }
}

impl GatewayContext {
    /// What a client from there has to show.
    pub(crate) async fn door(
        &self,
        from: Option<IpAddr>,
        tls: bool,
        database: &str,
        user: &str,
    ) -> Result<Door, Refusal> {
        let doors = self.logins.doors.load_full();
        doors.find(&self.backends, &self.control, from, tls, database, user).await
    }

    /// Computes the keys of a password that Weir knows, away from the worker and only once; `None`:
    /// Weir is stopping.
    pub(crate) async fn make_ready(&self, derivation: Derivation) -> Option<Keys> {
        let keys = self.derive(&self.logins.own, &derivation).await?;
        self.keep(&derivation, &keys);
        Some(keys)
    }

    /// Computes the keys of what a client has sent, away from the worker; `None`: Weir is stopping.
    /// They are worth being [kept](Self::keep) only if they fit.
    pub(crate) async fn check(&self, derivation: &Derivation) -> Option<Keys> {
        self.derive(&self.logins.checks, derivation).await
    }

    async fn derive(&self, turns: &Arc<Turns>, derivation: &Derivation) -> Option<Keys> {
        if let Some(keys) = self.known_keys(derivation) {
            return Some(keys);
        }
        let turn = turns.turn().await;
        // Whoever was before may have had the same.
        if let Some(keys) = self.known_keys(derivation) {
            return Some(keys);
        }
        let derivation = derivation.clone();
        let computed = self.control.spawn_blocking(move || {
            let keys = derivation.run();
            // Held until here, whether or not the client still waits.
            drop(turn);
            keys
        });
        computed.await.ok()
    }

    fn known_keys(&self, derivation: &Derivation) -> Option<Keys> {
        self.logins.keys.as_ref()?.get(derivation)
    }

    /// Keeps keys of a password that fits.
    pub(crate) fn keep(&self, derivation: &Derivation, keys: &Keys) {
        if let Some(known) = &self.logins.keys {
            known.put(derivation, keys);
        }
    }

    /// Computes what the file's passwords need before their users come, one after the other.
    pub(super) fn make_passwords_ready(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        let wanted = self.logins.doors.load().derivations();
        self.control.spawn(async move {
            for derivation in wanted.into_iter().take(KEYS_MAX) {
                let Some(shared) = shared.upgrade() else { return };
                shared.make_ready(derivation).await;
            }
        });
    }

    /// Waits until a client from there may be asked who it is; see [`Slowing`].
    pub(crate) async fn enter(&self, from: Option<IpAddr>, user: &str) -> LoginSource {
        self.logins.slowing.enter(from, user).await
    }

    /// A user has logged in from there.
    pub(crate) fn entered(&self, place: LoginSource, user: &str) {
        self.logins.slowing.succeeded(place, user);
    }

    /// Waits until a client may be told that its login has failed; see [`Slowing`].
    pub(crate) async fn failed(&self, place: LoginSource) {
        self.logins.slowing.wait_to_refuse(place, &self.metrics.logins_slowed).await;
    }

    /// The name of a user of the system, asked for away from the worker; its number where it has
    /// none in `/etc/passwd`.
    pub(crate) async fn system_user(&self, number: u32) -> String {
        let named = self.control.spawn_blocking(move || crate::door::system_user(number)).await;
        named.unwrap_or_else(|_| number.to_string())
    }
}
