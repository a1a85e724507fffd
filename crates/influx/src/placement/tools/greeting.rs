//! A member to which something is sent by hand, over connections of which each begins with reading
//! its table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::agreement::judge;
use super::super::member::{MemberAnswer, QUERY};
use super::super::read::WrittenTable;
use super::server::{answers, servers};
use crate::client::{ClientError, Exchange, Greeting, Whole, form_body};
use crate::settings::BackendSettings;

/// Judges a member's table by the file and by what the other members had once.
#[derive(Clone, Debug)]
pub struct MemberGreeting {
    written: WrittenTable,
    member: String,
    others: BTreeMap<String, MemberAnswer>,
}

impl MemberGreeting {
    /// Asks the other members for their tables, as far as they answer within `timeout`: they know
    /// which disk of the member is its newest. `None` where the backend is in no set.
    ///
    /// # Errors
    /// When a password or certificate file cannot be read.
    pub async fn of(
        written: WrittenTable,
        backends: &[BackendSettings],
        backend: &str,
        timeout: Duration,
    ) -> Result<Option<Self>, ClientError> {
        if !written.members().any(|member| member == backend) {
            return Ok(None);
        }
        let mut others = servers(&written, backends)?;
        others.retain(|other| other.name() != backend);
        let others = answers(&others, timeout).await;
        Ok(Some(Self { written, member: backend.to_owned(), others }))
    }
}

impl Greeting for MemberGreeting {
    fn begin(&self) -> Option<Exchange> {
        let (headers, body) = form_body([("q", QUERY)].into_iter());
        let Self { written, member, others } = self.clone();
        let judge = move |answer: &Whole| {
            let mut answers = others;
            answers.insert(member.clone(), MemberAnswer::read(answer.status, &answer.body));
            let (mut fitness, _) = judge(&written, answers);
            fitness.remove(&member).unwrap_or(Ok(()))
        };
        Some(Exchange { headers, body, judge: Box::new(judge) })
    }
}
