//! The servers of a thread, where a registry says which there are: connections to each are opened
//! before the load begins, and servers that come or go meanwhile are taken in or left.

use std::rc::Rc;

use flow::dial::{Address, Socket, Target};
use tokio::task::{AbortHandle, JoinSet};

use super::channel::Channel;
use super::channel_task;
use super::channels::{BalancedLine, ChannelSet, Member};
use super::connection::ThreadState;
use super::line::Line;
use super::opening::{AT_ONCE_MAX, ConnectionTimes, OpenError, open};
use super::plan::Plan;
use crate::discovery::ServerList;
use crate::network::Network;
use crate::workload::{Multiplexing, Workload};

/// A thread's part of the servers that share a load.
pub struct ThreadServers {
    set: Rc<ChannelSet>,
    list: ServerList,
    /// How a server is reached, whatever its address.
    target: Target,
    /// Connections to each server.
    connections: usize,
    users: usize,
    protocol: fn() -> Box<dyn Multiplexing>,
}

/// What came of opening a connection.
type OpenResult = Result<(Socket, ConnectionTimes), OpenError>;

/// No server could be connected to.
pub enum NoServer {
    /// None of so many connections could be opened; the last error.
    Unreachable { connections: usize, source: OpenError },
    /// A task has ended by itself.
    Injector(String),
}

impl ThreadServers {
    /// Those of thread `number`, none of which is connected to. All threads together have so many
    /// `channels` to each server.
    pub fn new(
        number: usize,
        plan: &Plan,
        (channels, protocol): (usize, fn() -> Box<dyn Multiplexing>),
        list: ServerList,
    ) -> Self {
        let own = |all: usize| (number..all).step_by(plan.threads).len();
        Self {
            set: Rc::new(ChannelSet::new(number as u64)),
            list,
            target: plan.target.clone(),
            connections: own(plan.shared_connections(channels)),
            users: own(plan.connections),
            protocol,
        }
    }

    /// Connects to all servers. One that can't be reached is tried again while the load runs.
    ///
    /// # Errors
    /// None can be reached.
    pub async fn open_all<W: Workload>(&mut self, workload: &W) -> Result<Network, NoServer> {
        let servers = self.list.servers();
        let each = servers.used.iter().enumerate();
        let mut wanted = each.flat_map(|(at, _)| (0..self.connections).map(move |_| at));
        let mut sockets: Vec<Vec<Socket>> = servers.used.iter().map(|_| Vec::new()).collect();
        let (mut network, mut failed, mut opening) = (Network::default(), None, JoinSet::new());
        loop {
            while opening.len() < AT_ONCE_MAX
                && let Some(at) = wanted.next()
            {
                let target = self.at(&servers.used[at].address);
                let greeting = workload.greeting();
                opening.spawn_local(async move { (at, open(&target, greeting).await) });
            }
            let Some(done) = opening.join_next().await else { break };
            let (at, opened): (usize, OpenResult) =
                done.map_err(|error| NoServer::Injector(error.to_string()))?;
            match opened {
                Ok((socket, way)) => {
                    let address = servers.used[at].address.to_string();
                    network.note(&address, way.took, way.round_trip);
                    sockets[at].push(socket);
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(source) = failed.filter(|_| sockets.iter().all(Vec::is_empty)) {
            let connections = servers.used.len() * self.connections;
            return Err(NoServer::Unreachable { connections, source });
        }
        for (server, sockets) in servers.used.iter().zip(sockets) {
            self.set.push(self.member(&server.address, server.weight, sockets));
        }
        Ok(network)
    }

    /// What each of the thread's users sends on.
    pub fn lines(&self) -> Vec<(Target, Line)> {
        let line = |user| Line::Balanced(BalancedLine::new(&self.set, user));
        (0..self.users).map(|user| (self.target.clone(), line(user))).collect()
    }

    /// Serves the users of all connections, and follows the list of servers, until the task is
    /// ended.
    pub async fn follow<W: Workload + 'static>(mut self, shared: Rc<ThreadState<W>>) {
        let (mut tasks, mut serving) = (JoinSet::new(), Vec::new());
        self.set.each(|member| self.serve(member, &shared, (&mut tasks, &mut serving)));
        loop {
            self.list.changed().await;
            let servers = self.list.servers();
            let weight = |address: &Address| {
                let server = servers.used.iter().find(|server| server.address == *address);
                server.map(|server| server.weight)
            };
            for member in self.set.retain(weight) {
                leave(&member, &mut serving);
            }
            for server in servers.used.iter().filter(|server| !self.set.has(&server.address)) {
                let member = self.member(&server.address, server.weight, Vec::new());
                self.serve(&member, &shared, (&mut tasks, &mut serving));
                self.set.push(member);
            }
            while tasks.try_join_next().is_some() {}
            serving.retain(|(_, task)| !task.is_finished());
        }
    }

    fn serve<W: Workload + 'static>(
        &self,
        member: &Member,
        shared: &Rc<ThreadState<W>>,
        (tasks, serving): (&mut JoinSet<()>, &mut Vec<(Rc<Channel>, AbortHandle)>),
    ) {
        for channel in &member.channels {
            let (own, target) = (Rc::clone(channel), self.at(&member.address));
            let task = tasks.spawn_local(channel_task::serve(own, target, Rc::clone(shared)));
            serving.push((Rc::clone(channel), task));
        }
    }

    fn at(&self, address: &Address) -> Target {
        Target { address: address.clone(), ..self.target.clone() }
    }

    /// A server with those of its connections that are open; the others are to be opened.
    fn member(&self, address: &Address, weight: u32, sockets: Vec<Socket>) -> Member {
        let mut sockets = sockets.into_iter();
        let channels = (0..self.connections).map(|_| {
            let channel = Channel::of_set(sockets.next(), self.protocol, self.set.wakers());
            (0..self.users).for_each(|_| {
                channel.join();
            });
            Rc::new(channel)
        });
        Member::new(address.clone(), weight, channels.collect())
    }
}

/// Lets calls that are under way have their answers, and gives up what is being opened.
fn leave(member: &Member, serving: &mut [(Rc<Channel>, AbortHandle)]) {
    for channel in &member.channels {
        channel.leave();
        let of_channel = serving.iter().find(|(known, _)| Rc::ptr_eq(known, channel));
        if let Some((_, task)) = of_channel.filter(|_| !channel.has_socket()) {
            task.abort();
        }
    }
}
