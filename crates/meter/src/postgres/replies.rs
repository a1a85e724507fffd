//! Where the replies to a script end. Rows are counted out and not kept; nothing is allocated for
//! messages that come at once.

use wire::postgres::backend::{Fields, Status, ready_for_query, tag};
use wire::postgres::frame::{HEADER_BYTES, header};
use wire::postgres::frontend;

use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// The longest message, as the server has it: 1 GiB and its header.
const MESSAGE_MAX: usize = (1 << 30) + HEADER_BYTES;
/// The longest message that is looked into: an error's.
const READ_MAX: usize = 1 << 20;
/// Bytes of an error that are kept, so that it can be told.
const ERROR_MAX: usize = 200;

/// Reads the replies to scripts.
#[derive(Debug)]
pub struct Replies {
    pipelined: bool,
    /// Rounds that are sent and not answered.
    awaited: u32,
    /// Some of the script is not sent yet.
    goes_on: bool,
    state: State,
    /// Statements that were answered.
    statements: u32,
    /// What came of a message of which more is to come.
    part: Vec<u8>,
    /// Bytes to come of a message that is not looked into.
    skip: usize,
    error: String,
}

/// How the script went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Failed,
    /// The same, and a transaction is open that has to be ended.
    ToRollBack,
    /// That has been sent.
    RollingBack,
}

/// What is behind a message.
enum MessageEffect {
    More,
    /// All that was sent is answered.
    Round,
}

impl Replies {
    /// Of a connection on which nothing was asked yet.
    pub fn new(pipelined: bool) -> Self {
        Self {
            pipelined,
            awaited: 0,
            goes_on: false,
            state: State::Well,
            statements: 0,
            part: Vec::new(),
            skip: 0,
            error: String::new(),
        }
    }

    /// The first error, as the server wrote it.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Looks at the message at the begin of `bytes`; its length, and nothing where more is wanted.
    fn message(&mut self, bytes: &[u8]) -> Result<Option<(usize, MessageEffect)>, Malformed> {
        let Some(found) = header(bytes, MESSAGE_MAX).map_err(|_| STRANGE)? else {
            return Ok(None);
        };
        match found.tag {
            tag::READY_FOR_QUERY | tag::ERROR_RESPONSE => {
                if found.len > READ_MAX {
                    return Err(STRANGE);
                }
                let Some(body) = bytes.get(HEADER_BYTES..found.len) else { return Ok(None) };
                let heard = if found.tag == tag::ERROR_RESPONSE {
                    self.failed(body)?;
                    MessageEffect::More
                } else {
                    self.ready(ready_for_query(body).map_err(|_| STRANGE)?)?
                };
                return Ok(Some((found.len, heard)));
            }
            tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE => {
                self.statements += u32::from(self.state != State::RollingBack);
            }
            tag::COPY_IN_RESPONSE | tag::COPY_BOTH_RESPONSE => {
                return Err(Malformed(
                    "the server waits for data: no script can COPY ... FROM STDIN",
                ));
            }
            known if PASSED.contains(&known) => {}
            _ => return Err(STRANGE),
        }
        Ok(Some((found.len, MessageEffect::More)))
    }

    fn failed(&mut self, body: &[u8]) -> Result<(), Malformed> {
        let fields = Fields::read(body).map_err(|_| STRANGE)?;
        if self.state == State::Well {
            self.error = words(&fields);
            self.state = State::Failed;
        }
        Ok(())
    }

    fn ready(&mut self, status: Status) -> Result<MessageEffect, Malformed> {
        self.awaited = self.awaited.checked_sub(1).ok_or(UNASKED)?;
        if self.awaited > 0 {
            return Ok(MessageEffect::More);
        }
        if self.state == State::Failed && status != Status::Idle {
            self.state = State::ToRollBack;
        }
        Ok(MessageEffect::Round)
    }

