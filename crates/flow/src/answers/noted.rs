//! Answers of which the gateway is told, too, in the order of their requests.

use std::collections::VecDeque;

/// Bytes of an answer that are kept for the gateway: an error or a status is whole in them.
const BYTES_MAX: usize = 4096;

/// What has become of a request that was [noted](super::Line::note).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedAnswer {
    /// What its gateway knows it by.
    pub mark: u64,
    /// How its answer begins, up to 4096 bytes; `None`: there is none, and words of the gateway are
    /// in its place.
    pub begins: Option<Vec<u8>>,
}

/// The noted requests of a line.
#[derive(Clone, Default)]
pub(super) struct Notes {
    /// Those that are not at their end, by their numbers, in their order.
    open: VecDeque<(u64, NotedAnswer)>,
    /// Those that are, and of which nobody was told, in their order.
    ended: VecDeque<NotedAnswer>,
}

impl Notes {
    pub(super) fn add(&mut self, request: u64, mark: u64) {
        self.open.push_back((request, NotedAnswer { mark, begins: Some(Vec::new()) }));
    }

    /// A piece of the answer has come.
    pub(super) fn hear(&mut self, request: u64, bytes: &[u8]) {
        if let Some(NotedAnswer { begins: Some(begins), .. }) = self.find(request) {
            let room = BYTES_MAX.saturating_sub(begins.len()).min(bytes.len());
            begins.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
    }

    /// The answer begins anew, by another connection.
    pub(super) fn begin_anew(&mut self, request: u64) {
        if let Some(NotedAnswer { begins: Some(begins), .. }) = self.find(request) {
            begins.clear();
        }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn give_up(&mut self, request: u64) {
        if let Some(of) = self.find(request) {
            of.begins = None;
        }
    }

    /// All up to this request are answered.
    pub(super) fn end(&mut self, request: u64) {
        let is_ended = self.open.front().is_some_and(|(of, _)| *of <= request);
        let first = if is_ended { self.open.pop_front() } else { None };
        self.ended.extend(first.map(|(_, answer)| answer));
    }

    /// The first one of which nobody was told.
    pub(super) fn take(&mut self) -> Option<NotedAnswer> {
        self.ended.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ended.is_empty()
    }

    fn find(&mut self, request: u64) -> Option<&mut NotedAnswer> {
        self.open.iter_mut().find(|(of, _)| *of == request).map(|(_, answer)| answer)
    }
}
