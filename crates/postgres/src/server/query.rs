//! Asking a server something of Weir's own: its role, its catalogue, a user's verifier.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use wire::postgres::backend::{self, Fields, Row, tag};
use wire::postgres::frontend::{self, Target};

use super::{Conversation, ServerError, TalkError};

/// Rows of text; `None` is NULL. Text that is not UTF-8 has replacement characters.
pub type Rows = Vec<Vec<Option<String>>>;

/// What an answer may cost.
#[derive(Debug, Clone, Copy)]
pub struct AskLimits {
    /// Bytes of all its rows.
    pub bytes: usize,
    /// From the question to the end of the answer.
    pub time: Duration,
}

/// Why there is no answer. After all but an [error](Self::Refused) the connection is of no more
/// use; nor after that where it is fatal.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The server answered with an error; another question may follow.
    #[error("{0}")]
    Refused(ServerError),
    /// The answer did not come in time.
    #[error("no answer within {0:?}; does the server hang?")]
    TimedOut(Duration),
    /// There is more of it than is taken.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// The connection broke off.
    #[error(transparent)]
    Talk(#[from] TalkError),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    /// Runs `sql`, with `values` for `$1` and on where there are any, and gives its rows. Without
    /// values it may be several statements, whose rows come one after the other.
    ///
    /// # Errors
    /// The server refuses it, the limits are passed, or the connection breaks.
    pub async fn ask(
        &mut self,
        sql: &str,
        values: &[Option<&[u8]>],
        limits: AskLimits,
    ) -> Result<Rows, QueryError> {
        let answer = self.ask_at_leisure(sql, values, limits.bytes);
        timeout(limits.time, answer).await.unwrap_or(Err(QueryError::TimedOut(limits.time)))
    }

    async fn ask_at_leisure(
        &mut self,
        sql: &str,
        values: &[Option<&[u8]>],
        bytes_max: usize,
    ) -> Result<Rows, QueryError> {
        let out = &mut self.out;
        if values.is_empty() {
            frontend::put_query(out, sql.as_bytes());
        } else {
            frontend::put_parse(out, b"", sql.as_bytes(), &[]);
            frontend::put_bind(out, b"", b"", values);
            frontend::put_describe(out, Target::Portal(b""));
            frontend::put_execute(out, b"", 0);
            frontend::put_sync(out);
        }
        self.send().await?;
        self.answer(bytes_max).await
    }

    async fn answer(&mut self, bytes_max: usize) -> Result<Rows, QueryError> {
        let (mut rows, mut bytes, mut refused) = (Rows::new(), 0, None);
        loop {
            let frame = self.next().await?;
            match frame.tag {
                tag::DATA_ROW => {
                    bytes += frame.whole.len();
                    if bytes > bytes_max {
                        return Err(QueryError::TooLarge(bytes_max));
                    }
                    let row = Row::read(frame.body).map_err(TalkError::from)?;
                    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                    rows.push(row.values().map(|value| value.map(text)).collect());
                }
                tag::ERROR_RESPONSE => {
                    let fields = Fields::read(frame.body).map_err(TalkError::from)?;
                    let fatal = fields.is_fatal();
                    let error = ServerError::new(&fields);
                    if fatal {
                        return Err(QueryError::Refused(error));
                    }
                    refused = Some(error);
                }
                tag::READY_FOR_QUERY => {
                    backend::ready_for_query(frame.body).map_err(TalkError::from)?;
                    return refused.map_or(Ok(rows), |error| Err(QueryError::Refused(error)));
                }
                tag::ROW_DESCRIPTION
                | tag::COMMAND_COMPLETE
                | tag::EMPTY_QUERY_RESPONSE
                | tag::PARSE_COMPLETE
                | tag::BIND_COMPLETE
                | tag::NO_DATA
                | tag::NOTICE_RESPONSE
                | tag::NOTIFICATION_RESPONSE
                | tag::PARAMETER_STATUS => {}
                other => return Err(TalkError::Unexpected(other).into()),
            }
        }
    }
}