    /// Takes in what has come; whether all that was sent is answered.
    fn take(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        let (mut at, mut is_round) = (0, false);
        loop {
            let skipped = self.skip.min(bytes.len() - at);
            self.skip -= skipped;
            at += skipped;
            let rest = &bytes[at..];
            let kept = self.part.len();
            let looked = if kept == 0 {
                self.message(rest)?
            } else {
                let mut part = std::mem::take(&mut self.part);
                part.extend_from_slice(rest);
                let looked = self.message(&part);
                self.part = part;
                looked?
            };
            let Some((len, heard)) = looked else {
                if kept == 0 {
                    self.part.extend_from_slice(rest);
                }
                return Ok(is_round);
            };
            self.part.clear();
            let from_rest = len - kept;
            let there = from_rest.min(rest.len());
            self.skip = from_rest - there;
            at += there;
            is_round |= matches!(heard, MessageEffect::Round);
        }
    }

    fn answer(&self) -> Answer {
        let kind = if self.state == State::Well { Kind::Succeeded } else { Kind::Server };
        Answer { kind, code: 0, commands: self.statements.max(1), reusable: true }
    }
}

/// Messages that are part of a reply, or of none.
const PASSED: [u8; 14] = [
    tag::BIND_COMPLETE,
    tag::CLOSE_COMPLETE,
    tag::COPY_DATA,
    tag::COPY_DONE,
    tag::COPY_OUT_RESPONSE,
    tag::DATA_ROW,
    tag::NO_DATA,
    tag::NOTICE_RESPONSE,
    tag::NOTIFICATION_RESPONSE,
    tag::PARAMETER_DESCRIPTION,
    tag::PARAMETER_STATUS,
    tag::PARSE_COMPLETE,
    tag::PORTAL_SUSPENDED,
    tag::ROW_DESCRIPTION,
];
const STRANGE: Malformed = Malformed("what came is not PostgreSQL's protocol");
const UNASKED: Malformed = Malformed("the server answered what nobody had asked");

/// What an error says, with its SQLSTATE.
pub fn words(fields: &Fields<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let message: String = text(fields.message()).chars().take(ERROR_MAX).collect();
    format!("{message} ({})", text(fields.code()))
}

impl Reader for Replies {
    fn begin(&mut self, _: usize) {
        self.awaited = 0;
        self.goes_on = true;
        self.state = State::Well;
        self.statements = 0;
    }

    fn go_on(&mut self, request: &mut Vec<u8>, sent: usize) -> usize {
        if self.awaited > 0 {
            return sent;
        }
        if self.state == State::ToRollBack {
            request.truncate(sent);
            frontend::put_query(request, b"ROLLBACK");
            self.state = State::RollingBack;
        }
        let mut at = sent;
        while let Ok(Some(message)) = header(&request[at..], MESSAGE_MAX) {
            at = (at + message.len).min(request.len());
            if matches!(message.tag, frontend::tag::QUERY | frontend::tag::SYNC) {
                self.awaited += 1;
                if !self.pipelined {
                    break;
                }
            }
        }
        self.goes_on = at < request.len();
        at
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        let is_round = self.take(bytes)?;
        let is_over = match self.state {
            State::Well => !self.goes_on,
            State::Failed | State::RollingBack => true,
            State::ToRollBack => false,
        };
        let is_over = is_over && is_round;
        // A notice behind the end is in time; half a message is not.
        if is_over && (self.skip > 0 || !self.part.is_empty()) {
            return Err(UNASKED);
        }
        Ok(is_over.then(|| self.answer()))
    }

    fn ended(&mut self) -> Option<Answer> {
        // The server says why it closes a connection, which is an answer.
        (self.state != State::Well).then(|| Answer { reusable: false, ..self.answer() })
    }

    fn begun(&self) -> Option<String> {
        Some("replies without the last ReadyForQuery".to_owned())
    }

    fn failure(&self, _: &Answer) -> String {
        self.error.clone()
    }
}
