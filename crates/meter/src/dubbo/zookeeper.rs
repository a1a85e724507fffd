//! Finds the providers of a service in ZooKeeper, and watches them: a thread of its own asks, with
//! a session of its own, and says the list anew where it has changed. While ZooKeeper is away the
//! list stays as it was.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use flow::dial::check_fence;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use zookeeper_client::{Client, Error, OneshotWatcher, SessionState, StateWatcher};

use super::overrides::Overrides;
use super::providers::ProviderList;
use super::registry::Service;
use crate::discovery::{Discovery, DiscoveryError, ServerList, Servers};
use crate::url::Url;

/// How long ZooKeeper keeps the session of a client that it does not hear.
const SESSION: Duration = Duration::from_secs(10);
/// Between two tries to reach ZooKeeper.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end of the session may take.
const CLOSING_MAX: Duration = Duration::from_millis(500);
/// Where Dubbo keeps what it registers, where the URL does not say it.
const ROOT: &str = "dubbo";
/// Where applications register that do so as a whole.
const APPLICATIONS: &str = "/services";
/// Applications that an error names.
const NAMED_MAX: usize = 5;

/// A service whose providers are in ZooKeeper.
#[derive(Debug, Clone)]
pub struct ZooKeeper {
    hosts: Vec<(String, u16)>,
    /// User and password with a colon between them, of the scheme `digest`.
    login: Option<String>,
    /// The path below which Dubbo registers.
    root: String,
    service: Service,
    method: String,
    /// How long the first list may take.
    timeout: Duration,
}

/// What ends the watch, where it is dropped.
struct ZooKeeperWatch {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ZooKeeperWatch {
    fn drop(&mut self) {
        self.end.take();
        self.thread.take().map(JoinHandle::join);
    }
}

type FirstList = Result<watch::Receiver<Arc<Servers>>, DiscoveryError>;

impl ZooKeeper {
    /// The service's providers at the hosts of a URL; `root` of its query says below which path
    /// they are.
    pub fn new(url: &Url, service: Service, method: &str, timeout: Duration) -> Self {
        let root = url.parameter("root").unwrap_or(ROOT).trim_matches('/');
        let user = url.user();
        Self {
            hosts: url.hosts().map(|(host, port)| (host.to_owned(), port)).collect(),
            login: user.map(|user| format!("{user}:{}", url.password().unwrap_or_default())),
            root: if root.is_empty() { String::new() } else { format!("/{root}") },
            service,
            method: method.to_owned(),
            timeout,
        }
    }

    fn path(&self, category: &str) -> String {
        format!("{}/{}/{category}", self.root, self.service.interface)
    }

    fn failed(&self, why: &str) -> DiscoveryError {
        let hosts = self.hosts.iter().map(|(host, port)| format!("{host}:{port}"));
        let (hosts, of) = (hosts.collect::<Vec<_>>().join(","), &self.service.interface);
        DiscoveryError(format!("can't ask ZooKeeper at {hosts} for the providers of {of}: {why}"))
    }

    /// The addresses of all hosts that may be connected to.
    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let (mut allowed, mut failed) = (Vec::new(), io::Error::from(io::ErrorKind::NotFound));
        for (host, port) in &self.hosts {
            match tokio::net::lookup_host((&**host, *port)).await {
                Err(error) => failed = error,
                Ok(found) => {
                    for address in found {
                        match check_fence(address) {
                            Ok(()) => allowed.push(address),
                            Err(error) => failed = error,
                        }
                    }
                }
            }
        }
        if allowed.is_empty() { Err(failed) } else { Ok(allowed) }
    }

    async fn connect(&self) -> Result<Client, DiscoveryError> {
        let addresses = self.addresses().await.map_err(|error| self.failed(&error.to_string()))?;
        // It is told addresses and no names, so that it goes nowhere else.
        let cluster = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
        let mut connector = Client::connector().with_session_timeout(SESSION).with_fail_eagerly();
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        connector.connect(&cluster).await.map_err(|error| self.failed(&words(&error)))
    }

