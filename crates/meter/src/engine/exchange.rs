//! How the exchange of a request and its answer ended: by which kind it is counted, what the ledger
//! is told, and in which words it failed.

use std::io;

use crate::ledger::Fate;
use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

const LATE: &str = "no answer in time";
const CUT_SHORT: &str = "no whole answer in time";
const CLOSED: &str = "the server closed the connection";
const UNMADE: &str = "not sent, since a value of its data is not fit for it";
const PAUSED: &str = "no answer in time, which ended while the injector stood still";

/// Why a request has no answer.
pub enum ExchangeError {
    /// It had its time.
    Expired,
    /// It had its time while the injector stood still.
    Paused,
    /// The server closed the connection before the answer was whole.
    Closed,
    Io(io::Error),
    Malformed(Malformed),
    /// Its data are not fit for a request.
    Unmade,
    /// It could not be entered into the ledger, so it was not sent.
    Unentered,
}

impl From<io::Error> for ExchangeError {
    /// Of a shared connection an error may say what came on it.
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Malformed>());
        match inner {
            Some(malformed) => Self::Malformed(*malformed),
            None => Self::Io(error),
        }
    }
}

/// How a request ended.
pub fn kind(answer: &Result<Answer, ExchangeError>) -> Kind {
    match answer {
        Ok(answer) => answer.kind,
        Err(ExchangeError::Malformed(_)) => Kind::Server,
        Err(ExchangeError::Expired) => Kind::Timeout,
        Err(ExchangeError::Io(error)) if error.kind() == io::ErrorKind::OutOfMemory => {
            Kind::Injector
        }
        Err(ExchangeError::Closed | ExchangeError::Io(_)) => Kind::Network,
        Err(ExchangeError::Paused | ExchangeError::Unmade | ExchangeError::Unentered) => {
            Kind::Injector
        }
    }
}

/// What the ledger is told of a request that has ended; nothing where it may have been done or not.
pub fn fate(kind: Kind, is_answered: bool) -> Option<Fate> {
    match kind {
        Kind::Succeeded => Some(Fate::Acknowledged),
        // What can't be understood is not an answer.
        Kind::Server | Kind::Check if is_answered => Some(Fate::Refused),
        _ => None,
    }
}

/// What a request failed of, in words; nothing where it succeeded, or where that has been told.
/// `came` is how many bytes of an answer have come.
pub fn failure(
    answer: &Result<Answer, ExchangeError>,
    reader: &impl Reader,
    came: usize,
) -> Option<String> {
    let begun = || (came > 0).then(|| reader.begun().unwrap_or_else(|| "a part of it".to_owned()));
    match answer {
        Ok(answer) if answer.kind == Kind::Succeeded => None,
        Ok(answer) => Some(reader.failure(answer)),
        Err(ExchangeError::Expired) => Some(match begun() {
            Some(begun) => format!("{CUT_SHORT}: {begun} came"),
            None => LATE.to_owned(),
        }),
        Err(ExchangeError::Paused) => Some(PAUSED.to_owned()),
        Err(ExchangeError::Unmade) => Some(UNMADE.to_owned()),
        Err(ExchangeError::Malformed(malformed)) => Some(malformed.to_string()),
        Err(ExchangeError::Closed) => Some(match begun() {
            Some(begun) => format!("{CLOSED} in the middle of an answer: {begun} came"),
            None => format!("{CLOSED} without an answer"),
        }),
        Err(ExchangeError::Io(error)) => Some(match begun() {
            Some(begun) => format!("{error}, in the middle of an answer: {begun} came"),
            None => error.to_string(),
        }),
        Err(ExchangeError::Unentered) => None,
    }
}
