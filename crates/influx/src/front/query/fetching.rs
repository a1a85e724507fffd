//! `/query` of a cluster where the query runs here: members are asked for its points, and its
//! answer goes out as it is made.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::mpsc;

use flow::memory::MemoryShare;
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::QueryError;
use store::query::context::Context;
use store::query::encode::{self, Epoch, Format};

use super::{JOINED_RESULT_MAX, READ_FACTOR, Request};
use crate::backends::Backend;
use crate::front::answer::{self, Answer};
use crate::front::ask::QueryFuture;
use crate::front::fetch::{Documents, Fetch, FetchOutcome, FetchPlan, MemberPoints, gather};
use crate::front::metrics::QueryWay;
use crate::front::parameters::AnswerUse;
use crate::front::passed::BACKEND;
use crate::front::results;
use crate::front::routing::{Answering, Candidates, Route};
use crate::placement::SetNumber;

/// What a client hears where a thread did not come to its end.
const BROKE_OFF: &str = "the query broke off; see the log";

/// A query that runs here, and the sets whose points it needs.
type Fetched<'a> = (&'a [SetNumber], &'a FetchPlan);

impl Request<'_> {
    /// Answers with the result of the only statement.
    pub(super) async fn fetch(
        &self,
        q: &str,
        fetched: Fetched<'_>,
        (answering, now_ns): (&Answering, i64),
    ) -> Result<Answer, Answer> {
        let context = self.fetch_context(now_ns);
        let Some(mut begun) = self.begin(self.front.gateway.fetches(), context, q).await? else {
            return Ok(answer::empty(StatusCode::NO_CONTENT));
        };
        let context = begun.context.clone();
        let fetch = tokio::select! {
            fetch = self.asked(fetched, answering, &context) => fetch?,
            () = begun.client.left() => return Ok(answer::empty(StatusCode::NO_CONTENT)),
        };
        self.execute(begun, move |context, format, out| -> QueryFuture {
            Box::pin(async move {
                let mut encoder = encode::new(format, out);
                fetch.run(0, &context, encoder.as_mut()).await;
                let _ = encoder.finish();
            })
        })
        .await
    }

    /// The result of one of several statements.
    pub(super) async fn fetched(
        &self,
        text: &str,
        fetched: Fetched<'_>,
        answering: &Answering,
        share: &mut MemoryShare,
    ) -> Result<Value, Answer> {
        let Answering::Sets(_, now_ns) = answering else { return Ok(json!({})) };
        let gateway = &self.front.gateway;
        let context = self.fetch_context(*now_ns);
        let Some(begun) = self.begin(gateway.fetches(), context, text).await? else {
            return Ok(json!({}));
        };
        let fetch = self.asked(fetched, answering, &begun.context).await?;
        let (context, epoch) = (begun.context.clone(), Epoch::of(self.parameters.get("epoch")));
        let whole = gateway.control.spawn_blocking(move || whole(fetch, &context, epoch)).await;
        drop(begun);
        let document = match whole {
            Ok(Ok(document)) => document,
            Ok(Err(words)) => return Ok(json!({ "error": words })),
            Err(_) => return Ok(json!({ "error": BROKE_OFF })),
        };
        let bytes = document.len();
        if !share.grow(bytes.saturating_mul(READ_FACTOR)) {
            return Err(gateway.no_answer_memory());
        }
        Ok(gateway.aside.run_if_long(bytes, move || results::single(&document)).await?)
    }

    fn fetch_context(&self, now_ns: i64) -> Context {
        let gateway = &self.front.gateway;
        let limits = gateway.live().fetch.query.clone();
        let (db, rp) = (self.parameters.get("db"), self.parameters.get("rp"));
        let mut context = gateway.fetches().context_within(limits, db, rp, now_ns);
        context.chunk_size = self.format().chunk_size;
        context
    }

    /// Asks members until the answer can be made of what they bring.
    async fn asked(
        &self,
        (sets, plan): Fetched<'_>,
        answering: &Answering,
        context: &Context,
    ) -> Result<Fetch, Answer> {
        let gateway = &self.front.gateway;
        let (mut plan, mut outcome) =
            (Cow::Borrowed(plan), self.gathered((sets, plan), answering, context).await?);
        if let Ok(FetchOutcome::ByPoints) = outcome {
            gateway.metrics.routed(QueryWay::Fetched);
            plan = Cow::Owned(plan.by_points());
            outcome = self.gathered((sets, &plan), answering, context).await?;
        }
        match outcome {
            Err(error) => Ok(Fetch::Failed(error)),
            Ok(FetchOutcome::ByPoints) => Ok(Fetch::Failed(QueryError(BROKE_OFF.to_owned()))),
            Ok(FetchOutcome::Held(points)) => {
                Ok(Fetch::Held(Box::new(plan.select().clone()), points))
            }
            Ok(FetchOutcome::Streamed(raw)) => {
                gateway.metrics.routed(QueryWay::Streamed);
                let text = plan.streamed_text(&raw);
                let members = self.members(sets, (&text, AnswerUse::Streamed), answering).await?;
                let (cancel, control) = (&context.cancel, &gateway.control);
                let points = |member| MemberPoints::of(member, &raw, cancel, control);
                let members = members.into_iter().map(points).collect();
                Ok(Fetch::Streamed(raw, members))
            }
        }
    }

    /// What the members answer to a plan, read on a thread that may be held.
    async fn gathered(
        &self,
        (sets, plan): Fetched<'_>,
        answering: &Answering,
        context: &Context,
    ) -> Result<Result<FetchOutcome, QueryError>, Answer> {
        let gateway = &self.front.gateway;
        let bounds = gateway.live().fetch.rows;
        let members = self.members(sets, (plan.text(), AnswerUse::Fetched), answering).await?;
        let control = gateway.control.clone();
        let of_thread = (plan.clone(), context.clone());
        let gathered = control.clone().spawn_blocking(move || {
            let (plan, context) = of_thread;
            control.block_on(gather(&plan, members, bounds, &context))
        });
        let broke_off = |_| answer::error(StatusCode::INTERNAL_SERVER_ERROR, BROKE_OFF);
        gathered.await.map_err(broke_off)
    }

    /// The answer of a member of each set; all are asked at the same time.
    async fn members(
        &self,
        sets: &[SetNumber],
        asked: (&str, AnswerUse),
        answering: &Answering,
    ) -> Result<Vec<Documents>, Answer> {
        let backends = &self.front.gateway.deliveries.backends;
        let members = sets
            .iter()
            .map(|set| self.member(answering.candidates(backends, &Route::Set(*set)), asked));
        try_join_all(members).await
    }

    /// The answer of the first of them that begins one: nothing of it has gone out before.
    async fn member(
        &self,
        mut from: Candidates,
        (text, use_of): (&str, AnswerUse),
    ) -> Result<Documents, Answer> {
        let mut reasons = Vec::new();
        while !from.backends.is_empty() {
            let answer = self.forward(from.clone(), text, use_of, &HeaderMap::new()).await?;
            let name = answer.headers().get(BACKEND).cloned();
            let mut documents = Documents::of(answer);
            match documents.begin().await {
                Ok(()) => return Ok(documents),
                Err(words) => reasons.push(words),
            }
            let is_it = |backend: &Backend| name.as_ref().is_none_or(|name| name == backend.name());
            from.backends.retain(|backend| !is_it(backend));
        }
        self.front.gateway.metrics.query_failed();
        Err(answer::unavailable(&from.unanswered(&reasons), 1))
    }
}

/// The whole document of a query, with its result as the only one.
fn whole(fetch: Fetch, context: &Context, epoch: Option<Epoch>) -> Result<Vec<u8>, String> {
    let (sender, pieces) = mpsc::channel();
    let mut bytes = 0_usize;
    let out: encode::Out = Box::new(move |piece| {
        bytes = bytes.saturating_add(piece.len());
        match bytes > JOINED_RESULT_MAX || sender.send(piece).is_err() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let mut encoder = encode::new(Format { epoch, ..Format::default() }, out);
    // Nothing holds it up: it has no flow control.
    let _ = fetch.run(0, context, encoder.as_mut()).now_or_never();
    let is_whole = encoder.finish().is_continue();
    drop(encoder);
    match is_whole {
        true => Ok(pieces.iter().flatten().collect()),
        false => Err(format!(
            "the result is longer than {} MiB; send its statement alone",
            JOINED_RESULT_MAX >> 20
        )),
    }
}