    /// Says the first list, and those that follow until nobody wants them.
    async fn follow(&self, first: SyncSender<FirstList>, mut ended: oneshot::Receiver<()>) {
        let (mut say, mut state) = (None, None);
        loop {
            let session = async {
                let client = self.connect().await?;
                state = Some(client.state_watcher());
                let followed = self.follow_session(&client, &first, &mut say).await;
                followed.map_err(|error| self.failed(&words(&error)))
            };
            let failed = tokio::select! {
                _ = &mut ended => break,
                failed = session => failed.err(),
            };
            if say.is_none() {
                let failed = failed.unwrap_or_else(|| self.failed("the session has ended"));
                let _ = first.send(Err(failed));
                break;
            }
            tokio::select! {
                _ = &mut ended => break,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        if let Some(state) = state {
            let _ = tokio::time::timeout(CLOSING_MAX, closed(state)).await;
        }
    }

    /// Says each list of a session; ends where the session does, or where the first list has nobody
    /// to call.
    async fn follow_session(
        &self,
        client: &Client,
        first: &SyncSender<FirstList>,
        say: &mut Option<watch::Sender<Arc<Servers>>>,
    ) -> Result<(), Error> {
        let mut state = client.state_watcher();
        state.state();
        loop {
            let (nodes, providers) = children(client, &self.path("providers")).await?;
            let (rules, configurators) = children(client, &self.path("configurators")).await?;
            let overrides = Overrides::of_nodes(rules.iter().map(String::as_str), &self.service);
            let nodes_of = nodes.iter().map(String::as_str);
            let list = ProviderList::new(&self.service, nodes_of, &overrides);
            match say {
                Some(say) => say_again(&list, nodes.is_empty(), say),
                None => match self.check(client, &list, nodes.is_empty()).await {
                    Err(error) => {
                        let _ = first.send(Err(error));
                        return Ok(());
                    }
                    Ok(()) => {
                        let (sender, receiver) = watch::channel(servers(&list));
                        *say = Some(sender);
                        let _ = first.send(Ok(receiver));
                    }
                },
            }
            tokio::select! {
                _ = providers.changed() => {}
                _ = configurators.changed() => {}
                // What has changed while ZooKeeper was away is read at once.
                new = state.changed() => if new == SessionState::Disconnected {
                    state.changed().await;
                }
            }
            if state.peek_state().is_terminated() {
                return Ok(());
            }
        }
    }

    /// Says why nobody can be called, where that is so at the begin.
    async fn check(
        &self,
        client: &Client,
        list: &ProviderList,
        is_empty: bool,
    ) -> Result<(), DiscoveryError> {
        let Err(error) = list.check(&self.service, &self.method) else { return Ok(()) };
        let more = if is_empty { self.by_application(client).await } else { None };
        Err(DiscoveryError(format!("{error}{}", more.unwrap_or_default())))
    }

    /// What is known of applications that register as a whole (`register-mode=instance` of Dubbo
    /// 3), or of another root, where nobody has registered the interface.
    async fn by_application(&self, client: &Client) -> Option<String> {
        let remedy = "have them register interfaces, too (dubbo.application.register-mode=all)";
        let mapping = format!("{}/mapping/{}", self.root, self.service.interface);
        if let Ok((names, _)) = client.get_data(&mapping).await
            && !names.is_empty()
        {
            let names = String::from_utf8_lossy(&names).chars().take(200).collect::<String>();
            return Some(format!(
                ", only applications as a whole, which have it: {names}; {remedy}"
            ));
        }
        if let Ok(mut names) = client.list_children(APPLICATIONS).await
            && !names.is_empty()
        {
            names.sort_unstable();
            let more = if names.len() > NAMED_MAX { " and others" } else { "" };
            names.truncate(NAMED_MAX);
            let names = names.join(", ");
            return Some(format!(
                " by its interface; there are applications that register as a whole, and may have \
                 it: {names}{more}; {remedy}"
            ));
        }
        let root = if self.root.is_empty() { "/" } else { &self.root };
        match client.check_stat(root).await {
            Ok(None) => {
                Some(format!(": there is no {root}, and root=NAME in the URL names another"))
            }
            _ => None,
        }
    }
}

/// A node's children, and what tells that they have changed; none where there is no such node.
async fn children(client: &Client, path: &str) -> Result<(Vec<String>, OneshotWatcher), Error> {
    loop {
        match client.list_and_watch_children(path).await {
            Err(Error::NoNode) => {}
            other => return other,
        }
        let (stat, watcher) = client.check_and_watch_stat(path).await?;
        if stat.is_none() {
            return Ok((Vec::new(), watcher));
        }
    }
}

/// Waits until ZooKeeper has been told that a session has ended, whose client is gone.
async fn closed(mut state: StateWatcher) {
    while !state.changed().await.is_terminated() {}
}

/// Says a list that may have changed. An empty registry has lost its memory, as ZooKeeper has
/// after its disk was emptied: the providers are there until they register again.
fn say_again(list: &ProviderList, is_empty: bool, say: &watch::Sender<Arc<Servers>>) {
    if is_empty {
        return;
    }
    let new = servers(list);
    say.send_if_modified(|known| {
        let is_changed = *known != new;
        *known = new;
        is_changed
    });
}

fn servers(list: &ProviderList) -> Arc<Servers> {
    let left_out = list.left_out.iter().map(|(address, why)| (address.clone(), why.to_string()));
    Arc::new(Servers { used: list.called.clone(), left_out: left_out.collect() })
}

fn words(error: &Error) -> String {
    match error {
        Error::NoHosts | Error::ConnectionLoss | Error::Timeout => {
            "no server of it answers".to_owned()
        }
        Error::NoAuth | Error::AuthFailed => {
            "it refuses the login: name one as zookeeper://user:password@host".to_owned()
        }
        error => error.to_string(),
    }
}

impl Discovery for ZooKeeper {
    fn begin(&self) -> Result<ServerList, DiscoveryError> {
        let (say, said) = sync_channel(1);
        let (end, ended) = oneshot::channel();
        let of = self.clone();
        let thread = std::thread::Builder::new().name("zookeeper".to_owned());
        let thread = thread.spawn(move || of.run(say, ended));
        let thread = thread.map_err(|error| self.failed(&error.to_string()))?;
        let watch = ZooKeeperWatch { end: Some(end), thread: Some(thread) };
        let servers = self.first(&said)??;
        Ok(ServerList::new(servers, watch))
    }
}

impl ZooKeeper {
    fn first(&self, said: &Receiver<FirstList>) -> Result<FirstList, DiscoveryError> {
        said.recv_timeout(self.timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => self.failed(&format!("not within {:?}", self.timeout)),
            RecvTimeoutError::Disconnected => self.failed("its thread has ended"),
        })
    }

    fn run(&self, first: SyncSender<FirstList>, ended: oneshot::Receiver<()>) {
        match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.follow(first, ended)),
            Err(error) => drop(first.send(Err(self.failed(&error.to_string())))),
        }
    }
}
