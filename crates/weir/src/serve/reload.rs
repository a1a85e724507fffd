//! SIGHUP and the console's RELOAD: what can change while connections are open, and what can't.

use std::path::PathBuf;

use flow::tls::ServerTls;

use super::expiries;
use super::fronts::Fronts;
use crate::config::ConfigFile;
use crate::config::{self, Settings};

/// What came of a reload.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// Why nothing has changed; `None` where the configuration is in force.
    pub refused: Option<String>,
    /// The keys that have changed in the file and need a restart.
    pub needs_restart: Vec<String>,
    /// The files of certificates that the configuration names now; absent where it was refused.
    pub certificates: Option<Vec<PathBuf>>,
}

/// Reads the configuration again and puts into effect what can be; `running` is what is in force,
/// then and afterwards. A configuration that can't be used changes nothing.
pub fn reload(
    wanted: &ConfigFile,
    running: &mut Settings,
    fronts: &Fronts,
    admin: Option<&ServerTls>,
    log: &watch::log::Handle,
) -> Reloaded {
    try_reload(wanted, running, fronts, admin, log).unwrap_or_else(|error| {
        tracing::error!(error, "the configuration was not reloaded; the former one stays");
        Reloaded { refused: Some(error), ..Reloaded::default() }
    })
}

/// The same; fails where nothing has changed.
fn try_reload(
    wanted: &ConfigFile,
    running: &mut Settings,
    fronts: &Fronts,
    admin: Option<&ServerTls>,
    log: &watch::log::Handle,
) -> Result<Reloaded, String> {
    let loaded = config::load(wanted).map_err(|error| error.to_string())?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let wanted = loaded.settings;
    let certificates = Some(expiries::certificates(&wanted));
    let certificate = admin.map(ServerTls::renew).transpose();
    let certificate = certificate.map_err(|error| format!("admin.tls: {error}"))?;
    let fixed = fixed(running, &wanted).into_iter().map(str::to_owned);
    let fixed: Vec<String> = fixed.chain(fronts.reload(&wanted)?).collect();
    if let Some(renewed) = certificate {
        renewed.put_in_force();
    }
    for key in &fixed {
        tracing::warn!("{key} has changed in the file; that needs a restart");
    }
    if let Err(error) = log.set_level(&wanted.log.level) {
        tracing::error!(%error, "the log level stays as it was");
    }
    match fixed.is_empty() {
        true => tracing::info!("the configuration was reloaded"),
        // Warnings that come again within a minute are only counted.
        false => tracing::info!(
            needs_restart = fixed.join(", "),
            "the configuration was reloaded, but for some of it"
        ),
    }
    // What needs a restart stays as it runs, so that it is named again until there was one.
    running.log.level = wanted.log.level;
    flow::dial::set_silence_limit(wanted.tcp_user_timeout.get());
    running.tcp_user_timeout = wanted.tcp_user_timeout;
    Ok(Reloaded { refused: None, needs_restart: fixed, certificates })
}

/// The keys that differ and have no effect before a restart.
fn fixed(running: &Settings, wanted: &Settings) -> Vec<&'static str> {
    let differ = [
        ("workers", running.workers != wanted.workers),
        ("drain-timeout", running.drain_timeout != wanted.drain_timeout),
        ("stall-limit", running.stall_limit != wanted.stall_limit),
        ("[journal]", running.journal != wanted.journal),
        ("[store]", running.store != wanted.store),
        ("[influx], by being there at all,", running.has_influx() != wanted.has_influx()),
        (
            "[postgres], by being there at all,",
            running.postgres.is_some() != wanted.postgres.is_some(),
        ),
        ("[redis], by being there at all,", running.redis.is_some() != wanted.redis.is_some()),
        ("[redis.aof], by being there at all,", has_aof(running) != has_aof(wanted)),
        (
            "[[redis.pool]], by there being any,",
            running.redis.is_some() == wanted.redis.is_some()
                && has_pools(running) != has_pools(wanted),
        ),
        ("[admin]", running.admin != wanted.admin),
        ("log.format", running.log.format != wanted.log.format),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

fn has_pools(settings: &Settings) -> bool {
    settings.redis.as_ref().is_some_and(|redis| redis.has_gateway())
}

fn has_aof(settings: &Settings) -> bool {
    settings.redis.as_ref().is_some_and(|redis| redis.aof.is_some())
}

#[cfg(test)]
mod tests {
    use super::fixed;
    use crate::config::parse;

    #[test]
    fn what_needs_a_restart_is_named() {
        let running = parse("").unwrap();
        let wanted = "workers = 3\n[journal]\nack = \"memory\"\n[log]\nlevel = \"debug\"";
        assert_eq!(fixed(&running, &parse(wanted).unwrap()), ["workers", "[journal]"]);
        assert!(fixed(&running, &running).is_empty());
    }
}
