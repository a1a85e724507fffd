//! What of the settings is read at a start only, so that a reload leaves it as it is.

use std::net::SocketAddr;

use flow::progress::Timeouts;

use super::{CollisionSettings, Settings, UdpSettings};

/// The settings that stay from one start to the next.
#[derive(Debug, Clone)]
pub struct FixedSettings {
    /// The addresses at which HTTP is taken.
    pub listen: Vec<SocketAddr>,
    /// Where line protocol is taken over UDP.
    pub udp: Vec<UdpSettings>,
    /// How points that overwrite each other are looked for.
    pub collisions: CollisionSettings,
    tls: Option<flow::tls::Settings>,
    timeouts: Timeouts,
}

impl FixedSettings {
    /// Those of the settings that the gateway starts with.
    pub fn of(settings: &Settings) -> Self {
        let Settings { listen, udp, collisions, tls, timeouts, .. } = settings.clone();
        Self { listen, udp, collisions, tls, timeouts }
    }

    /// The keys whose `wanted` values need a restart.
    pub fn differing(&self, wanted: &Settings) -> Vec<String> {
        let keys = [
            ("listen", self.listen != wanted.listen),
            ("tls", self.tls != wanted.tls),
            ("udp", self.udp != wanted.udp),
            ("timeouts", self.timeouts != wanted.timeouts),
            ("collisions", self.collisions != wanted.collisions),
        ];
        let differing = keys.iter().filter(|(_, differs)| *differs);
        differing.map(|(key, _)| format!("influx.{key}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{FixedSettings, Settings};

    #[test]
    fn what_is_read_at_a_start_stays_and_is_named_each_time() {
        let running = FixedSettings::of(&Settings::default());
        let mut wanted = Settings { version: "1.8.3".to_owned(), ..Settings::default() };
        assert!(running.differing(&wanted).is_empty());
        wanted.timeouts.idle = std::time::Duration::from_secs(9).into();
        wanted.listen.clear();
        assert_eq!(running.differing(&wanted), ["influx.listen", "influx.timeouts"]);
        assert!(FixedSettings::of(&wanted).differing(&wanted).is_empty());
    }
}
