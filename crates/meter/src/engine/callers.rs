//! Who waits for which answer on a shared connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::workload;

/// Users of several connections, who are woken where one of them changes.
#[derive(Debug, Clone, Default)]
pub struct Wakers(Rc<RefCell<Vec<Option<Waker>>>>);

impl Wakers {
    /// Remembers whom to wake for a user.
    pub fn listen(&self, user: usize, cx: &Context<'_>) {
        let mut all = self.0.borrow_mut();
        if all.len() <= user {
            all.resize(user + 1, None);
        }
        match &mut all[user] {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    pub fn wake_all(&self) {
        self.0.borrow().iter().flatten().for_each(Waker::wake_by_ref);
    }
}

/// Bits of a request's number on the connection that say whose it is; the others count.
const CALLER_BITS: u32 = 20;
const CALLER_MASK: u64 = (1 << CALLER_BITS) - 1;
/// A larger buffer is not kept for the next answer.
const RETAINED_BYTES_MAX: usize = 1 << 20;

/// A request that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    /// Its number on the connection.
    id: u64,
    /// The number that it had before.
    number: u64,
}

/// Someone who has one request under way at most.
#[derive(Debug)]
struct Caller<E> {
    call: Option<Call>,
    /// It has a request that the connection does not take yet.
    is_sending: bool,
    /// The answer, of which this much has been read.
    inbox: Vec<u8>,
    read: usize,
    /// How the connection ended below the call.
    ended: Option<E>,
    waker: Option<Waker>,
}

/// All that share a connection, by their numbers from 0 on.
#[derive(Debug)]
pub struct CallerList<E> {
    callers: Vec<Caller<E>>,
    under_way: usize,
    /// Numbers that were given.
    given: u64,
}

impl<E: Clone> CallerList<E> {
    /// A list on which nobody is yet.
    pub fn new() -> Self {
        Self { callers: Vec::new(), under_way: 0, given: 0 }
    }

    /// Adds a caller; gives its number.
    pub fn add(&mut self) -> usize {
        let caller = Caller {
            call: None,
            is_sending: false,
            inbox: Vec::new(),
            read: 0,
            ended: None,
            waker: None,
        };
        self.callers.push(caller);
        self.callers.len() - 1
    }

    /// How many requests are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// A number that no other request has on the connection, for a caller's or for a heartbeat.
    pub fn next_id(&mut self, caller: usize) -> u64 {
        self.given += 1;
        self.given << CALLER_BITS | caller as u64 & CALLER_MASK
    }

    /// A caller has a request that the connection does not take yet: its end is not the request's.
    pub fn note_sending(&mut self, caller: usize) {
        self.callers[caller].is_sending = true;
    }

    /// A caller has sent a request.
    pub fn begin(&mut self, caller: usize, id: u64, number: u64) {
        self.release(caller);
        self.callers[caller].call = Some(Call { id, number });
        self.under_way += 1;
    }

    /// A caller waits for nothing any more: what comes for it is for nobody.
    pub fn release(&mut self, caller: usize) {
        let caller = &mut self.callers[caller];
        self.under_way -= usize::from(caller.call.take().is_some());
        (caller.read, caller.ended, caller.is_sending) = (0, None, false);
        caller.inbox.clear();
        caller.inbox.shrink_to(RETAINED_BYTES_MAX);
    }

    /// What has come for a caller, and is not read yet.
    pub fn unread(&self, caller: usize) -> &[u8] {
        let caller = &self.callers[caller];
        &caller.inbox[caller.read..]
    }

    /// A caller has read so many bytes.
    pub fn note_read(&mut self, caller: usize, len: usize) {
        let caller = &mut self.callers[caller];
        caller.read += len;
        if caller.read == caller.inbox.len() {
            caller.read = 0;
            caller.inbox.clear();
            caller.inbox.shrink_to(RETAINED_BYTES_MAX);
        }
    }

    /// How the connection ended below a caller's request, once.
    pub fn take_ended(&mut self, caller: usize) -> Option<E> {
        self.callers[caller].ended.take()
    }

