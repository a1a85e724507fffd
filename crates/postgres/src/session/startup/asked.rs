//! What a client says of itself in its first packet.

use std::net::SocketAddr;

use wire::postgres::startup::Start;
use wire::postgres::{Refusal, sqlstate};

use super::super::way::{ROUTE, route};
use super::NoSession;
use crate::pipeline::settings::{self, SessionSettings};
use crate::settings::{ApplicationName, Route};
use crate::worker::WorkerContext;

/// What a client has said of itself.
pub(in crate::session) struct StartupRequest {
    pub user: String,
    pub database: String,
    pub minor: u16,
    pub parameters: Vec<(String, String)>,
    /// What it is told of the protocol, when it asked for more than there is.
    pub(super) negotiate: Option<(u16, Vec<String>)>,
}

impl StartupRequest {
    pub(super) fn new(start: &Start<'_>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let negotiate = start
            .must_negotiate()
            .then(|| (start.agreed_minor(), start.extensions().map(str::to_owned).collect()));
        Self {
            user: start.user().to_owned(),
            database: start.database().to_owned(),
            minor: start.agreed_minor(),
            parameters: start.parameters().map(owned).collect(),
            negotiate,
        }
    }

    /// The settings that the client wants to begin with.
    pub(super) fn settings(
        &self,
        front: &WorkerContext,
        peer: Option<SocketAddr>,
    ) -> Result<(SessionSettings, Option<Route>), NoSession> {
        let configured = front.settings();
        let ignored = |name: &str| {
            configured
                .ignore_startup_parameters
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        let mut wanted: Vec<(String, String)> = Vec::new();
        if let Some(database) = configured.database(&self.database) {
            wanted.extend(database.settings.iter().map(|(n, v)| (n.clone(), v.clone())));
        }
        for (name, value) in &self.parameters {
            match name.as_str() {
                "user" | "database" => {}
                name if name.starts_with("_pq_.") || ignored(name) => {}
                "replication" if matches!(value.as_str(), "" | "false" | "off" | "no" | "0") => {}
                "replication" => {
                    let what = "replication connections do not go through Weir";
                    let refusal = Refusal::fatal(sqlstate::FEATURE_NOT_SUPPORTED, what)
                        .hint("connect to the server itself");
                    return Err(refusal.into());
                }
                "options" => {
                    let options = settings::options(value).map_err(|option| {
                        let what = format!("the option \"{option}\" is not one of a setting");
                        Refusal::fatal(sqlstate::INVALID_PARAMETER_VALUE, what)
                    })?;
                    wanted.extend(options.into_iter().filter(|(name, _)| !ignored(name)));
                }
                "application_name" => match configured.application_name {
                    ApplicationName::Client => wanted.push((name.clone(), value.clone())),
                    ApplicationName::ClientAndAddress => {
                        let from = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
                        wanted.push((name.clone(), format!("{value} - {from}")));
                    }
                    ApplicationName::Gateway => wanted.push((name.clone(), "weir".to_owned())),
                },
                _ => wanted.push((name.clone(), value.clone())),
            }
        }
        let mut wanted_route = None;
        for (_, value) in wanted.extract_if(.., |(name, _)| name.eq_ignore_ascii_case(ROUTE)) {
            wanted_route = route(Some(&value)).map_err(|()| {
                let what = format!("invalid value for \"{ROUTE}\": \"{value}\"");
                Refusal::fatal(sqlstate::INVALID_PARAMETER_VALUE, what)
                    .hint("it is one of auto, primary and replica")
            })?;
        }
        let settings = SessionSettings::new(wanted.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        Ok((settings, wanted_route))
    }
}
