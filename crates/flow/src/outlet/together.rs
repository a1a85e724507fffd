//! Answers to many clients, sent by one system call.
//!
//! One read from a server brings answers for many clients, and half of what a small one costs is
//! the call that sends it. While a [`Together`] is held, what is sent to a client goes on its
//! thread's list, and all of that out at the end, by `uring`. Only plain TCP connections that have
//! taken all before, and small pieces: what else there is to send goes as ever, behind what is on
//! the list for the same client.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::rc::Rc;

use uring::{Outgoing, Sends};

use super::{Client, Outlet};

/// Larger pieces are not worth their copy.
const PIECE_MAX: usize = 16 * 1024;
/// With so much on the list it is sent before the end.
const LIST_MAX: usize = 256 * 1024;

thread_local! {
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
    static LIST: RefCell<List> = RefCell::default();
}

#[derive(Default)]
struct List {
    /// Each client once, with where its bytes are.
    clients: Vec<(Rc<Client>, Range<usize>)>,
    bytes: Vec<u8>,
    /// Made when it is needed first.
    sends: Option<Sends>,
    outcomes: Vec<(usize, io::Result<usize>)>,
}

/// What is sent on this thread goes out together, when this is dropped. It is to be dropped before
/// the worker goes on to another task.
#[derive(Debug)]
pub struct Together(());

impl Together {
    /// What this thread sends goes on its list, until this is dropped.
    #[inline]
    pub fn begin() -> Self {
        IS_HELD.set(true);
        Self(())
    }
}

impl Drop for Together {
    #[inline]
    fn drop(&mut self) {
        IS_HELD.set(false);
        send_list();
    }
}

impl Outlet {
    /// Puts `parts` on the list; false where they are to be sent in another way.
    #[inline]
    pub(super) fn joins(&self, parts: &[&[u8]]) -> bool {
        IS_HELD.get() && self.is_put_on_list(parts)
    }

    fn is_put_on_list(&self, parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let is_small = len <= PIECE_MAX;
        // Two sends of one client could overtake each other.
        let goes_on = LIST.with_borrow(|list| match list.clients.last() {
            Some((last, _)) if Rc::ptr_eq(last, &self.0) => true,
            _ => !self.0.is_listed.get(),
        });
        if !(is_small && goes_on) {
            self.send_listed();
        }
        let is_ready = self.0.spill.borrow().is_none() && self.may_send();
        if !(is_small && is_ready && self.0.stream.borrow().tcp().is_some()) {
            return false;
        }
        let is_full = LIST.with_borrow_mut(|list| {
            // Without a ring each is a call in any case.
            if !list.sends.get_or_insert_default().is_batched() {
                return None;
            }
            let begin = list.bytes.len();
            parts.iter().for_each(|part| list.bytes.extend_from_slice(part));
            let end = list.bytes.len();
            match list.clients.last_mut() {
                Some((_, range)) if self.0.is_listed.get() => range.end = end,
                _ => {
                    self.0.is_listed.set(true);
                    list.clients.push((Rc::clone(&self.0), begin..end));
                }
            }
            Some(end > LIST_MAX)
        });
        if is_full == Some(true) {
            send_list();
        }
        is_full.is_some()
    }

    /// Sends the list, if this client is on it.
    #[inline]
    pub(super) fn send_listed(&self) {
        if self.0.is_listed.get() {
            send_list();
        }
    }
}

fn send_list() {
    if LIST.with_borrow(|list| list.clients.is_empty()) {
        return;
    }
    let mut list = LIST.take();
    {
        let streams: Vec<_> = list.clients.iter().map(|(of, _)| of.stream.borrow()).collect();
        let outgoing = streams.iter().zip(&list.clients).filter_map(|(stream, (_, range))| {
            Some(Outgoing { socket: stream.tcp()?, bytes: list.bytes.get(range.clone())? })
        });
        // All are plain, or would not be here, so that the numbers are those of the list.
        let outgoing: Vec<_> = outgoing.collect();
        let outcomes = &mut list.outcomes;
        let sends = list.sends.get_or_insert_default();
        sends.send(&outgoing, |number, sent| outcomes.push((number, sent)));
    }
    list.clients.iter().for_each(|(client, _)| client.is_listed.set(false));
    for (number, sent) in list.outcomes.drain(..) {
        let Some((client, range)) = list.clients.get(number) else { continue };
        let bytes = list.bytes.get(range.clone()).unwrap_or_default();
        Outlet(Rc::clone(client)).sent(sent, &[bytes]);
    }
    list.clients.clear();
    list.bytes.clear();
    // Nothing was put on it meanwhile: what is not sent is spilled, or its client closed.
    LIST.set(list);
}