    /// Whether a caller has a request that has not ended.
    pub fn has_request(&self, caller: usize) -> bool {
        let caller = &self.callers[caller];
        caller.call.is_some() || caller.is_sending
    }

    /// Whether a caller has a request that the connection does not take yet.
    pub fn is_sending(&self, caller: usize) -> bool {
        self.callers[caller].is_sending
    }

    /// Whether something has come for a caller that it has not read, or will come.
    pub fn has_for(&self, caller: usize) -> bool {
        let is_read = self.unread(caller).is_empty();
        !is_read || self.has_request(caller) || self.callers[caller].ended.is_some()
    }

    /// The connection has ended: no request under way is answered.
    pub fn end(&mut self, ended: &E) {
        for caller in &mut self.callers {
            if caller.call.take().is_some() {
                caller.ended = Some(ended.clone());
            }
        }
        self.under_way = 0;
    }

    /// Remembers whom to wake for a caller.
    pub fn listen(&mut self, caller: usize, cx: &Context<'_>) {
        match &mut self.callers[caller].waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Wakes all: the connection has ended, is open again, or takes requests again.
    pub fn wake_all(&self) {
        self.callers.iter().filter_map(|caller| caller.waker.as_ref()).for_each(Waker::wake_by_ref);
    }
}

impl<E> workload::Callers for CallerList<E> {
    fn answered(&mut self, id: u64) -> Option<(u64, &mut Vec<u8>)> {
        let at = usize::try_from(id & CALLER_MASK).ok()?;
        let caller = self.callers.get_mut(at)?;
        let call = caller.call.filter(|call| call.id == id)?;
        caller.call = None;
        self.under_way -= 1;
        caller.waker.iter().for_each(Waker::wake_by_ref);
        Some((call.number, &mut caller.inbox))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::CallerList;
    use crate::workload::Callers as _;

    #[test]
    fn an_answer_that_comes_late_or_twice_is_nobodys() {
        let mut list = CallerList::<()>::new();
        let (ann, bob) = (list.add(), list.add());
        let (first, other) = (list.next_id(ann), list.next_id(bob));
        list.begin(ann, first, 7);
        list.begin(bob, other, 8);
        list.release(ann);
        assert!(list.answered(first).is_none(), "late");
        let second = list.next_id(ann);
        list.begin(ann, second, 9);
        assert!(list.answered(first).is_none(), "later still");
        assert_eq!(list.answered(second).map(|(number, _)| number), Some(9));
        assert!(list.answered(second).is_none(), "twice");
        assert_eq!(list.under_way(), 1);
        list.end(&());
        assert_eq!(
            (list.under_way(), list.take_ended(ann), list.take_ended(bob)),
            (0, None, Some(()))
        );
    }

    proptest! {
        /// Each answer reaches the one whose call it is, in any order, and nobody else.
        #[test]
        fn each_hears_its_own_answer(
            steps in prop::collection::vec(
                (0_usize..5, 0_u8..3, any::<prop::sample::Index>()), 1..200
            ),
        ) {
            let mut list = CallerList::<()>::new();
            (0..5).for_each(|_| { list.add(); });
            let (mut calls, mut waits) = (Vec::new(), [None; 5]);
            for (number, (caller, what, which)) in (0..).zip(steps) {
                match what {
                    0 => {
                        let id = list.next_id(caller);
                        list.begin(caller, id, number);
                        calls.push((id, caller, number));
                        waits[caller] = Some(number);
                    }
                    1 => {
                        list.release(caller);
                        waits[caller] = None;
                    }
                    _ if calls.is_empty() => {}
                    _ => {
                        let (id, of, number) = calls[which.index(calls.len())];
                        let heard = list.answered(id).map(|(number, _)| number);
                        let wanted = waits[of].filter(|own| *own == number);
                        prop_assert_eq!(heard, wanted);
                        if heard.is_some() { waits[of] = None; }
                    }
                }
                prop_assert_eq!(list.under_way(), waits.iter().flatten().count());
            }
        }
    }
}
