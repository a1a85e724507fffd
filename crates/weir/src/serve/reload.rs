//! SIGHUP and the console's RELOAD: what can change while connections are open, and what can't.

use super::fronts::Fronts;
use crate::config::ConfigFile;
use crate::config::{self, Settings};

/// Reads the configuration again and puts into effect what can be; `running` is what is in force,
/// then and afterwards. A configuration that can't be used changes nothing; gives whether it could.
pub fn reload(
    wanted: &ConfigFile,
    running: &mut Settings,
    fronts: &Fronts,
    log: &watch::log::Handle,
) -> bool {
    let loaded = match config::load(wanted) {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!(%error, "the configuration was not reloaded; the former one stays");
            return false;
        }
    };
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let wanted = loaded.settings;
    let fixed = fixed(running, &wanted).into_iter().map(str::to_owned);
    let fixed = match fronts.reload(&wanted) {
        Ok(in_fronts) => fixed.chain(in_fronts).collect::<Vec<_>>(),
        Err(error) => {
            tracing::error!(error, "the configuration was not reloaded; the former one stays");
            return false;
        }
    };
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
    true
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
