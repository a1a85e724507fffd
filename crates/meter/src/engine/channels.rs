//! The connections of a thread to several servers that share its calls. Each call goes to a server
//! that takes calls now, in proportion to the weights; its answer comes from there.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use flow::dial::Address;
use tokio::io::ReadBuf;

use super::balance::Balance;
use super::callers::Wakers;
use super::channel::Channel;

/// A server with its connections.
pub struct Member {
    pub address: Address,
    pub weight: u32,
    pub channels: Vec<Rc<Channel>>,
    /// What its calls are counted by.
    name: Arc<str>,
    /// The connection that is next.
    next: usize,
}

impl Member {
    pub fn new(address: Address, weight: u32, channels: Vec<Rc<Channel>>) -> Self {
        let name = Arc::from(address.to_string());
        Self { address, weight, channels, name, next: 0 }
    }

    fn takes_calls(&self) -> bool {
        self.channels.iter().any(|channel| channel.is_open())
    }
}

/// All servers of a thread, which come and go.
pub struct ChannelSet(RefCell<ChannelSetState>);

struct ChannelSetState {
    /// In the order of their turns.
    members: Vec<Member>,
    balance: Balance,
    /// Users that wait for a call, or for a server that takes one.
    waiting: Wakers,
}

impl ChannelSet {
    /// Of no servers; `thread` says whose turn is first.
    pub fn new(thread: u64) -> Self {
        let (members, balance) = (Vec::new(), Balance::new(thread));
        Self(RefCell::new(ChannelSetState { members, balance, waiting: Wakers::default() }))
    }

    /// Whom each connection of the set wakes.
    pub fn wakers(&self) -> Wakers {
        self.0.borrow().waiting.clone()
    }

    /// Adds a server, and wakes whoever waits for one.
    pub fn push(&self, member: Member) {
        let mut state = self.0.borrow_mut();
        state.balance.push(member.weight);
        state.members.push(member);
        state.waiting.wake_all();
    }

    /// Gives the servers their weights, and takes out those that have none any more: they get no
    /// further calls.
    pub fn retain(&self, weight_of: impl Fn(&Address) -> Option<u32>) -> Vec<Member> {
        let mut state = self.0.borrow_mut();
        let mut gone = Vec::new();
        for at in (0..state.members.len()).rev() {
            match weight_of(&state.members[at].address) {
                None => {
                    state.balance.remove(at);
                    gone.push(state.members.remove(at));
                }
                Some(weight) if weight != state.members[at].weight => {
                    state.members[at].weight = weight;
                    state.balance.set_weight(at, weight);
                }
                Some(_) => {}
            }
        }
        state.waiting.wake_all();
        gone
    }

    /// Shows each server to a function.
    pub fn each(&self, show: impl FnMut(&Member)) {
        self.0.borrow().members.iter().for_each(show);
    }

    /// Whether it has a server at that address.
    pub fn has(&self, address: &Address) -> bool {
        self.0.borrow().members.iter().any(|member| member.address == *address)
    }

    fn is_open(&self) -> bool {
        self.0.borrow().members.iter().any(Member::takes_calls)
    }

    fn listen(&self, user: usize, cx: &Context<'_>) {
        self.0.borrow().waiting.listen(user, cx);
    }

    /// The connection for the next call; nothing where no server takes any.
    fn next(&self) -> Option<(Rc<Channel>, Arc<str>)> {
        let mut guard = self.0.borrow_mut();
        let ChannelSetState { members, balance, .. } = &mut *guard;
        let at = balance.next(|server| members[server].takes_calls())?;
        let member = &mut members[at];
        let count = member.channels.len();
        let begin = member.next;
        let open = (begin..begin + count).map(|at| at % count);
        let at = { open }.find(|at| member.channels[*at].is_open())?;
        member.next = at + 1;
        Some((Rc::clone(&member.channels[at]), Arc::clone(&member.name)))
    }
}

/// Where a user's call is.
enum Call {
    /// The user has no call.
    None,
    /// No server takes it now.
    Waits,
    /// It was given to a server.
    On { channel: Rc<Channel>, server: Arc<str> },
}

/// A user's part of all connections of a set; the user has the same number on each.
pub struct BalancedLine {
    set: Rc<ChannelSet>,
    user: usize,
    call: Call,
}

impl BalancedLine {
    pub fn new(set: &Rc<ChannelSet>, user: usize) -> Self {
        Self { set: Rc::clone(set), user, call: Call::None }
    }

    /// Ends the call: what comes of it from now on is nobody's. Gives the server that had it.
    pub fn release(&mut self) -> Option<Arc<str>> {
        match std::mem::replace(&mut self.call, Call::None) {
            Call::On { channel, server } => {
                channel.release(self.user);
                Some(server)
            }
            Call::None | Call::Waits => None,
        }
    }

    /// Whether a server takes calls.
    pub fn is_open(&self) -> bool {
        self.set.is_open()
    }

    /// Waits until a server takes calls.
    pub fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        self.set.listen(self.user, cx);
        if self.set.is_open() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Gives a whole request to a server; it waits where none takes any.
    pub fn poll_send(&mut self, cx: &Context<'_>, request: &[u8]) -> Poll<io::Result<usize>> {
        // One that had no room may have ended meanwhile.
        let is_kept = match &self.call {
            Call::On { channel, .. } => channel.is_sending(self.user) && channel.is_open(),
            Call::None | Call::Waits => false,
        };
        if !is_kept {
            self.release();
            self.call = match self.set.next() {
                Some((channel, server)) => Call::On { channel, server },
                None => Call::Waits,
            };
        }
        match &self.call {
            Call::On { channel, .. } => channel.poll_send(self.user, cx, request),
            Call::None | Call::Waits => {
                self.set.listen(self.user, cx);
                Poll::Pending
            }
        }
    }

    /// Gives what has come for the user; nothing at all is the end of the connection that had the
    /// call, or of all.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &self.call {
            Call::On { channel, .. } if channel.has_for(self.user) => {
                return channel.poll_receive(self.user, cx, buffer);
            }
            Call::Waits => {
                self.set.listen(self.user, cx);
                return Poll::Pending;
            }
            Call::On { .. } | Call::None => {}
        }
        match self.poll_open(cx) {
            Poll::Ready(()) => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    /// Whether the kernel has something of the call's connection that has not been read.
    pub fn has_come(&self) -> bool {
        matches!(&self.call, Call::On { channel, .. } if channel.has_come())
    }
}
