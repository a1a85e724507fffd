//! What a connection knows of the request under way: how its answer is judged, and what the same
//! user asks next.

use std::sync::Arc;
use std::time::SystemTime;

use super::answer::Answers;
use super::check::CheckedAnswer;
use super::requests::{Requests, User};
use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// Reads the answers of one connection.
#[derive(Debug, Clone)]
pub struct Visit {
    requests: Arc<Requests>,
    answers: Answers,
    user: User,
    /// Which request is under way.
    at: usize,
    /// Its target as it was sent, where cookies are kept.
    target: Vec<u8>,
    /// Requests on this connection.
    sent: u32,
    /// What of the answer failed.
    failed: Option<Failed>,
    /// The answer was a success.
    is_well: bool,
    scratch: Vec<u8>,
}

/// What failed of an answer that is not an error.
#[derive(Debug, Clone, Copy)]
enum Failed {
    Check(usize),
    Take(usize),
}

impl Visit {
    /// Of a connection on which nothing was asked yet.
    pub fn new(requests: Arc<Requests>) -> Self {
        Self {
            requests,
            answers: Answers::new(false),
            user: User::default(),
            at: 0,
            target: Vec::new(),
            sent: 0,
            failed: None,
            is_well: false,
            scratch: Vec::new(),
        }
    }

    fn is_last(&self) -> bool {
        self.requests.per_connection.is_some_and(|most| self.sent >= most)
    }

    fn judged(&mut self, mut answer: Answer) -> Answer {
        answer.reusable &= !self.is_last();
        self.failed = None;
        if self.requests.each[self.at].looks {
            answer.kind = self.look(&answer);
        }
        self.is_well = answer.kind == Kind::Succeeded;
        answer
    }

    /// Looks into an answer: its cookies, its checks, and what later steps need.
    fn look(&mut self, answer: &Answer) -> Kind {
        let Some(kept) = self.answers.kept() else { return answer.kind };
        let one = &self.requests.each[self.at];
        let mut seen = CheckedAnswer::new(answer.code, kept);
        // A status that a check wants is a success, whichever it is. Any other one that is no
        // success is the server's error, and not that of a check.
        let mut says = one.checks.iter().filter(|check| check.is_of_status()).peekable();
        let mut is_wanted = || says.peek().is_some() && says.all(|check| check.holds(&mut seen));
        if answer.kind != Kind::Succeeded && !is_wanted() {
            return answer.kind;
        }
        if let Some(at) = one.checks.iter().position(|check| !check.holds(&mut seen)) {
            self.failed = Some(Failed::Check(at));
            return Kind::Check;
        }
        for (at, take) in one.takes.iter().enumerate() {
            let Some(value) = take.value(&mut seen) else {
                self.failed = Some(Failed::Take(at));
                return Kind::Check;
            };
            let place = one.taken_before + at;
            self.user.taken.resize_with(self.user.taken.len().max(place + 1), Vec::new);
            self.user.taken[place] = value;
        }
        let mut lines = kept.headers("set-cookie").peekable();
        if lines.peek().is_some() && self.requests.are_of_one_user() {
            let (asked, now) = (self.requests.asked(&self.target), SystemTime::now());
            lines.for_each(|line| self.user.jar.take_in(line, &asked, now));
        }
        Kind::Succeeded
    }
}

impl Reader for Visit {
    fn number(&mut self, number: u64) {
        self.at = self.requests.first(number);
        self.user.number = number;
        if self.requests.are_of_one_user() {
            self.user.taken.clear();
            self.user.jar.clear();
        }
    }

    fn begin(&mut self, _: usize) {
        let one = &self.requests.each[self.at];
        self.answers.expect(one.is_head, one.looks);
        self.sent = self.sent.saturating_add(1);
        self.is_well = false;
    }

    fn go_on(&mut self, request: &mut Vec<u8>, sent: usize) -> usize {
        if sent == 0 && self.requests.are_of_one_user() {
            let target = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            self.target.clear();
            self.target.extend_from_slice(target);
        }
        if sent == 0 && self.is_last() && !self.requests.each[self.at].says_connection {
            let end = memchr::memchr(b'\n', request).map_or(0, |at| at + 1);
            request.splice(end..end, *b"Connection: close\r\n");
        }
        request.len()
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        let answer = self.answers.read(bytes)?;
        Ok(answer.map(|answer| self.judged(answer)))
    }

    fn ended(&mut self) -> Option<Answer> {
        let answer = self.answers.ended()?;
        Some(self.judged(answer))
    }

    fn begun(&self) -> Option<String> {
        self.answers.begun()
    }

    fn follow(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let is_next = self.is_well
            && self.requests.are_of_one_user()
            && self.at + 1 < self.requests.each.len();
        if !is_next {
            return None;
        }
        self.at += 1;
        Some(self.requests.put(self.at, &self.user, &mut self.scratch, out))
    }

    fn renew(&mut self, fresh: Self) {
        (self.answers, self.sent) = (fresh.answers, 0);
    }

    fn failure(&self, answer: &Answer) -> String {
        let one = &self.requests.each[self.at];
        let unreadable = self.answers.kept().and_then(|kept| kept.unreadable());
        let why = |reads_body: bool| match unreadable {
            Some(why) if reads_body => format!(" ({why})"),
            _ => String::new(),
        };
        let words = match self.failed.filter(|_| answer.kind == Kind::Check) {
            None => format!("status {}", answer.code),
            Some(Failed::Check(at)) => match &one.checks[at] {
                check if check.is_of_status() => {
                    format!("check failed: {check}; it was {}", answer.code)
                }
                check => format!("check failed: {check}{}", why(check.reads_body())),
            },
            Some(Failed::Take(at)) => {
                let take = &one.takes[at];
                format!("nothing to take: {take}{}", why(take.reads_body()))
            }
        };
        match &*self.requests.operations {
            [_] => words,
            all => format!("{}: {words}", all[one.operation]),
        }
    }
}
