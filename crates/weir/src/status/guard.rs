//! What the guard has found, for a person.

use std::fmt;

use redis::guard::shown::{Server, Status};
use redis::settings::Mode;
use watch::words::count;

/// Shows what is wrong with how servers persist, and who acts where. What the servers at `pools`
/// have evicted is shown with their pools.
pub fn write(status: &Status, pools: &[&str], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let servers = status.hosts.iter().flat_map(|host| &host.servers);
    let found: Vec<_> = servers.filter(|server| is_worth_a_word(server, pools)).collect();
    let keys = status.hosts.iter().filter_map(|host| Some((&host.host, host.key.as_ref()?)));
    if found.is_empty() && status.mode != Mode::Act {
        return Ok(());
    }
    writeln!(f, "\nthe guard of how Redis servers persist")?;
    for (host, key) in keys {
        writeln!(f, "  key of host {host}: {key}")?;
    }
    for server in found {
        for finding in &server.findings {
            writeln!(f, "  {}: {}: {}", server.name, finding.about.word(), finding.words)?;
        }
        if let Some(evicted) = evicted(server, pools) {
            writeln!(f, "  {}: {} keys evicted since its start", server.name, count(evicted))?;
        }
        if let Some(told) = &server.told {
            writeln!(f, "  {}: told last: {told}", server.name)?;
        }
    }
    Ok(())
}

fn is_worth_a_word(server: &Server, pools: &[&str]) -> bool {
    !server.findings.is_empty() || server.told.is_some() || evicted(server, pools).is_some()
}

/// How many keys a server of no pool has evicted, where it has evicted any.
fn evicted(server: &Server, pools: &[&str]) -> Option<u64> {
    let memory = server.memory.filter(|_| !pools.contains(&server.url.as_str()))?;
    Some(memory.evicted).filter(|evicted| *evicted > 0)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use redis::guard::findings::{About, Finding};
    use redis::guard::shown::{Host, Server, Status};
    use redis::server_memory::ServerMemory;
    use redis::settings::Mode;

    struct ShownStatus(Status);

    impl fmt::Display for ShownStatus {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            super::write(&self.0, &["redis://pool:1"], f)
        }
    }

    #[test]
    fn findings_are_shown_in_words_and_nothing_where_there_are_none() {
        let server = Server { name: "a".into(), ..Server::default() };
        let host = Host { host: "rack-1".into(), servers: vec![server], key: None };
        let mut status = Status { mode: Mode::Watch, hosts: vec![host] };
        assert_eq!(ShownStatus(status.clone()).to_string(), "");
        let words = "its last fork took 340ms".to_owned();
        status.hosts[0].servers[0].findings.push(Finding { about: About::SlowFork, words });
        let shown = ShownStatus(status.clone()).to_string();
        assert!(shown.contains("  a: slow-fork: its last fork took 340ms"), "{shown}");
        // A server of a pool is shown there.
        let memory = ServerMemory { evicted: 5, ..ServerMemory::default() };
        status.hosts[0].servers[0].memory = Some(memory);
        assert!(ShownStatus(status.clone()).to_string().contains("a: 5 keys evicted"));
        status.hosts[0].servers[0].url = "redis://pool:1".into();
        assert!(!ShownStatus(status.clone()).to_string().contains("evicted"));
        status.mode = Mode::Act;
        status.hosts[0].key = Some("held".into());
        status.hosts[0].servers[0].told = Some("rewrite".into());
        let shown = ShownStatus(status).to_string();
        assert!(shown.contains("key of host rack-1: held"), "{shown}");
        assert!(shown.contains("a: told last: rewrite"), "{shown}");
    }
}
