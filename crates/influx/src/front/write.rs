//! `/write` and `/api/v2/write`: from a request to a journal record, and to 204 once it is safe.

use std::time::Instant;

use http::StatusCode;
use http::request::Parts;
use hyper::body::Incoming;
use watch::watchdog::Stage;
use wire::line::{self, Precision};

use super::answer::{self, Answer};
use super::destination::{Destination, Resolved};
use super::http::Connection;
use super::parameters::{self, WriteParameters};
use super::{Front, body};

/// Which of InfluxDB's write endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/write`.
    V1,
    /// `/api/v2/write`, as InfluxDB 1.8 maps it.
    V2,
}

/// Answers a write.
pub async fn serve(
    front: &Front,
    connection: &Connection,
    api: Api,
    head: &Parts,
    body: Incoming,
) -> Answer {
    let parameters = WriteParameters::parse(head.uri.query().unwrap_or_default());
    let write = Write { front, connection, api, head, parameters };
    write.answer(body).await.unwrap_or_else(|refusal| refusal)
}

struct Write<'a> {
    front: &'a Front,
    connection: &'a Connection,
    api: Api,
    head: &'a Parts,
    parameters: WriteParameters<'a>,
}

impl Write<'_> {
    /// The checks stand in InfluxDB's order, so that a request with several faults hears of the
    /// same one from both.
    async fn answer(&self, body: Incoming) -> Result<Answer, Answer> {
        let gateway = &self.front.gateway;
        let (name, password) = (&self.parameters.user, &self.parameters.password);
        let user = gateway.auth.user(name.clone(), password.clone(), &self.head.headers).await?;
        let precision = self.precision()?;
        let (db, rp) = self.target()?;
        let destination = self.destination(db, rp).await?;
        if let Some(user) = user.filter(|user| !user.may_write(db)) {
            let name = &user.name;
            let message = format!("{name:?} user is not authorized to write to database {db:?}");
            return Err(answer::error(StatusCode::FORBIDDEN, &message));
        }
        let live = gateway.live();
        let body = body::read(&self.head.headers, body, live.limits).await?;
        self.connection.progress.serving();

        let begun = Instant::now();
        let mut outcome = self.parse(&body, precision, live.settings.unsigned_integers);
        drop(body);
        let parsed = Instant::now();
        gateway.metrics.parsed(parsed - begun, &outcome);
        if outcome.points + outcome.dropped == 0 {
            return verdict(&outcome);
        }
        self.consistency()?;
        let Some(destination) = destination else {
            let message = format!("retention policy not found: {rp}");
            return Err(answer::error(StatusCode::INTERNAL_SERVER_ERROR, &message));
        };
        self.check(&destination, &mut outcome);
        if outcome.points > 0 {
            self.front.append_points(db, &destination, outcome.points).await?;
            gateway.metrics.acknowledged(begun, parsed, outcome.points);
        }
        verdict(&outcome)
    }

    /// Takes out what the embedded store would refuse: InfluxDB drops such a point whole and says
    /// so, before the lines it could not read.
    fn check(&self, destination: &Destination, outcome: &mut line::Outcome) {
        let mut points = self.front.points.borrow_mut();
        if let Some(checked) = self.front.check(destination, &mut points)
            && checked.dropped > 0
        {
            outcome.points = checked.kept;
            outcome.dropped += checked.dropped;
            outcome.reason = checked.reason.or(outcome.reason.take());
        }
    }

    /// Where the points go; `None` where the database has no policy of that name.
    async fn destination(&self, db: &str, rp: &str) -> Result<Option<Destination>, Answer> {
        match self.front.gateway.resolve(db, rp).await? {
            Resolved::To(destination) => Ok(Some(destination)),
            Resolved::NoPolicy => Ok(None),
            Resolved::NoDatabase => {
                let message = format!("database not found: {db:?}");
                Err(answer::error(StatusCode::NOT_FOUND, &message))
            }
        }
    }

    /// Leaves the points in the worker's buffer, which nobody else uses before they are appended.
    fn parse(&self, body: &[u8], precision: Precision, unsigned: bool) -> line::Outcome {
        let _stage = self.front.worker.pulse.enter(Stage::Parse);
        let mut points = self.front.points.borrow_mut();
        points.clear();
        let stamp = self.connection.stamp.tags();
        let options = line::Options { precision, now_ns: super::now_ns(), stamp, unsigned };
        line::normalise(body, &options, &mut points)
    }

    fn precision(&self) -> Result<Precision, Answer> {
        let text = &*self.parameters.precision;
        let (known, allowed) = match self.api {
            Api::V1 => (Precision::parse_v1(text), "n, u, ms, s, m or h"),
            Api::V2 => (Precision::parse_v2(text), "ns, us, ms or s"),
        };
        known.ok_or_else(|| {
            let message = format!("invalid precision {text:?} (use {allowed})");
            answer::error(StatusCode::BAD_REQUEST, &message)
        })
    }

    fn target(&self) -> Result<(&str, &str), Answer> {
        match self.api {
            Api::V1 if self.parameters.db.is_empty() => {
                Err(answer::error(StatusCode::BAD_REQUEST, "database is required"))
            }
            Api::V1 => Ok((&self.parameters.db, &self.parameters.rp)),
            Api::V2 => parameters::bucket(&self.parameters.bucket)
                .map_err(|why| answer::error(StatusCode::NOT_FOUND, &why)),
        }
    }

    /// Checked for its form only: how many copies there are is for the file to say.
    fn consistency(&self) -> Result<(), Answer> {
        match &*self.parameters.consistency.to_ascii_lowercase() {
            "" | "any" | "one" | "quorum" | "all" => Ok(()),
            _ => Err(answer::error(StatusCode::BAD_REQUEST, "invalid consistency level")),
        }
    }
}

/// 204, or InfluxDB's 400 where a line was bad or dropped.
fn verdict(outcome: &line::Outcome) -> Result<Answer, Answer> {
    match outcome.refusal() {
        None => Ok(answer::empty(StatusCode::NO_CONTENT)),
        Some(why) => Err(answer::error(StatusCode::BAD_REQUEST, &why)),
    }
}
